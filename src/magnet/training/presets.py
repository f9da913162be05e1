"""Named settings: the paper's optimal ones (its appendix), and those that serve better here.

Nothing here imports torch. A preset is a set of changes to the defaults of `TrainConfig`, which are the paper's; it
may differ by method.
"""

import dataclasses
from typing import Any

from magnet.errors import UserError, did_you_mean
from magnet.training.config import TrainConfig

Changes = dict[str, Any]


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

_PRETRAINED = {"dim": 512, "flip": True, "freeze_batchnorm": True, "learning_rate": 0.01, "trunk_rate": 0.03,
               "schedule": "cosine", "epochs": 8}  # fmt: skip

_PRETRAINED_TRIPLET = {"alpha": 0.798, "impostor_fraction": 0.01}

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
    # Fine-tuning a network that brings its weights. Rates chosen on a validation part of Oxford-IIIT Pet's images with
    # EfficientNet-Lite0, the other settings on its frozen features.
    "pretrained": {
        "magnet": _PRETRAINED
        | {"alpha": 3.88, "scaling": 3.26, "clusters_per_class": 2, "clusters_per_batch": 24, "examples_per_cluster": 2,
           "own_mean": "leave-one-out"},
        "softmax": _PRETRAINED | {"learning_rate": 0.03},
        "triplet": _PRETRAINED | _PRETRAINED_TRIPLET,
        "semantic-triplet": _PRETRAINED | _PRETRAINED_TRIPLET,
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
}


def start_note(config: TrainConfig) -> str:
    """What must be known of a paper preset that starts from scratch; "" for all others.

    The paper starts all of its networks from three epochs of ImageNet (section 4). `paper/default` names no network.
    """
    if not config.preset.startswith("paper/") or config.backbone != "googlenet":
        return ""
    if config.weights or config.warm_start or config.warm_start_epochs:
        return ""
    return (
        f"{config.preset} starts from scratch here, where the paper starts from three epochs of ImageNet: give "
        "--warm-start RUN (a softmax run) or --weights FILE"
    )


def kind_of(data: str) -> str:
    """ "vectors" or "images", by what the data is called, without opening it."""
    return "vectors" if data == "digits" or data.lower().endswith(".npz") else "images"


def with_preset(config: TrainConfig) -> TrainConfig:
    """The configuration with the changes of its preset; "auto" is decided by the kind of data.

    A configuration that asks for a random start, or for a network that cannot have another, has the changes for that.
    """
    name = kind_of(config.data) if config.preset == "auto" else config.preset
    if name not in PRESETS:
        raise UserError(f"no preset {name!r}{did_you_mean(name, PRESETS)} There are: auto, {', '.join(PRESETS)}")
    random = config.start == "random" or config.backbone == "mlp"
    by_method = FROM_RANDOM[name] if random and name in FROM_RANDOM else PRESETS[name]
    changes = by_method.get(config.method, by_method.get("", {}))
    given: Changes = {} if config.backbone == "auto" else {"backbone": config.backbone}
    merged: Changes = {"start": "random", "preset": name} | changes | given
    return dataclasses.replace(config, **merged)
