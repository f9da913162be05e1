"""Logistic regression, tuned in the same way in every experiment that compares Magnet with it."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from magnet.recipe import MOST
from magnet.start import Start
from magnet.votes import Examples, stratified_folds, stratified_part

FOLDS = 3  # of the cross-validation that chooses
C_VALUES = tuple(10 ** (power / 2) for power in range(-8, 5))  # 0.0001 to 100, for features of mean variance 1
PRECISION = 1e-5  # of the gradient: where classes are many, scikit-learn's own stops after a few steps
Space = Callable[[Examples], Start]


class CommonScaler(StandardScaler):  # type: ignore[misc]
    """Centres the features and divides all of them by one number, so that their mean variance is 1.

    >>> CommonScaler().fit_transform([[0.0, 0.0], [2.0, 14.0]])
    array([[-0.2, -1.4],
           [ 0.2,  1.4]])
    """

    def fit(self, X: NDArray[np.floating], y: object = None) -> "CommonScaler":
        """Learn the mean of each feature and the common scale from X (n, d)."""
        super().fit(X)
        self.scale_ = np.full_like(self.var_, np.sqrt(self.var_.mean()) or 1.0)
        return self


def tuned_logistic(examples: Examples, *, space: Space | None = None, loss: str = "error", seed: int = 0) -> Pipeline:
    """A logistic regression with settings chosen by stratified three-fold cross-validation, not yet fitted.

    The settings are C, and whether each feature is standardised or all are divided by one number. Of more than
    20,000 examples they are chosen on a stratified subset of that size.

    Args:
        examples: the training part: x (n, d) and labels (n,).
        space: fits a start to some examples; each fold has its own, so that the examples held out have no
            part in it. The regression is to be fitted in that space. None: the features themselves.
        loss: held out, what is to be least: "error" or "log-loss". Of equal ones the smallest C is taken.
        seed: of the folds.

    Examples:
        >>> import torch
        >>> x = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> model = tuned_logistic(Examples(x, y)).fit(x.numpy(), y.numpy())
        >>> round(model.score(x.numpy(), y.numpy()), 2)
        0.99
    """
    chosen_by = examples.take(stratified_part(examples.labels, MOST, seed))
    fold = stratified_folds(chosen_by.labels, FOLDS, seed)
    scalers = (StandardScaler(), CommonScaler())
    losses = np.zeros((len(scalers), len(C_VALUES)))
    for number in range(FOLDS):
        part, held = chosen_by.take((fold != number).nonzero()[:, 0]), chosen_by.take((fold == number).nonzero()[:, 0])
        if space is not None:
            fitted = space(part)
            part, held = Examples(fitted(part.x), part.labels), Examples(fitted(held.x), held.labels)
        for row, scaler in zip(losses, scalers, strict=True):
            row += list(_path(scaler, part, held, loss))
    scaler, level = np.unravel_index(losses.argmin(), losses.shape)
    return logistic(scalers[scaler], C_VALUES[level])


def logistic(scaler: StandardScaler, C: float) -> Pipeline:
    """A logistic regression with given settings, not yet fitted."""
    return Pipeline([("scale", scaler), ("fit", _regression(C=C))])


def _path(scaler: StandardScaler, part: Examples, held: Examples, loss: str) -> Iterator[float]:
    """The held-out loss for each C, ascending: each fit goes on from the last one."""
    X, y, truth = scaler.fit_transform(part.x.numpy()), part.labels.numpy(), held.labels.numpy()
    queries = scaler.transform(held.x.numpy())
    model = _regression(C=1.0, warm_start=True)
    for C in C_VALUES:
        votes = model.set_params(C=C).fit(X, y).predict_proba(queries)
        if loss == "error":
            yield float((model.classes_[votes.argmax(axis=1)] != truth).mean())
        else:
            yield float(log_loss(truth, votes, labels=model.classes_))


def _regression(**settings: float | bool) -> LogisticRegression:
    return LogisticRegression(tol=PRECISION, max_iter=1000, **settings)
