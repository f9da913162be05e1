"""The cached embeddings of a run's training set: with them, using the run takes neither the data nor a pass over it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from magnet.checks import check_ids, check_representations
from magnet.data import Dataset
from magnet.files import file_digest, replacing
from magnet.index import ClusterIndex
from magnet.training.config import REVISION, TrainConfig
from magnet.votes import Votes

_FORMAT = "magnet-memory/3"  # in the file: read by its exact name
_NO_MATTER = ("out", "test_draws", "workers", "device", "quiet", "evaluate", "tensorboard")


@dataclass(frozen=True)
class CachedEmbeddings:
    """The training part under the weights of one checkpoint."""

    representations: Tensor  # (N, d)
    labels: Tensor  # (N,)
    index: ClusterIndex
    names: list[str]  # of the examples
    classes: list[str]
    kind: Literal["vectors", "images"]
    shape: tuple[int, ...]  # of one example
    digest: str  # of the data, as a whole
    votes: dict[str, Votes]  # of kNC and soft kNN, where they were chosen; empty: the paper's
    voting: Tensor  # (J, d) the centres that vote: those of the index, or refined ones

    @classmethod
    def of(
        cls,
        data: Dataset,
        rows: Tensor,
        representations: Tensor,
        index: ClusterIndex,
        votes: dict[str, Votes],
        voting: Tensor,
    ) -> Self:
        """The embeddings (N, d) of the examples ``rows`` (N,), and what else must be known of them to use a run."""
        names, digest = [data.names[i] for i in rows.tolist()], data.digest.whole
        about = (names, data.classes, data.kind, data.shape, digest)
        return cls(representations, data.labels[rows], index, *about, votes, voting)

    def fits(self, data: Dataset) -> bool:
        """Whether the data still is what was embedded."""
        return self.digest == data.digest.whole

    def save(self, path: Path, key: str) -> None:
        """Write one safetensors file, whole or not at all."""
        about = {name: getattr(self, name) for name in ("names", "classes", "kind", "shape", "digest")}
        about["votes"] = {name: votes._asdict() for name, votes in self.votes.items()}
        text = torch.frombuffer(bytearray(json.dumps(about).encode()), dtype=torch.uint8)
        tensors = {"representations": self.representations, "labels": self.labels, "about": text, "voting": self.voting}
        tensors |= {f"index.{name}": tensor for name, tensor in self.index.tensors().items()}
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as draft:
            save_file({k: v.contiguous() for k, v in tensors.items()}, draft, {"format": _FORMAT, "key": key})

    @classmethod
    def load(cls, path: Path, key: str) -> Self | None:
        """What `save` wrote under the same key; None where there is no such file, or it is stale or broken."""
        try:
            with safe_open(path, framework="pt") as file:
                if file.metadata() != {"format": _FORMAT, "key": key}:
                    return None
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads(bytes(tensors.pop("about").numpy()))
            representations, labels = tensors.pop("representations"), tensors.pop("labels")
            voting = tensors.pop("voting")
            index = ClusterIndex(**{name.removeprefix("index."): tensor for name, tensor in tensors.items()})
            check_representations(representations)
            check_ids(labels, len(representations), "labels")
            check_ids(index.assignments, len(representations), "assignments")
            check_representations(voting)
            if voting.shape != index.centres.shape:
                return None
            about["votes"] = {name: Votes(**votes) for name, votes in about["votes"].items()}
            if len(about["names"]) != len(labels) or int(labels.max()) >= len(about["classes"]):
                return None
            about["shape"] = tuple(about["shape"])
            return cls(representations, labels, index, voting=voting, **about)
        except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError):
            return None


def cache_key(checkpoint: Path, config: TrainConfig) -> str:
    """A fingerprint of all that the representations and clusters depend on, apart from the data."""
    settings = {name: value for name, value in config.to_dict().items() if name not in _NO_MATTER}
    known = [REVISION, file_digest(checkpoint / "learner.safetensors"), settings]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def drop_stale(folder: Path, checkpoints: Path) -> None:
    """Remove what is cached for checkpoints that are no longer there."""
    for path in [*folder.glob("step-*.safetensors"), *folder.glob("step-*.json")]:
        if not (checkpoints / path.name.partition(".")[0]).is_dir():
            path.unlink(missing_ok=True)
