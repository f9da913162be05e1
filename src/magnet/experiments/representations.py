"""Representations of the test part: computed once for a run and kept beside its weights."""

import numpy as np
import torch
from torch import Tensor

from magnet.files import replacing
from magnet.training.run import Run


def of_test_part(run: Run) -> Tensor:
    """Representations (n, d) of the test examples of a finished run, in the order of the data."""
    path = run.folder / "test-representations.npy"
    if path.is_file():
        return torch.from_numpy(np.load(path))
    found = run.embed(run.data.indices("test"), test=True)
    with replacing(path) as draft, draft.open("wb") as file:
        np.save(file, found.numpy())
    return found
