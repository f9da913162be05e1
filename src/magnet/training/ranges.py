"""What every number among the settings may be, and why not more: said before anything is tried.

Nothing here imports torch.
"""

from magnet.errors import UserError
from magnet.files import Bounds, memory

STEPS = Bounds(0, 10**9, "more never end")
EPOCHS = Bounds(0, 10**6, "more never end")
WIDTH = Bounds(0, 2**20, "a wider layer has more weights than data could tell")
SHARP = Bounds(0, 1e6, "sharper votes are those of the nearest alone")

RANGES: dict[str, Bounds] = {
    "seed": Bounds(0, 2**40, "the seeds of all steps are made from it, and must fit into 64 bits"),
    "power": Bounds(0, 10, "features would overflow"),
    "shrinkage": Bounds(0, 1, "a share of the covariance", below=True, also=-1),
    "kernel_width": Bounds(0, 1e6, "in units of the median distance", also=-1),
    "epochs": Bounds(-1, 10**6, "more never end"),
    "steps": STEPS,
    "learning_rate": Bounds(0, 1e38, "beyond single precision", above=True),
    "momentum": Bounds(0, 1, "a share of the step before", below=True),
    "weight_decay": Bounds(0, 1e6, "weights would overflow"),
    "annealing": Bounds(0, 1, "the rate of each epoch is that of the one before, times this", above=True),
    "trunk_rate": Bounds(0, 1e38, "beyond single precision", above=True),
    "clip": Bounds(0, 1e12, "no gradient is longer"),
    "alpha": Bounds(0, 1e6, "losses would be lost beside it"),
    "scaling": SHARP,
    "clusters_per_class": Bounds(0, 10**6, "of K-means"),
    "start_clusters": Bounds(0, 10**6, "of K-means"),
    "clusters_per_batch": Bounds(2, 10**6, "of one batch"),
    "examples_per_cluster": Bounds(0, 10**6, "of one batch"),
    "impostor_fraction": Bounds(0, 1, "a share of the examples", above=True),
    "target_neighbours": Bounds(1, 10**6, "of one example"),
    "neighbours": Bounds(1, 10**9, "that vote"),
    "votes_scaling": SHARP,
    "votes_clusters": Bounds(0, 10**6, "of K-means"),
    "pull": Bounds(0, 1e9, "centres would not move at all"),
    "knn_scaling": SHARP,
    "knn_neighbours": Bounds(0, 10**9, "that vote"),
    "refresh_every": STEPS,
    "dim": WIDTH,
    "hidden": WIDTH,
    "dropout": Bounds(0, 1, "a probability", below=True, also=-1),
    "warm_start_epochs": EPOCHS,
    "image_size": Bounds(0, 8192, "pixels; a batch of larger images fits into no memory"),
    "rescale": Bounds(0, 10, "images are enlarged by that much"),
    "test_draws": Bounds(1, 10_000, "each is a pass over the data"),
    "max_pixels": Bounds(1, 178_956_970, "what Pillow opens at most"),
    "validation": Bounds(0, 1, "a share of the training part", below=True),
    "validate_every": Bounds(1, 10**9),
    "patience": Bounds(0, 10**9),
    "checkpoint_every": Bounds(1, 10**9),
    "keep_refreshes": Bounds(0, 10_000, "each is as large as the representations of all data"),
    "workers": Bounds(-1, 4, "more would draw batches before the losses that decide them"),
}
COPIES = 4  # of weights in training: themselves, their gradients, their momenta, and what is added to them


def check_range(name: str, value: float) -> None:
    """Raise a `UserError` unless a setting is within its range."""
    if value not in RANGES[name]:
        raise UserError(f"--{name.replace('_', '-')} must be {RANGES[name].describe()}; found {value}")


def check_memory(needed: float, what: str, options: str) -> None:
    """Raise a `UserError` where so many bytes do not fit into the memory of this machine."""
    if needed > memory():
        raise UserError(
            f"{what} takes {needed / 1e9:,.1f} GB, and this machine has {memory() / 1e9:,.1f}: lower {options}"
        )
