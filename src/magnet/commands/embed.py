"""magnet embed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from magnet.commands.terminal import Inputs, RunFolder, check_inputs, open_run, read_options
from magnet.data.sources import find_source
from magnet.errors import UserError, check_at_least
from magnet.files import check_file, writing
from magnet.training.config import check_range, check_run

if TYPE_CHECKING:
    from magnet.runs.run import Run

HELP = """Write the representations of images or vectors to an .npz.

Of labelled data it holds X (n, d), y, classes, name and, with all parts in it, split; it can be given to --data again.
The data need not have the classes that the run was trained on; classes that the run merged are written as the data has
them. Of photos or vectors without labels it holds X and name.

examples:
  magnet embed runs/photos holiday/ --out holiday.npz
  magnet embed runs/photos --data photos/ --out photos.npz
  magnet embed runs/photos --data pets:oxford-iiit-pet --part test --out test.npz
  magnet embed runs/photos holiday/ --dims 64 --out short.npz
"""


@dataclass(frozen=True)
class Embed:
    """The options of `magnet embed`."""

    run: RunFolder
    out: Path
    """The .npz to write."""
    inputs: Inputs = ()
    data: str = ""
    """Labelled data to embed, written as for `magnet train`, instead of inputs without labels."""
    label: str = ""
    """The column of the labels in the labelled data (default: that of the run)."""
    part: Literal["train", "validation", "test", "all"] = "all"
    """Which part of the labelled data."""
    checkpoint: Literal["best", "last"] = "best"
    """best: by validation, or the last where there was none."""
    test_draws: int = 1
    """Augmented views to average for each image (1: the plain view)."""
    dims: int = 0
    """Shorter representations: so many dimensions, those that tell classes apart first (0: all)."""
    force: bool = False
    """Overwrite the file."""


def main(arguments: Sequence[str]) -> None:
    """Embed and write."""
    options = read_options(Embed, "embed", HELP, arguments)
    check_file(options.out, force=options.force, kinds=(".npz",))
    check_range("test_draws", options.test_draws)
    if bool(options.data) == bool(options.inputs):
        raise UserError("give what to embed: photos, folders or vectors, or labelled data as --data; one of the two")
    check_at_least("dims", options.dims, 0)
    check_run(options.run)
    check_inputs(options.inputs)
    if options.data:
        find_source(options.data, label=options.label)
    elif options.label or options.part != "all":
        raise UserError("--label and --part are of labelled data: give it as --data")

    with open_run(options.run, which=options.checkpoint, test_draws=options.test_draws, need_data=False) as run:
        arrays = _labelled(run, options) if options.data else _unlabelled(run, options.inputs)
        if options.dims:
            arrays["X"] = arrays["X"] @ run.directions(options.dims).T.numpy()
    write_arrays(options.out, arrays)
    count, dim = arrays["X"].shape
    print(f"{count} representations of {dim} dimensions are in {options.out}")


def _labelled(run: "Run", options: Embed) -> dict[str, Any]:
    """The arrays of data with classes."""
    import numpy as np

    from magnet.data.listings import TEST
    from magnet.runs.evaluate import open_like

    data, part = open_like(run, options.data, options.label), options.part
    labels, classes = data.fine_labels, data.fine_classes  # of a run on merged classes
    if labels is None or classes is None:
        labels, classes = data.labels, data.classes
    rows = data.indices(part)
    if not len(rows):
        raise UserError(f"{data.spec} has no {part} part")
    arrays: dict[str, Any] = {
        "X": run.embed(rows, data, test=True).numpy(),
        "y": labels[rows].numpy(),
        "classes": np.array(classes),
        "name": np.array([data.names[i] for i in rows.tolist()]),
    }
    if part == "all":  # a single part is not a split: a new one is drawn when the file is read
        arrays["split"] = np.minimum(data.split, TEST)  # examples added after the training count as test examples
    return arrays


def _unlabelled(run: "Run", inputs: Sequence[Path]) -> dict[str, Any]:
    """The arrays of photos or vectors of which no class is known."""
    import numpy as np

    from magnet.commands.inputs import embed_queries, read_queries

    queries = read_queries(run.kind, run.shape, inputs)
    return {"X": embed_queries(run, queries, test=True).numpy(), "name": np.array(queries.names)}


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write an .npz whole or not at all."""
    import numpy as np

    with writing(path) as draft, draft.open("wb") as file:
        np.savez(file, **arrays)
