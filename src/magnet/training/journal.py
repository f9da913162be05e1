"""metrics.jsonl: one line for each thing that happened, and the same to TensorBoard if wanted."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError
from magnet.files import replacing


class Journal:
    """Appends records to ``metrics.jsonl``. A resumed run first drops what came after its checkpoint."""

    def __init__(self, folder: Path, *, resume_at: int | None = None, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        kept = [] if resume_at is None else [r for r in read_journal(folder) if r["step"] <= resume_at]
        kept = [record for record in kept if record["kind"] != "time"]  # written once, at the end, over all sessions
        with replacing(self.path) as draft:
            draft.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")
        self._board = _board(folder, resume_at) if tensorboard else None

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Note ``values`` under a kind: train, refresh, validation, time."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)
                elif name == "impostor_classes" and value:
                    classes = np.repeat([int(c) for c in value], list(value.values()))
                    self._board.add_histogram(f"{kind}/{name}", classes, step, bins=len(value))

    def close(self) -> None:
        """Finish the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """All records of a run; a last line cut short by a crash is left out."""
    path = folder / "metrics.jsonl"
    records: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return records


def _board(folder: Path, resume_at: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError("--tensorboard needs TensorBoard: pip install 'magnet[tensorboard]'") from error
    return SummaryWriter(str(folder / "tensorboard"), purge_step=None if resume_at is None else resume_at + 1)
