"""What was measured of a run for its report; kept in the run folder, so that the next report is there at once."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from magnet.files import read_json, replacing
from magnet.runs.embeddings import cache_key
from magnet.training.config import read_config
from magnet.training.folder import find_checkpoint

_FORMAT = 3


@dataclass(frozen=True)
class Findings:
    """Plain values only, as JSON holds them."""

    evaluation: dict[str, Any]  # of `magnet.runs.evaluate.evaluate`, which keeps it itself
    impostors: dict[str, list[dict[str, Any]]]  # of each of its worst classes: see `rivals`
    sigma: float  # the unit of their distances
    attributes: dict[str, Any] | None  # see `attribute_findings`; None: the data has none
    examples: str  # a fingerprint of the examples that were evaluated
    digest: str  # of the data, as a whole
    seconds: float  # that measuring took, with the evaluation

    def save(self, folder: Path) -> None:
        """Keep them in the cache of the run; where that cannot be written, they are measured again next time."""
        path, key = _place(folder)
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            with replacing(path) as draft:
                draft.write_text(json.dumps({**asdict(self), "key": key, "evaluation": None}), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, evaluation: dict[str, Any]) -> "Findings | None":
        """What was measured of this checkpoint under these settings, if it was, beside its evaluation."""
        path, key = _place(folder)
        with suppress(OSError, ValueError, TypeError, AttributeError):
            known = read_json(path)
            if known.pop("key", None) == key:
                return cls(**{**known, "evaluation": evaluation})
        return None


def _place(folder: Path) -> tuple[Path, str]:
    """The file, and the mark of all that findings depend on apart from the data."""
    checkpoint, config = find_checkpoint(folder / "checkpoint"), read_config(folder)
    key = f"{_FORMAT}/{cache_key(checkpoint, config)}/{config.test_draws}"
    return folder / "cache" / f"{checkpoint.name}.report.json", hashlib.sha256(key.encode()).hexdigest()
