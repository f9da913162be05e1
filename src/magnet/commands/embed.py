"""magnet embed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from magnet.commands.terminal import RunFolder, open_run, progress, read_options, say_notes
from magnet.errors import UserError
from magnet.files import replacing

HELP = """Write the representations of labelled images or vectors to an .npz.

It holds X (n, d), y, classes, name and, with all parts in it, split; it can be given to --data again. The data need
not have the classes that the run was trained on; classes that the run merged are written as the data has them.

examples:
  magnet embed runs/photos --data photos/ --out photos.npz
  magnet embed runs/photos --data pets:oxford-iiit-pet --part test --out test.npz
"""


@dataclass(frozen=True)
class Embed:
    """The options of `magnet embed`."""

    run: RunFolder
    data: str
    """What to embed, written as for `magnet train`."""
    out: Path
    """The .npz to write."""
    part: Literal["train", "validation", "test", "all"] = "all"
    """Which part of the data."""
    checkpoint: Literal["best", "last"] = "best"
    """best: by validation, or the last where there was none."""
    test_draws: int = 1
    """Augmented views to average for each image (1: the plain view)."""
    force: bool = False
    """Overwrite the file."""


def main(arguments: Sequence[str]) -> None:
    """Embed and write."""
    options = read_options(Embed, "embed", HELP, arguments)
    if options.out.suffix.lower() != ".npz":
        raise UserError(f"--out {options.out} must end in .npz")
    if options.out.is_dir() or (options.out.exists() and not options.force):
        raise UserError(f"{options.out} exists already: give another --out, or --force to overwrite it")
    if options.test_draws < 1:
        raise UserError(f"--test-draws must be at least 1; found {options.test_draws}")

    import numpy as np

    from magnet.data.listings import TEST
    from magnet.runs.evaluate import open_like

    with progress("embedding") as report:
        run = open_run(
            options.run,
            which=options.checkpoint,
            test_draws=options.test_draws,
            need_data=False,
            report=report,
        )
        say_notes(run.notes)
        data = open_like(run, options.data)
        labels, classes = data.fine_labels, data.fine_classes  # of a run on merged classes
        if labels is None or classes is None:
            labels, classes = data.labels, data.classes
        rows = data.indices(options.part)
        if not len(rows):
            raise UserError(f"{data.spec} has no {options.part} part")
        arrays: dict[str, Any] = {
            "X": run.embed(rows, data, test=True).numpy(),
            "y": labels[rows].numpy(),
            "classes": np.array(classes),
            "name": np.array([data.names[i] for i in rows.tolist()]),
        }
    if options.part == "all":  # one part alone is no split: whoever reads the file makes a new one
        arrays["split"] = np.minimum(data.split, TEST)  # what came after the training was not trained on
    _write(options.out, arrays)
    print(f"{len(rows)} representations of {arrays['X'].shape[1]} dimensions are in {options.out}")


def _write(path: Path, arrays: dict[str, Any]) -> None:
    """Write an .npz whole or not at all."""
    import numpy as np

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error}") from error
