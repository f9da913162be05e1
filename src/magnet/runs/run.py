"""A trained run: its network, its classifiers and their calibration, its data, and its cached embeddings.

Votes, temperatures and the novelty threshold are determined by held-out examples: those of the validation part, in
their test views. Without a validation part, the training part is cross-validated in five folds: clusters are fitted to
four of them and judged on the fifth. The network was trained on all of them, so probabilities are then a little too
confident.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self, TypedDict

import torch
from torch import Tensor

from magnet.classify import STAYS_KNOWN, NearestClusters, SoftNeighbours, novelty
from magnet.data import Dataset
from magnet.data.sources import source_exists
from magnet.errors import Bounds, Count, Positive, UserError, checked
from magnet.evaluation.errors import FOLDS, MANY, Ranking, choose_temperature
from magnet.files import as_path, inside, read_record, read_tensors, write_record, write_tensors
from magnet.index import LAYOUT, ClusterIndex
from magnet.neighbours import check_whole
from magnet.start import first_directions
from magnet.training.config import CONFIG, NO_EFFECT, REVISION, TrainConfig, check_range, check_run, read_config
from magnet.training.folder import (
    FOLDER,
    LEARNER,
    Checkpoint,
    change_note,
    merge_again,
    merging_note,
    open_checkpoint,
    restore_parts,
)
from magnet.training.inputs import PASS_BATCH, Pass, Report, Views, decoding_workers, device_of, trunk_features
from magnet.training.refresh import embed
from magnet.training.workbench import make_learner, open_for
from magnet.votes import (
    PULL,
    Examples,
    Folds,
    Votes,
    choose_knc,
    choose_knn,
    cluster,
    hold_out,
    stratified_folds,
    stratified_part,
)

_FORMAT = "magnet-memory/4"  # in the file: read by its exact name
_LAYOUT = {f"index.{name}": form for name, form in LAYOUT.items()} | {
    "representations": "float N d", "labels": "int N", "voting": "float J d", "about": "byte bytes",
}  # fmt: skip

CELLS = 2**23  # in a table with a column for every class: 64 MB
MOST = 20_000  # training examples to choose votes by, without a validation part
Scores = dict[str, tuple[Tensor, Tensor]]
RuleName = Literal["knc", "knn"]


class _About(TypedDict):
    """What stands beside the tensors of cached embeddings."""

    names: list[str]
    classes: list[str]
    kind: Literal["vectors", "images"]
    shape: tuple[Count, ...]
    digest: str
    votes: dict[str, Votes]


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
    voting: Tensor  # (J, d) the centres that vote: the centres of the index, or refined ones

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
        write_tensors(path, tensors, {"format": _FORMAT, "key": key})

    @classmethod
    def load(cls, path: Path, key: str) -> Self | None:
        """What `save` wrote under the same key; None where there is no such file, or it is stale or broken."""
        try:
            tensors, about, _ = read_tensors(path, _LAYOUT)
            if about != {"format": _FORMAT, "key": key}:
                return None
            text: _About = checked(json.loads(bytes(tensors.pop("about").numpy())), _About, str(path))
            representations, labels = tensors.pop("representations"), tensors.pop("labels")
            voting = tensors.pop("voting")
            index = ClusterIndex.of_tensors({name.removeprefix("index."): t for name, t in tensors.items()})
            known = int(labels.min()) >= 0 and int(labels.max()) < len(text["classes"])
            if not known or len(text["names"]) != len(labels) or text["votes"].keys() not in (set(), {"knc", "knn"}):
                return None
            return cls(representations, labels, index, voting=voting, **text)
        except (OSError, ValueError, TypeError, RecursionError):
            return None


@dataclass(frozen=True)
class Calibration:
    """The temperatures and the novelty threshold of a run."""

    temperatures: dict[str, Positive]  # of each classifier (knc, knn, head); 1 if a temperature does not help
    log_loss: dict[str, float]  # of each classifier on the held-out examples, without a temperature
    log_loss_tempered: dict[str, float]  # with a temperature fitted to other held-out examples
    # The distance to the nearest centre, in sigma, above which an example is novel; None: unknown, nothing is novel.
    novelty_threshold: Annotated[float, Bounds(0)] | None
    held_out: Literal["validation", "train"]  # the part that the held-out examples are from
    examples: Count  # held out; 0 if every class has one example only, and all temperatures are then 1


class Run:
    """A trained run, opened for use.

    Args:
        folder: the run.
        which: "best" (by validation; the last where there was none) or "last".
        device: where to compute; "auto" takes a GPU if there is one.
        test_draws: instead of the run's own.
        need_data: False: the training data may be gone, if its embeddings are cached in the run (in ``cache/``, since
            it was last evaluated or used). Where it is there and has changed, it is embedded anew, and a note says so.
        data: stands in for what the configuration names, for a caller that has opened it already.
        report: told how many examples are embedded, of how many.

    Attributes:
        labels: (N,) the classes of the training examples.
        classes: the names of the classes, by id.
        kind, shape: of an example: "vectors" or "images".
        learner: the network and the method, in evaluation mode.
        views: what the network sees of an example.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        which: Literal["best", "last"] = "best",
        device: str = "auto",
        test_draws: int = 0,
        need_data: bool = True,
        data: Dataset | None = None,
        report: Report | None = None,
    ) -> None:
        folder = as_path(folder)
        check_run(folder)
        if which not in ("best", "last"):
            raise UserError(f'which must be "best" or "last"; found {which!r}')
        self.folder, self.report = folder, report
        self.config = read_config(folder)
        if check_whole(test_draws, "test_draws", -(10**30), 10**30):
            check_range("test_draws", test_draws)
            self.config = replace(self.config, test_draws=test_draws)
        self.checkpoint = open_checkpoint(folder / FOLDER, which)
        self.step = self.checkpoint.step
        self._edited = settings_note(self.folder, self.config, self.checkpoint)
        self.device = device_of(device)
        self._key = cache_key(self.checkpoint, self.config)
        self._cached = CachedEmbeddings.load(self._cache_file, self._key)
        self._changed = ""
        if data is None:
            data = self._open() if need_data or self._cached is None else self._other_data(self._cached)
        self._data = data
        known = data if data is not None else self._cached
        assert known is not None
        self.classes, self.kind, self.shape = known.classes, known.kind, known.shape
        self.labels = known.labels if data is None else data.labels[data.indices("train")]
        self.learner = make_learner(self.config, self.kind, self.shape, self.labels, len(self.classes), fresh=False)
        self.checkpoint.load_learner(self.learner)
        self.learner.to(self.device).eval()
        self.views = Views.of(self.config, self.learner.network)
        self._parts: dict[tuple[str, bool], Tensor] = {}

    @property
    def opened(self) -> bool:
        """Whether the training data is open."""
        return self._data is not None

    @property
    def data(self) -> Dataset:
        """The data that the run was trained on."""
        if self._data is None:
            raise UserError(f"the data of {self.folder} was left closed: open the run with need_data=True")
        return self._data

    @cached_property
    def train(self) -> Tensor:
        """The training examples (N,), ids into the data."""
        return self.data.indices("train")

    @cached_property
    def notes(self) -> list[str]:
        """What must be known of the run's data: that classes were merged, that it has changed since the run began."""
        changed = change_note(self.folder, self.data) if self.opened else self._changed
        found = [*self.checkpoint.notes, self._edited, merging_note(self.folder), changed]
        return [note for note in found if note]

    def open_data(self) -> bool:
        """Open the data that the run was trained on, if it was left closed; False if it is out of reach, or other."""
        if self._data is None:
            with suppress(UserError, OSError):
                data = self._open()
                if self.embeddings.fits(data):
                    self._data = data
        return self.opened

    def embed(self, rows: Tensor, data: Dataset | None = None, *, test: bool = False) -> Tensor:
        """Representations (n, d) of examples of the run's own or other data, on the CPU."""
        data = self.data if data is None else data
        workers = decoding_workers(self.config, self.kind)
        workers = min(workers, len(rows) // PASS_BATCH[data.kind])  # none for a handful of photos
        examples, network = Pass(data, self.views, self.device, workers, self.report), self.learner.network
        if network.frozen and network.kind == "images" and not (test and self.views.draws > 1):
            features = trunk_features(rows, network, self.config.backbone, examples)
            examples = replace(examples, data=data.as_vectors(rows, features), views=self.views.of_features())
            rows = torch.arange(len(rows))
        return embed(self.learner, rows, examples, test=test, seed=self.config.seed)

    def part(self, name: str, *, test: bool = False) -> Tensor:
        """`embed`, of a whole part of the run's own data: once for as long as the run is open."""
        if (name, test) not in self._parts:
            self._parts[name, test] = self.embed(self.data.indices(name), test=test)
        return self._parts[name, test]

    @cached_property
    def embeddings(self) -> CachedEmbeddings:
        """The training part under the run's weights: computed once, then kept in the run folder."""
        known = self._cached
        if known is not None and (not self.opened or known.fits(self.data)):
            return known
        representations = self.embed(self.train)
        votes = choose_votes(self, representations) if self.config.votes == "chosen" else {}
        index = self.clustered(representations, self.labels, votes)
        voting = index.centres.clone()
        if votes and votes["knc"].pull is not None:
            rule = votes["knc"].of_clusters(index)
            voting = rule.refined(representations, self.labels, pull=votes["knc"].pull).references
        data, names = self.data, [self.data.names[i] for i in self.train.tolist()]
        about = names, data.classes, data.kind, data.shape, data.digest.whole
        found = CachedEmbeddings(representations, self.labels, index, *about, votes, voting)
        with suppress(OSError):  # a run on a read-only or full disk can be used all the same
            inside(self.folder, self._cache_file.parent.name)
            found.save(self._cache_file, self._key)
            drop_stale(self._cache_file.parent, self.checkpoint.path.parent)
        return found

    @property
    def references(self) -> Tensor:
        """Representations (N, d) of the training part."""
        return self.embeddings.representations

    def directions(self, dims: int) -> Tensor:
        """What makes representations (n, d) shorter, ``r @ directions.T``: (dims, d), discriminating ones first."""
        return first_directions(dims, self.references, self.labels)

    @property
    def index(self) -> ClusterIndex:
        """The clusters of the training part under the final weights."""
        return self.embeddings.index

    @property
    def clusters_per_class(self) -> int:
        """K of the clusters that vote."""
        votes = self.embeddings.votes
        return votes["knc"].clusters if votes else self.config.clusters_per_class

    def clustered(self, representations: Tensor, labels: Tensor, votes: Mapping[str, Votes]) -> ClusterIndex:
        """The clusters that vote: as many as were chosen, by the sizes of classes, or K of every class (the paper)."""
        if votes:
            return cluster(representations, labels, votes["knc"].clusters, self.config.seed)
        return ClusterIndex.fit(representations, labels, self.config.clusters_per_class, seed=self.config.seed)

    def rule(self, name: RuleName) -> SoftNeighbours:
        """kNC over the clusters of the training part or soft kNN over its examples."""
        knc, knn = self.rules_of(self.index, self.references, self.labels)
        if name == "knn":
            return knn
        return knc.moved_to(self.embeddings.voting) if isinstance(knc, NearestClusters) else knc

    def rules_of(
        self, index: ClusterIndex, references: Tensor, labels: Tensor, votes: Mapping[str, Votes] | None = None
    ) -> tuple[SoftNeighbours, SoftNeighbours]:
        """kNC over the means of some clusters, and soft kNN over the examples (N, d) in them, by the run's votes."""
        votes, L = self.embeddings.votes if votes is None else votes, self.config.neighbours
        if not votes:
            rule = self.learner.method.soft_rule
            return rule("knc", index, None, labels, L), rule("knn", index, references, labels, L)
        return votes["knc"].of_clusters(index), votes["knn"].of_examples(references, labels, index.variance)

    @torch.no_grad()
    def logits(self, representations: Tensor) -> Tensor | None:
        """What the method's own head makes of representations (n, d): (n, C), float64; None if it has no head."""
        found = self.learner.method.logits(representations.to(self.device))
        return None if found is None else found.cpu().double()

    @cached_property
    def calibration(self) -> Calibration:
        """Temperatures and the novelty threshold: computed once, then kept in the run folder."""
        key = f"{self._key}/{self.embeddings.digest}/{self.config.test_draws}"
        return calibrate(self, self._cache_file.with_suffix(f".{self.config.test_draws}.json"), key)

    def place_of(self, result: str) -> tuple[Path, str]:
        """The file in which a result on the run's own data is kept, and the mark of all that it depends on."""
        return self._cache_file.with_suffix(f".{result}.json"), f"{self._key}/{self.embeddings.digest}"

    @property
    def _cache_file(self) -> Path:
        return self.folder / "cache" / f"{self.checkpoint.path.name}.safetensors"

    def _other_data(self, cached: CachedEmbeddings) -> Dataset | None:
        """The run's data, if it is within reach and is not what was embedded.

        A note tells of data that is there but cannot be used; none of data that is gone, as with a run from elsewhere.
        """
        if not source_exists(self.config.data):
            return None
        try:
            data = self._open()
        except (UserError, OSError) as error:
            self._changed = f"{error}. The embeddings kept in the run are used"
            return None
        if cached.fits(data):
            return None
        if (data.kind, data.shape) == (cached.kind, cached.shape):  # otherwise the network cannot take it
            return data
        self._changed = f"{change_note(self.folder, data)}. The embeddings kept in the run are used"
        return None

    def _open(self) -> Dataset:
        try:
            data = open_for(self.config)
        except UserError as error:
            raise UserError(self._closed(str(error))) from error
        data = restore_parts(self.folder, merge_again(self.folder, data))
        left = len(data.labels[data.indices("train")].unique())
        if left < 2:
            reason = change_note(self.folder, data) or data.spec
            raise UserError(
                self._closed(f"{reason}; the training part has examples of {left} class{'es' * (left != 1)}")
            )
        return data

    def _closed(self, reason: str) -> str:
        return (
            f"the data that {self.folder} was trained on cannot be opened ({reason}). "
            f"If it has moved, change `data` in {self.folder / CONFIG}; relative paths start where you are now"
        )


def settings_note(folder: Path, config: TrainConfig, checkpoint: Checkpoint) -> str:
    """A line on what is written otherwise in the configuration of a run than in its checkpoint; "" if nothing is."""
    then, now = checkpoint.manifest.settings, config.to_dict()
    other = [name for name in then if name != "data" and then[name] != now.get(name)]
    words = ", ".join(f"{name} {now.get(name)} (then {then[name]})" for name in other)
    return f"{folder / CONFIG} has changed since its checkpoint was written: {words}" if words else ""


def cache_key(checkpoint: Checkpoint, config: TrainConfig) -> str:
    """A fingerprint of all that the representations and clusters depend on, apart from the data."""
    settings = {name: value for name, value in config.to_dict().items() if name not in NO_EFFECT}
    known = [REVISION, checkpoint.manifest.files[LEARNER], settings]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def drop_stale(folder: Path, checkpoints: Path) -> None:
    """Remove what is cached for checkpoints that are no longer there."""
    for path in [*folder.glob("step-*.safetensors"), *folder.glob("step-*.json")]:
        if not (checkpoints / path.name.partition(".")[0]).is_dir():
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Kept:
    """The record in the cache of a run."""

    key: str  # of all that it depends on
    calibration: Calibration


class _Held(NamedTuple):
    """Held-out representations (n, d) with labels (n,), and classifiers that were fitted without them."""

    queries: Tensor
    labels: Tensor
    knc: SoftNeighbours
    knn: SoftNeighbours


def choose_votes(run: Run, representations: Tensor, labels: Tensor | None = None) -> dict[str, Votes]:
    """How clusters (``knc``) and examples (``knn``) vote.

    Votes that the configuration states are used; the others are chosen by the log-loss on held-out examples.

    Args:
        run: with its data open.
        representations: (N, d) of its training part.
        labels: of all examples of the data, to vote for other labels than the run was trained on.
    """
    config, given = run.config, None
    if labels is None and config.votes_scaling and config.votes_clusters:
        pull = (config.pull or PULL) if config.centres == "refined" else None
        given = Votes(config.votes_scaling, config.neighbours, config.votes_clusters, pull)
    if given is not None and config.knn_scaling:
        return {"knc": given, "knn": Votes(config.knn_scaling, config.knn_neighbours or config.neighbours)}
    folds = _folds_of(run, representations, run.data.labels if labels is None else labels)
    if folds is None:
        scaling, clusters = config.votes_scaling or run.learner.method.scaling, config.clusters_per_class
        return {"knc": Votes(scaling, config.neighbours, clusters), "knn": Votes(scaling, config.neighbours)}
    numbers = sorted({1, 2, 4, config.clusters_per_class})  # of clusters of a class that may vote
    wanted = [config.votes_clusters] if labels is None and config.votes_clusters else numbers
    knc = given or choose_knc(folds, wanted, config.centres)
    variances = [index.variance for index in folds.cluster([part.x for part in folds.parts], knc.clusters, restarts=1)]
    return {"knc": knc, "knn": choose_knn(folds, variances)}


def refitted(run: Run, labels: Tensor) -> dict[str, SoftNeighbours]:
    """kNC and soft kNN fitted to labels (N,) of all examples, other than the labels that the run was trained on."""
    own, references = labels[run.train], run.references
    votes = choose_votes(run, references, labels) if run.config.votes == "chosen" else {}
    index = run.clustered(references, own, votes)
    knc, knn = run.rules_of(index, references, own, votes)
    if isinstance(knc, NearestClusters) and votes and votes["knc"].pull is not None:
        knc = knc.refined(references, own, pull=votes["knc"].pull)
    return {"knc": knc, "knn": knn}


def _folds_of(run: Run, representations: Tensor, labels: Tensor) -> Folds | None:
    """The training part with the validation part held out, or else folds of the training part."""
    own, rows = labels[run.train], run.data.indices("validation")
    weight = torch.ones(int(labels.max()) + 1, dtype=torch.float64)
    if len(rows):
        rows = rows[torch.isin(labels[rows], own)]
        held = Examples(run.embed(rows, test=True).double(), labels[rows])
        return Folds([Examples(representations.double(), own)], [held], weight, run.config.neighbours, run.config.seed)
    places = stratified_part(own, MOST, seed=0)
    examples = Examples(representations[places].double(), own[places])
    return hold_out(examples, 1 / FOLDS, weight, run.config.neighbours, run.config.seed)


@torch.no_grad()
def class_scores(run: Run, queries: Tensor, knc: SoftNeighbours, knn: SoftNeighbours) -> Scores:
    """For each classifier the log-probabilities (n, C) and the class of each column (C,), including the head."""
    scores = {name: (rule.predict_log_proba(queries), rule.classes) for name, rule in {"knc": knc, "knn": knn}.items()}
    logits = run.logits(queries)
    if logits is not None:
        scores["head"] = logits.log_softmax(dim=1), torch.arange(logits.shape[1])
    return scores


@torch.no_grad()
def judged_probabilities(run: Run, queries: Tensor) -> Tensor:
    """Probabilities (n, C), float64, of queries (n, d) under the rule that the method of a run is judged by."""
    classifier = run.learner.method.classifier
    if classifier == "head":
        logits = run.logits(queries)
        assert logits is not None
        return logits.softmax(dim=1)
    rule = run.rule(classifier)
    votes = queries.new_zeros(len(queries), len(run.classes), dtype=torch.float64)
    votes[:, rule.classes] = rule.predict_proba(queries).double()
    return votes


@torch.no_grad()
def rankings(
    run: Run, queries: Tensor, temperatures: Mapping[str, float], *, names: Sequence[RuleName] = ("knc", "knn")
) -> dict[str, Ranking]:
    """The predictions of each classifier for queries (n, d): of kNC, of soft kNN, of the head if there is one."""
    rules = {name: run.rule(name) for name in names}
    found: dict[str, Ranking] = {
        name: Ranking.of(rule.class_votes(queries), rule.classes, temperatures[name]) for name, rule in rules.items()
    }
    logits = run.logits(queries[:1])
    if logits is not None:
        classes = torch.arange(logits.shape[1])
        found["head"] = Ranking.of(_head_votes(run, queries, len(classes)), classes, temperatures["head"])
    return found


def _head_votes(run: Run, queries: Tensor, classes: int) -> Iterator[tuple[Tensor, Tensor]]:
    for part in queries.split(max(1, CELLS // classes)):
        logits = run.logits(part)
        assert logits is not None
        yield torch.arange(classes).expand(len(part), -1), logits.log_softmax(dim=1)


def calibrate(run: Run, file: Path, key: str) -> Calibration:
    """The calibration of a run, read from ``file`` if that was written with the same key."""
    with suppress(OSError, UserError):  # a missing or damaged file is written again
        known: _Kept = read_record(file, _Kept)
        if known.key == key:
            return known.calibration
    seen = run.open_data()  # to use its validation part; without the data, the result is not kept
    found = _measure(run)
    if seen:
        with suppress(OSError):
            inside(run.folder, file.parent.name)
            write_record(file, asdict(_Kept(key, found)))
    return found


def _measure(run: Run) -> Calibration:
    validation = run.data.indices("validation") if run.opened else torch.empty(0)
    parts = [_validation(run, validation)] if len(validation) else list(_folds(run))
    labels = torch.cat([torch.empty(0, dtype=torch.long), *(part.labels for part in parts)])
    source: Literal["validation", "train"] = "validation" if len(validation) else "train"
    if not len(labels):
        return Calibration(dict.fromkeys(("knc", "knn", "head"), 1.0), {}, {}, None, source, 0)
    scores = [class_scores(run, part.queries, part.knc, part.knn) for part in parts]
    chosen = {}
    for name, (_, classes) in scores[0].items():
        if source == "train" and name != "head" and run.config.votes == "chosen":
            continue  # the scaling of the votes was chosen for calibrated probabilities
        probabilities = torch.cat([part[name][0] for part in scores]).exp()
        chosen[name] = choose_temperature(probabilities, torch.searchsorted(classes, labels))
    far = [novelty(part.queries, part.knc.references, part.knc.variance) for part in parts]
    ones = dict.fromkeys(scores[0], 1.0)
    return Calibration(
        ones | {name: found.temperature for name, found in chosen.items()},
        {name: found.log_loss for name, found in chosen.items()},
        {name: found.log_loss_tempered for name, found in chosen.items()},
        float(torch.cat(far).double().quantile(STAYS_KNOWN)),
        source,
        len(labels),
    )


def _validation(run: Run, rows: Tensor) -> _Held:
    most = max(1, CELLS // len(run.classes))
    labels = run.data.labels[rows]
    known = torch.isin(labels, run.index.centre_labels).nonzero()[:, 0]
    known = known[:: -(-len(known) // most)]
    return _Held(run.embed(rows[known], test=True), labels[known], run.rule("knc"), run.rule("knn"))


def _folds(run: Run) -> Iterator[_Held]:
    """Folds of the training part; of a large one, at most one fold."""
    references, labels, most = run.references, run.labels, min(MANY, max(1, CELLS // len(run.classes)))
    fold = stratified_folds(labels, FOLDS, run.config.seed)
    for number in range(FOLDS if len(labels) <= MANY else 1):
        out = fold == number
        rest, owners = references[~out], labels[~out]
        index = run.clustered(rest, owners, run.embeddings.votes)
        rules = run.rules_of(index, rest, owners)
        if out.any():
            yield _Held(references[out][:most], labels[out][:most], *rules)
