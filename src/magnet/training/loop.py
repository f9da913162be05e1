"""The training loop (section 3.2): refresh the clusters, then step after step, until they are refreshed again.

What happens between two steps happens in this order: the refresh, the validation, the checkpoint. A step is a function
of the state and of (seed, step, rank) alone, so a run that was killed and resumed from a checkpoint ends with the very
weights of one that was not.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor

from magnet.classify import SoftNeighbours
from magnet.errors import RangeError, UserError, one_line
from magnet.evaluation.errors import Judged, judge
from magnet.files import is_finite
from magnet.index import ClusterIndex
from magnet.methods.base import generator, seed_globally
from magnet.sampler import LARGEST_LOSS
from magnet.training.config import NO_EFFECT, TrainConfig
from magnet.training.display import BatchWatch, Display, churn, open_logger
from magnet.training.distribution import exchange, gather_rows, in_order, own_places, share_buffers, shared_index
from magnet.training.folder import (
    FOLDER,
    INDEX,
    LEARNER,
    STATE,
    Journal,
    Prefix,
    Progress,
    journal_note,
    open_checkpoint,
    save_checkpoint,
)
from magnet.training.inputs import batches
from magnet.training.refresh import (
    embed,
    index_by_shards,
    input_space,
    keep_refresh,
    mean_inputs,
    settle_batchnorm,
    shards_of,
)
from magnet.training.workbench import Workbench, renew
from magnet.votes import Examples, Folds, Votes, VotingTrial, calibrate_votes, choose_knn

LOG_EVERY = 20  # steps
ONE_REQUEST = 1.0  # seconds in which a signal that comes twice is one request: `timeout` sends it to process and group
COLLAPSED = 1e-6  # of their size, in which clusters are told apart by single precision
LARGEST_WEIGHT = 1e15  # beyond it the squares of representations overflow
UNBOUNDED = "the weights grew without bounds"

P = ParamSpec("P")
R = TypeVar("R")


class Due(NamedTuple):
    """What happens before a step."""

    refresh: bool = False
    validate: bool = False
    checkpoint: bool = False
    report: bool = False  # the end of an epoch, or of the run
    last: bool = False  # there is no step any more

    @property
    def snapshot(self) -> bool:
        """Whether the network is looked at: after the last step also for the head that the method keeps."""
        return self.refresh or self.validate or self.last


@dataclass(frozen=True)
class Snapshot:
    """The training set as the network of one moment sees it, as far as that is needed."""

    index: ClusterIndex | None = None
    everything: Tensor | None = None  # (N, d) the representations of all training examples
    own: Tensor | None = None  # (n, d) representations of this rank's examples, if refreshes are kept


def _timed(what: str) -> Callable[[Callable[Concatenate["Trainer", P], R]], Callable[Concatenate["Trainer", P], R]]:
    """Count the seconds of a method under ``what``, without the seconds of timed methods that it calls."""

    def decorate(method: Callable[Concatenate["Trainer", P], R]) -> Callable[Concatenate["Trainer", P], R]:
        @wraps(method)
        def counting(trainer: "Trainer", /, *args: P.args, **kwargs: P.kwargs) -> R:
            seconds: dict[str, float] = trainer.progress["seconds"]
            start, before = time.perf_counter(), sum(seconds.values())
            try:
                return method(trainer, *args, **kwargs)
            finally:
                inside = sum(seconds.values()) - before
                seconds[what] = seconds.get(what, 0.0) + time.perf_counter() - start - inside

        return counting

    return decorate


class Trainer:
    """One run under way."""

    def __init__(self, bench: Workbench, fabric: Fabric, display: Display, folder: Path, *, resume: bool) -> None:
        self.bench, self.fabric, self.display, self.folder = bench, fabric, display, folder
        self.config, self.learner, self.method = bench.config, bench.learner, bench.learner.method
        self.optimiser = make_optimiser(bench)
        self.model, wrapped = fabric.setup(self.learner, self.optimiser)
        self.stepper = wrapped
        self.world = fabric.world_size
        self.room = -(-self.method.options.batch_size // 3) * 3  # a batch is of that size at most; triplets are three
        self.epoch_steps = math.ceil(len(bench.train) / (self.method.options.batch_size * self.world))
        self.total = self.config.steps or self.config.epochs * self.epoch_steps
        self.refresh_every = self.config.refresh_every or self.epoch_steps
        self.validation = bench.data.indices("validation")
        self.mine = own_places(bench.labels, fabric.global_rank, self.world) if self.world > 1 else None
        self.watch = BatchWatch(bench.labels)
        self.index: ClusterIndex | None = None
        self.stream: Iterator[tuple[Tensor, Tensor]] = iter(())
        self.interrupted = False  # a signal came to this process,
        self.interrupted_at = 0.0  # at this time
        self.warned = False  # of a collapse, or of chance
        self.stopping = False  # one came to any process, as all were told in the last step
        self.step, self.saved_at = 0, -1
        self.progress: Progress = {
            "refreshed_at": -1, "since_best": 0, "seconds": dict(bench.seconds), "finished": False,
        }  # fmt: skip
        if resume:
            self._restore()
        self.journal = None
        if fabric.is_global_zero:
            at = self.step if resume else None
            logger = open_logger(self.config.logger, folder, self.config.to_dict(), at)
            self.journal = Journal(folder, resume_at=at, logger=logger, say=display.say)

    def run(self) -> None:
        """Train to the end, or until interrupted; then the run can be resumed."""
        self.learner.train()
        in_main = threading.current_thread() is threading.main_thread()  # only there can signals be handled
        signals = [signal.SIGINT, signal.SIGTERM] if in_main else []
        handlers = {number: signal.signal(number, self._interrupt) for number in signals}
        try:
            with torch.random.fork_rng(devices=[self.fabric.device] if self.fabric.device.type == "cuda" else []):
                if self.step == 0 and self.method.reads_inputs:
                    space = input_space(self.bench, self.fabric.device)
                    self.method.prepare(space, partial(mean_inputs, self.bench))
                while True:
                    due = self._due()
                    if due.snapshot:
                        snapshot = self._snapshot(due)
                        if due.refresh:
                            self._refresh(snapshot)
                        if due.validate:
                            self._validate(snapshot)
                        del snapshot  # may hold all representations, the largest block of memory
                    if due.report:
                        self.display.epoch(self.step)
                    if due.checkpoint:
                        self._save()
                    if due.last or self.progress["finished"] or self.stopping:
                        break
                    self._step()
        except (RuntimeError, ChildProcessError) as error:  # torch raises one wherever the program is
            if isinstance(error, RuntimeError) and "DataLoader worker" not in str(error):
                raise
            raise ChildProcessError(
                f"a process that decodes images has ended at step {self.step} ({one_line(error, 120)}): "
                f"memory may be short, then lower --workers; go on: magnet train --resume {self.folder}"
            ) from error
        except RangeError as error:
            if self.step == 0:
                raise
            raise self._diverged("the representations became too large, or too small, for their squares") from error
        except ValueError as error:
            if self._is_bounded():
                raise
            raise self._diverged(UNBOUNDED) from error
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            if self.journal:
                self.journal.write("time", self.step, {"seconds": self.progress["seconds"]})
                self.journal.close()

    @_timed("training")
    def _step(self) -> None:
        places, raw = self._next_batch()
        device, config = self.fabric.device, self.config
        labels, clusters = self.bench.labels[places], self.method.clusters(places)
        now = (config.seed, self.step, self.fabric.global_rank)
        seed_globally(generator(*now, 0).initial_seed(), device)  # dropout draws from the global generator
        inputs = self.bench.views.train(raw.to(device), generator(*now, 1))
        rate = rate_at(self.step, config, total=self.total, epoch_steps=self.epoch_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        output = self.model(inputs, labels.to(device), clusters.to(device))
        self.stepper.zero_grad()
        self.fabric.backward(output.loss)
        if config.clip:
            self.fabric.clip_gradients(self.model, self.stepper, max_norm=config.clip)
        self.stepper.step()
        self.step += 1
        losses, self.stopping = output.per_example.detach().cpu(), self.interrupted
        if self.world > 1:  # an interruption is told along with the losses, so that it comes to all at the same step
            places, losses, self.stopping = exchange(places, losses, self.interrupted, self.room, self.world)
        if not losses.sum().item() < LARGEST_LOSS:  # nor NaN; a sampler takes no larger one
            raise self._diverged(f"the loss became {float(losses.mean())}")
        self.method.sampler.update(places, losses)

        self.watch.see(labels, clusters, self.method.wants_index)
        values = {
            "loss": output.loss.item(),
            "active": int(losses.count_nonzero()) / len(losses),
            "sigma": None if output.variance is None else math.sqrt(output.variance.item()),
        }
        self.display.step(self.step, values | {"error": self.progress.get("error")})
        if self.journal and (self.step % LOG_EVERY == 0 or self.step == self.total):
            self.journal.write("train", self.step, values | {"rate": rate} | self.watch.report())

    def refresh(self) -> None:
        """Cluster the training set as the network sees it now; the next batches are drawn from these clusters."""
        if self.method.reads_representations:
            self._refresh(self._snapshot(Due(refresh=True)))

    def _due(self) -> Due:
        """What is due before step number ``self.step``."""
        step, config = self.step, self.config
        self.stopping |= self.interrupted and self.world == 1
        epoch, rest = divmod(step, self.epoch_steps)
        epoch_end, last = step > 0 and rest == 0, step >= self.total
        wanted = self.method.reads_representations and step % self.refresh_every == 0
        refresh = wanted and not last and self.progress["refreshed_at"] != step
        validate = last or (epoch_end and epoch % config.validate_every == 0)
        validate = validate and len(self.validation) > 0 and step > 0 and self.progress.get("validated_at") != step
        checkpoint = (epoch_end and epoch % config.checkpoint_every == 0) or validate or self.stopping
        checkpoint = last or (step > 0 and (checkpoint or self.progress["finished"]))
        return Due(refresh, validate, checkpoint and self.saved_at != step, epoch_end or last, last)

    @_timed("refresh")
    def _snapshot(self, due: Due) -> Snapshot:
        """Batch-norm statistics, then the whole training set at one moment, then its clusters."""
        config, bench, method = self.config, self.bench, self.method
        seed = config.seed * 1_000_003 + self.step
        self._settle(seed, renewed=due.last and config.renew)
        rule = method.classifier if due.validate else "head"
        wants_index = (due.refresh and method.wants_index) or rule != "head"
        wants_all = (due.refresh and method.wants_representations) or rule == "knn"
        if not (wants_index or wants_all):
            return Snapshot()
        if not (wants_all or config.keep_refreshes or self.world > 1):
            shards = shards_of(len(bench.train), self.learner.network.dim)
            if shards > 1:
                embed_places = partial(self._embed_places, bench.train)
                return Snapshot(index_by_shards(embed_places, bench.labels, bench.clusters_per_class, seed, shards))
        own = self._embed_places(bench.train, self.mine)
        index = None
        if wants_index:
            self.display.busy("clustering")
            if self.mine is None:
                index = ClusterIndex.fit(own, bench.labels, bench.clusters_per_class, seed=seed)
            else:
                index = shared_index(own, self.mine, bench.labels, bench.clusters_per_class, seed, self.world)
        everything = None
        if wants_all:
            everything = own if self.mine is None else in_order(own, self.mine, self.world)
        return Snapshot(index, everything, own if config.keep_refreshes else None)

    @_timed("embedding")
    def _settle(self, seed: int, renewed: bool) -> None:
        """Make the network ready to be looked at: batch-norm statistics of the whole set, and the method's head.

        If ``renewed``, the whitening too is fitted again.
        """
        bench, fabric = self.bench, self.fabric
        settle_batchnorm(bench, fabric.device, seed)
        if self.world > 1:
            share_buffers(self.learner)
        if renewed:
            renew(bench, fabric.device, partial(self.display.busy, "renewing"))
        self.method.observe(self.learner.eval().represent)
        self.learner.train()

    @_timed("embedding")
    def _embed_places(self, rows: Tensor, places: Tensor | None) -> Tensor:
        """Representations (n, d) of the training examples ``rows`` at some places (n,); None: of all."""
        return self._embed(rows if places is None else rows[places], "embedding")

    def _embed(self, rows: Tensor, what: str) -> Tensor:
        """Representations (n, d) of examples, ids into the data; the display shows ``what`` meanwhile."""
        with self.fabric.autocast():
            return embed(self.learner, rows, self.bench.examples(self.fabric.device, partial(self.display.busy, what)))

    @_timed("refresh")
    def _refresh(self, snapshot: Snapshot) -> None:
        """Give the clusters or representations of this moment to the method, which draws from them from now on."""
        index, config = snapshot.index, self.config
        record: dict[str, Any] = {}
        if index is not None and self.method.wants_index:
            if self.index is not None:
                record = {"churn": round(churn(self.index.assignments, index.assignments), 4)}
                record |= self.watch.close_period(self.index)
            record |= {"clusters": len(index), "smallest_cluster": int(index.sizes.min())}
            record |= {"variance": float(index.variance), "kmeans_iterations": index.iterations}
            self.index = index
            self._warn_of_collapse(index)
        self.method.refresh(snapshot.everything, index)
        self.stream = iter(())  # what was drawn from the old space is drawn again from the new one
        self.progress["refreshed_at"] = self.step
        if self.journal:
            self.journal.write("refresh", self.step, record)
            if index is not None and snapshot.own is not None and self.world == 1:
                keep_refresh(self.folder, self.step, self.total, self.refresh_every, config.keep_refreshes,
                             snapshot.own, index)  # fmt: skip

    @_timed("validation")
    def _validate(self, snapshot: Snapshot) -> None:
        """Judge the network of this moment by the validation part."""
        bench, config = self.bench, self.config
        shared = 1 < self.world <= len(self.validation)
        mine = self.validation[self.fabric.global_rank :: self.world] if shared else self.validation
        queries = self._embed(mine, "validating")
        truth = bench.data.labels[mine]
        rule = self.method.own_rule(snapshot.index, snapshot.everything, bench.labels, config.neighbours)
        if config.votes == "chosen" and snapshot.index is not None and self.method.classifier != "head":
            chosen = self._calibrated(snapshot.index, snapshot.everything, queries, truth)
            rule = chosen.predict_proba, chosen.classes
        found = judge(*rule, queries, truth)
        if shared:
            sums = gather_rows(torch.tensor([found], dtype=torch.float64) * len(mine), self.world).sum(dim=0)
            found = Judged(*(sums / len(self.validation)).tolist())
        self._keep_best(found)
        chance = 1 - float(torch.bincount(truth).max()) / max(len(truth), 1)
        if self.step >= self.epoch_steps and found.error >= chance and not self.warned:
            self.warned = True
            self.display.say(
                f"note: the validation error at step {self.step} is {found.error:.1%}, no better than one class for "
                f"all ({chance:.1%}): try another --learning-rate, or look at the labels"
            )
        if config.patience and self.progress["since_best"] >= config.patience:
            self.progress["finished"] = True
        if self.journal:
            self.journal.write("validation", self.step, found._asdict() | {"rule": self.method.classifier})

    def _calibrated(
        self, index: ClusterIndex, references: Tensor | None, queries: Tensor, truth: Tensor
    ) -> SoftNeighbours:
        """The method's own rule with votes as sharp as suits these examples (n, d), for a fair comparison."""
        labels, config = self.bench.labels, self.config
        weight = torch.ones(len(self.bench.data.classes), dtype=torch.float64)
        known = torch.isin(truth, index.centre_labels)
        held = Examples(queries[known], truth[known])
        if self.method.classifier == "knc":
            scaling = calibrate_votes([VotingTrial(index, *held)], weight, neighbours=config.neighbours).scaling
            return Votes(scaling, config.neighbours).of_clusters(index)
        assert references is not None
        folds = Folds([Examples(references, labels)], [held], weight, config.neighbours, config.seed)
        return choose_knn(folds, [index.variance]).of_examples(references, labels, index.variance)

    def _warn_of_collapse(self, index: ClusterIndex) -> None:
        """Say once that all clusters lie at one point, as far as the digits of their coordinates tell."""
        centres = index.centres.double()
        spread, size = float((centres - centres.mean(dim=0)).abs().max()), float(centres.abs().max())
        if spread <= COLLAPSED * size and not self.warned:
            self.warned = True
            self.display.say(
                f"note: the representations have collapsed at step {self.step}: all clusters lie within {spread:.2g} "
                f"of each other, {size:.2g} from the origin. Try a lower --learning-rate, or standardise the inputs"
            )

    def _keep_best(self, found: Judged) -> None:
        """Note the best step so far, by the lowest log-loss; of equal steps the latest, which does not renew patience.

        Log-loss, because a few hundred examples give the same error to many steps that are not equally good.
        """
        progress, best = self.progress, self.progress.get("best_log_loss", math.inf)
        lowest = min(found.error, progress.get("lowest_error", math.inf))
        progress |= {"error": found.error, "lowest_error": lowest, "validated_at": self.step}
        progress["since_best"] = 0 if found.log_loss < best else progress["since_best"] + 1
        if found.log_loss <= best:
            progress |= {"best_log_loss": found.log_loss, "best_step": self.step}

    def _next_batch(self) -> tuple[Tensor, Tensor]:
        for _ in range(2):
            batch = next(self.stream, None)
            if batch is not None:
                return batch
            self.stream = batches(self.bench.data, self.bench.train, self.method.sampler, self.bench.workers)
        raise RuntimeError("the sampler draws no batches")

    def _save(self) -> None:
        if not self._is_bounded():  # no loss after this step has told; what is written must be good to go on from
            raise self._diverged(UNBOUNDED)
        if self.step >= self.total:
            self.progress["finished"] = True
        self.saved_at = self.step
        self.progress["watch"] = self.watch.state()
        if self.fabric.is_global_zero:
            save_checkpoint(
                self.folder / FOLDER, self.step, learner=self.learner, optimiser=self.optimiser,
                sampler=self.method.sampler.state_dict(), index=self.index, progress=self.progress,
                settings={k: v for k, v in self.config.to_dict().items() if k not in NO_EFFECT},
                journal=self.journal.prefix if self.journal else Prefix(),
            )  # fmt: skip
        self.fabric.barrier()

    def _restore(self) -> None:
        checkpoint = open_checkpoint(self.folder / FOLDER, "last", (LEARNER, STATE, INDEX))
        damaged = journal_note(self.folder, checkpoint.manifest.journal)
        for note in [*checkpoint.notes, *([damaged] if damaged else [])]:
            self.display.say(f"note: {note}")
        self.progress = checkpoint.manifest.progress
        self.step = self.saved_at = checkpoint.step
        try:
            self.watch.restore(self.progress["watch"])
            checkpoint.load_learner(self.learner)
            checkpoint.load_optimiser(self.optimiser)
            self.index = checkpoint.index()
            if self.index is not None:
                if not torch.equal(self.index.centre_labels[self.index.assignments], self.bench.labels):
                    raise ValueError("its clusters hold examples of other classes")
                self.method.refresh(None, self.index)
            self.method.sampler.load_state_dict(checkpoint.part("sampler"))
        except (KeyError, IndexError, TypeError, RuntimeError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{checkpoint.path} does not fit the run's configuration ({error})") from error

    def _is_bounded(self) -> bool:
        buffers = (b for b in self.learner.buffers() if b.is_floating_point())  # such as batch-norm statistics
        return all(bool((p.abs() < LARGEST_WEIGHT).all()) for p in self.learner.parameters()) and all(
            is_finite(b) for b in buffers
        )

    def _diverged(self, what: str) -> FloatingPointError:
        return FloatingPointError(
            f"{what} at step {self.step}: lower --learning-rate or give --clip 1; "
            f"the last checkpoint is in {self.folder / 'checkpoint'}"
        )

    def _interrupt(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if not self.interrupted:
            self.interrupted, self.interrupted_at = True, now
        elif now - self.interrupted_at > ONE_REQUEST:  # asked again: at once
            raise KeyboardInterrupt


def parameter_groups(bench: Workbench) -> list[dict[str, Any]]:
    """The parameters that learn, with the factor on their learning rate: lower for the trunk of an image network."""
    network = bench.learner.network
    trunk = {id(p) for p in network.trunk_parameters()} if network.kind == "images" else set()
    parameters = [p for p in bench.learner.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if id(p) not in trunk], "factor": 1.0},
        {"params": [p for p in parameters if id(p) in trunk], "factor": bench.config.trunk_rate},
    ]
    return [group for group in groups if group["params"]]


def make_optimiser(bench: Workbench) -> torch.optim.Optimizer:
    """The optimiser of a run, for all parameters that learn."""
    config, groups = bench.config, parameter_groups(bench)
    if not groups:
        raise UserError(
            "nothing is left to learn: --freeze and --freeze-part 1 keep the network as it is, and there is no layer "
            "behind it; give one with --dim 128"
        )
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=rate, betas=(config.momentum, 0.999), weight_decay=decay)
    return torch.optim.SGD(groups, lr=rate, momentum=config.momentum, weight_decay=decay)


def rate_at(step: int, config: TrainConfig, *, total: int, epoch_steps: int) -> float:
    """The learning rate of a step: down a cosine over the ``total``, or times a factor every epoch."""
    if config.schedule == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / total))
    return float(config.learning_rate * config.annealing ** (step // epoch_steps))
