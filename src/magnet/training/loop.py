"""The training loop: boundary, step, boundary, step, ...

Everything that happens between two steps happens at a boundary, in this order: the refresh, the validation, the
checkpoint. A step is a function of the state and of (seed, step, rank) alone, so a run that was killed and resumed
from a checkpoint ends with the very weights of one that was not.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from magnet.errors import RangeError
from magnet.evaluation.errors import Judged, judge
from magnet.index import ClusterIndex
from magnet.methods.sampling import generator, seed_globally
from magnet.training.config import TrainConfig
from magnet.training.display import BatchWatch, Display, churn
from magnet.training.distribution import exchange, gather_rows, in_order, own_places, share_buffers, shared_index
from magnet.training.folder import (
    Journal,
    find_checkpoint,
    load_index,
    load_learner,
    load_optimiser,
    load_sampler,
    read_progress,
    save_checkpoint,
)
from magnet.training.refresh import (
    batches,
    embed,
    index_by_shards,
    input_space,
    keep_refresh,
    mean_inputs,
    settle_batchnorm,
    shards_of,
)
from magnet.training.workbench import Workbench


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


def rate_at(step: int, config: TrainConfig, *, total: int, epoch_steps: int) -> float:
    """The learning rate of a step: down a cosine over the ``total``, or times a factor every epoch."""
    if config.schedule == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / total))
    return float(config.learning_rate * config.annealing ** (step // epoch_steps))


LOG_EVERY = 20
ONE_REQUEST = 1.0  # seconds in which a signal that comes twice is one request: `timeout` sends it to process and group
LARGEST_WEIGHT = 1e15  # beyond it the squares of representations overflow
UNBOUNDED = "the weights grew without bounds"


class Trainer:
    """One run under way."""

    def __init__(self, bench: Workbench, fabric: Fabric, display: Display, folder: Path, *, resume: bool) -> None:
        self.bench, self.fabric, self.display, self.folder = bench, fabric, display, folder
        self.config, self.learner, self.method = bench.config, bench.learner, bench.learner.method
        self.optimiser = torch.optim.SGD(
            parameter_groups(bench), lr=self.config.learning_rate, momentum=self.config.momentum,
            weight_decay=self.config.weight_decay,
        )  # fmt: skip
        self.model, wrapped = fabric.setup(self.learner, self.optimiser)
        self.stepper = wrapped
        self.world = fabric.world_size
        self.room = -(-self.method.options.batch_size // 3) * 3  # a batch is of that size at most; triplets are three
        self.epoch_steps = math.ceil(len(bench.train) / (self.method.options.batch_size * self.world))
        self.total = self.config.steps or self.config.epochs * self.epoch_steps
        self.refresh_every = self.config.refresh_every or self.epoch_steps
        self.validation = bench.data.indices("validation")
        self.mine = own_places(bench.labels, fabric.global_rank, self.world)
        self.watch = BatchWatch(bench.labels)
        self.index: ClusterIndex | None = None
        self.stream: Iterator[tuple[Tensor, Tensor]] = iter(())
        self.interrupted = False  # a signal came to this process,
        self.interrupted_at = 0.0  # at this time
        self.stopping = False  # one came to any process, as all were told in the last step
        self.step, self.saved_at = 0, -1
        self.progress: dict[str, Any] = {
            "refreshed_at": -1, "since_best": 0, "seconds": {}, "finished": False,
        }  # fmt: skip
        if resume:
            self._restore()
        self.journal = (
            Journal(folder, resume_at=self.step if resume else None, tensorboard=self.config.tensorboard)
            if fabric.is_global_zero
            else None
        )

    def run(self) -> None:
        """Train to the end, or until interrupted; then the run can be resumed."""
        self.learner.train()
        handlers = {s: signal.signal(s, self._interrupt) for s in _signals()}
        try:
            with torch.random.fork_rng(devices=[self.fabric.device] if self.fabric.device.type == "cuda" else []):
                if self.step == 0 and self.method.reads_inputs:
                    space = input_space(self.learner, self.bench, self.fabric.device)
                    self.method.prepare(space, partial(mean_inputs, self.bench))
                while True:
                    self._boundary()
                    if self.step >= self.total or self.progress["finished"] or self.stopping:
                        break
                    self._step()
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

    def _step(self) -> None:
        start = time.perf_counter()
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
        # An interruption is told along with the losses, so that it comes to all ranks at the same step.
        everyone, losses, self.stopping = exchange(
            places, output.per_example.detach().cpu(), self.interrupted, self.room, self.world
        )
        if not math.isfinite(losses.sum().item()):
            raise self._diverged(f"the loss became {float(losses.mean())}")
        self.method.sampler.update(everyone, losses)

        self.watch.see(labels, clusters, self.method.wants_index)
        self._spent("training", start)
        values = {
            "loss": output.loss.item(),
            "active": int(losses.count_nonzero()) / len(losses),
            "sigma": None if output.variance is None else math.sqrt(output.variance.item()),
        }
        self.display.step(self.step, values | {"error": self.progress.get("error")})
        if self.journal and (self.step % LOG_EVERY == 0 or self.step == self.total):
            self.journal.write("train", self.step, values | {"rate": rate} | self.watch.report())

    def _boundary(self) -> None:
        """What is due before step number ``self.step``."""
        step, config = self.step, self.config
        self.stopping |= self.interrupted and self.world == 1
        epoch_end = step > 0 and step % self.epoch_steps == 0
        last = step >= self.total
        refresh = (
            self.method.reads_representations
            and not last
            and step % self.refresh_every == 0
            and self.progress["refreshed_at"] != step
        )
        validate = len(self.validation) > 0 and step > 0 and self.progress.get("validated_at") != step
        validate = validate and (last or (epoch_end and (step // self.epoch_steps) % config.validate_every == 0))
        if refresh or validate or last:
            self._look_at_everything(refresh, validate)
        if epoch_end or last:
            self.display.epoch(step)
        due = epoch_end and (step // self.epoch_steps) % config.checkpoint_every == 0
        due = due or validate or self.stopping or self.progress["finished"]
        if last and not self._is_bounded():  # no loss after the last step would tell
            raise self._diverged(UNBOUNDED)
        if self.saved_at != step and (last or (step > 0 and due)):
            self.progress["finished"] |= last
            self._save(best=bool(validate and self.progress["best_step"] == step))

    def _look_at_everything(self, refresh: bool, validate: bool) -> None:
        """The refresh: batch-norm statistics, then the whole training set at one moment, then the index."""
        start = time.perf_counter()
        config, bench = self.config, self.bench
        at = {"device": self.fabric.device, "workers": bench.workers}
        seed = config.seed * 1_000_003 + self.step
        settle_batchnorm(self.learner, bench.data, bench.train, bench.views, **at, seed=seed)  # type: ignore[arg-type]
        share_buffers(self.learner, self.world)
        rule = self.method.classifier if validate else ""
        needed = refresh or rule in ("knc", "knn")
        whole = (refresh and not self.method.wants_index) or rule == "knn"  # all representations, not the index alone
        by_shards = needed and not whole and not config.keep_refreshes and self.world == 1
        shards = shards_of(len(bench.train), self.learner.network.dim) if by_shards else 1
        representations, index, everything = None, None, None
        if needed and shards == 1:
            representations = self._embed(bench.train if self.mine is None else bench.train[self.mine])
        self.method.observe(self.learner.eval().represent)
        self.learner.train()
        self._spent("embedding", start)
        start = time.perf_counter()
        if shards > 1:

            def represent(places: Tensor) -> Tensor:
                nonlocal start
                begin = time.perf_counter()
                found = self._embed(bench.train[places])
                self._spent("embedding", begin)
                start += time.perf_counter() - begin  # which is no part of the refresh
                return found

            index = index_by_shards(represent, bench.labels, config.clusters_per_class, seed, shards)
        if representations is not None:
            if self.method.wants_index or rule in ("knc", "knn"):
                self.display.busy("clustering")
                index = shared_index(
                    representations, self.mine, bench.labels, config.clusters_per_class, seed, self.world
                )
            if whole:
                everything = in_order(representations, self.mine, self.world)
        kept = representations if config.keep_refreshes else None
        representations = None  # the largest block of all goes before the tables of a refresh come
        if refresh:
            self._refresh(index, everything, kept)
        self._spent("refresh", start)
        if validate:
            start = time.perf_counter()
            self._validate(index, everything)
            self._spent("validation", start)

    def _embed(self, rows: Tensor) -> Tensor:
        """Representations (n, d) of training examples, ids into the data."""
        with self.fabric.autocast():
            return embed(
                self.learner, self.bench.data, rows, self.bench.views, device=self.fabric.device,
                workers=self.bench.workers, report=lambda done, total: self.display.busy("embedding", done, total),
            )  # fmt: skip

    def _refresh(self, index: ClusterIndex | None, everything: Tensor | None, own: Tensor | None) -> None:
        record: dict[str, Any] = {}
        if index is not None and self.method.wants_index:
            if self.index is not None:
                record = {"churn": round(churn(self.index.assignments, index.assignments), 4)}
                record |= self.watch.close_period(self.index)
            record |= {"clusters": len(index), "smallest_cluster": int(index.sizes.min())}
            record |= {"variance": float(index.variance), "kmeans_iterations": index.iterations}
            self.index = index
        self.method.refresh(everything, index)
        self.stream = iter(())  # what was drawn from the old space is drawn again from the new one
        self.progress["refreshed_at"] = self.step
        if self.journal:
            self.journal.write("refresh", self.step, record)
            if self.config.keep_refreshes and index is not None and own is not None and self.world == 1:
                keep_refresh(self.folder, self.step, self.total, self.refresh_every, self.config.keep_refreshes,
                             own, index)  # fmt: skip

    def _validate(self, index: ClusterIndex | None, everything: Tensor | None) -> None:
        bench, config = self.bench, self.config
        shared = 1 < self.world <= len(self.validation)
        mine = self.validation[self.fabric.global_rank :: self.world] if shared else self.validation
        with self.fabric.autocast():
            queries = embed(
                self.learner, bench.data, mine, bench.views, device=self.fabric.device,
                workers=bench.workers, report=lambda done, total: self.display.busy("validating", done, total),
            )  # fmt: skip
        rule = self.method.own_rule(index, everything, bench.labels, config.neighbours)
        found = judge(*rule, queries, bench.data.labels[mine])
        if shared:
            sums = gather_rows(torch.tensor([found], dtype=torch.float64) * len(mine), self.world).sum(dim=0)
            found = Judged(*(sums / len(self.validation)).tolist())
        self._note(found)
        if config.patience and self.progress["since_best"] >= config.patience:
            self.progress["finished"] = True
        if self.journal:
            self.journal.write("validation", self.step, found._asdict() | {"rule": self.method.classifier})

    def _note(self, found: Judged) -> None:
        """The best step is the one with the lowest log-loss, of equals the latest; equals do not renew the patience.

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

    def _save(self, best: bool) -> None:
        self.saved_at = self.step
        self.progress["watch"] = self.watch.state()
        if self.fabric.is_global_zero:
            save_checkpoint(
                self.folder / "checkpoint", self.step, learner=self.learner, optimiser=self.optimiser,
                sampler=self.method.sampler.state_dict(), index=self.index, progress=self.progress, best=best,
            )  # fmt: skip
        self.fabric.barrier()

    def _restore(self) -> None:
        checkpoint = find_checkpoint(self.folder / "checkpoint", "last")
        self.progress = read_progress(checkpoint)
        self.step = self.saved_at = int(self.progress.pop("step"))
        self.watch.restore(self.progress["watch"])
        load_learner(checkpoint, self.learner)
        load_optimiser(checkpoint, self.optimiser)
        self.index = load_index(checkpoint)
        if self.index is not None:
            self.method.refresh(None, self.index)
        self.method.sampler.load_state_dict(load_sampler(checkpoint))

    def _spent(self, what: str, start: float) -> None:
        seconds = self.progress["seconds"]
        seconds[what] = seconds.get(what, 0.0) + time.perf_counter() - start

    def _is_bounded(self) -> bool:
        return all(bool((p.abs() < LARGEST_WEIGHT).all()) for p in self.learner.parameters())

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


def _signals() -> list[signal.Signals]:
    main = threading.current_thread() is threading.main_thread()
    return [signal.SIGINT, signal.SIGTERM] if main else []
