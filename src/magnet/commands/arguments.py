"""Arguments that several commands take, as types."""

from pathlib import Path
from typing import Annotated

import tyro

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="The run folder.")]

Inputs = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="INPUT ...",
        help="Photos, or folders of them; for a run on vectors .npy, .npz with X, or .csv, a row for each vector.",
        help_behavior_hint="(one or more)",
    ),
]
