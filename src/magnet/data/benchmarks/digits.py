"""scikit-learn's handwritten digits: small, always there, good for a first try."""

from __future__ import annotations

import numpy as np

from magnet.data.benchmarks.source import Source
from magnet.data.listings import Listing

SOURCE = Source(
    name="digits",
    title="Handwritten digits, 64-dimensional vectors",
    classes=10,
    images=1_797,
    layout="written without a folder",
    licence="CC BY 4.0",
    url="https://scikit-learn.org/stable/datasets/toy_dataset.html",
    ask="it comes with scikit-learn; use it as --data digits.",
)


def list_digits() -> Listing:
    """1,797 vectors of 64 pixels in 0..1; the same stratified 70/30 split whatever the seed of the run."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    rows = np.arange(len(digits.target))
    _, test = train_test_split(rows, test_size=0.3, stratify=digits.target, random_state=0)
    split = np.zeros(len(rows), np.int8)
    split[test] = 2
    return Listing(
        name="digits",
        content=(digits.data / 16).astype(np.float32),
        labels=digits.target.astype(np.int64),
        classes=[str(name) for name in digits.target_names],
        names=[f"digit {i}" for i in rows],
        split=split,
    )
