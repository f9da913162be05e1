import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


@pytest.fixture
def blobs():
    """Three classes of 40 points around corners, X (120, 4) and y (120,) of 0, 1, 2."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    return 4 * np.eye(3, 4)[y] + rng.normal(size=(120, 4)) * 0.7, y


@pytest.fixture(scope="session")
def digits():
    """Training and test part: X, X_test, y, y_test."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
