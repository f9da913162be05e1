"""Which examples of a data set a run can be asked about: those whose classes it knows, matched by name."""

from typing import NamedTuple

import torch
from torch import Tensor

from magnet.data import Dataset, open_data
from magnet.errors import UserError
from magnet.training.data_record import merge_again, restore_parts
from magnet.training.run import Run
from magnet.training.workbench import absolute


class Matched(NamedTuple):
    """Examples to evaluate."""

    data: Dataset
    rows: Tensor  # (n,) ids into data
    labels: Tensor  # (n,) classes as the run numbers them
    left_out: int  # examples of the part whose class the run does not know
    unknown: list[str]  # those classes


def match(run: Run, data: Dataset, part: str) -> Matched:
    """The examples of a part of the data whose class names the run knows, with the run's class ids."""
    rows = data.indices(part)
    if not len(rows):
        raise UserError(f"{data.spec} has no {part} part; choose another with --part")
    ids = {name: i for i, name in enumerate(run.classes)}
    table = torch.tensor([ids.get(name, -1) for name in data.classes])
    labels = table[data.labels[rows]]
    known = labels >= 0
    strange = data.labels[rows][~known].unique().tolist()
    if not known.any():
        raise UserError(
            f"none of the {len(strange)} classes of {data.spec} is known to the run {run.folder}: "
            f"it has {_some(data.classes)}; the run knows {_some(run.classes)}. Classes are matched by name"
        )
    return Matched(data, rows[known], labels[known], int((~known).sum()), [data.classes[c] for c in strange])


def open_like(run: Run, spec: str) -> Dataset:
    """Other data, opened for a run: of the same kind, split by the same seed, decoded for its image size."""
    own = absolute(spec) == absolute(run.config.data)
    validation = run.config.validation if own else 0.0
    data = open_data(
        spec,
        seed=run.config.seed,
        validation=validation,
        on_bad_image=run.config.bad_images,
        hash_images=run.config.hash_images,
    )
    data = merge_again(run.folder, data)
    if own:
        data = restore_parts(run.folder, data)
    kind, shape = run.bench.data.kind, run.bench.data.shape
    if data.kind != kind:
        raise UserError(f"{spec} holds {data.kind}, but the run {run.folder} was trained on {kind}")
    if kind == "images":
        return data.with_image_size(run.config.image_size)
    if data.shape != shape:
        raise UserError(
            f"{spec} holds vectors of {data.shape[0]} dimensions, but the run {run.folder} was trained on {shape[0]}"
        )
    return data


def _some(names: list[str], count: int = 3) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
