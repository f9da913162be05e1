"""Random calls of the public API: each argument may be something that nobody should give."""

import linecache
import math
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import magnet
from faults.outcomes import HANG, NOT_FINITE, SAID, SAME, TRACEBACK, Outcome, TooLongError, at_most, finite
from magnet.clustering import kmeans_per_class
from magnet.data import open_data
from magnet.errors import UserError
from magnet.evaluation.errors import verification
from magnet.runs.run import Run
from magnet.tree import CentreTree

# A call of these takes about a second; of all others, milliseconds.
SLOW = ("MagnetClassifier", "NearestClustersClassifier", "train", "evaluate", "explore")
ALLOWED = (ValueError, TypeError, IndexError, UserError, OSError, RuntimeError)  # the last of torch's load_state_dict


class Odd:
    """Arguments, most of them good, some of them not; all by one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.rows, self.width = self.chance.choice((6, 12, 12, 40)), self.chance.choice((1, 3, 3, 8))
        self.classes = self.chance.choice((2, 3, 3))
        self.finite = True  # whether all that was given is
        self.spoil = {self.chance.randrange(8) for _ in range(self.chance.choice((0, 1, 1, 2)))}
        self._asked = -1

    def _spoilt(self) -> bool:
        self._asked += 1
        return self._asked in self.spoil

    def points(self, rows: int = 0, width: int = 0) -> Any:
        """Representations (n, d)."""
        n, d = rows or self.rows, width or self.width
        x = torch.randn(n, d, generator=self.generator)
        if not self._spoilt():
            return x
        kind = self.chance.choice((
            "size", "size", "size", "dtype", "dtype", "shape", "value", "value", "device", "layout", "kind", "strides",
            "constant", "far", "gradient", "class",
        ))  # fmt: skip
        if kind == "size":
            wide = self.chance.random() < 0.5
            size = 10.0 ** self.chance.uniform(*((-330, 308) if wide else (-46, 38.4)))
            return (x.double() * size).to(torch.float64 if wide else torch.float32).nan_to_num()
        if kind == "dtype":
            names = ("float16", "bfloat16", "float64", "int64", "bool", "complex64", "uint8", "float8_e4m3fn", "uint16")
            return x.to(getattr(torch, self.chance.choice(names)))
        if kind == "shape":
            shapes = ((0, d), (n, 0), (n,), (), (n, d, 1), (1, n, d), (n + 1, d), (n, d + 1), (1, d))
            return torch.randn(self.chance.choice(shapes), generator=self.generator)
        if kind == "value":
            self.finite = False
            x[self.chance.randrange(n), self.chance.randrange(d)] = self.chance.choice((math.nan, math.inf, -math.inf))
            return x
        if kind == "device":
            return x.to("meta")
        if kind == "layout":
            return self.chance.choice((x.to_sparse(), x.to_sparse_csr(), torch.nested.nested_tensor([x[0], x[1]])))
        if kind == "kind":
            return self.chance.choice((x.numpy(), x.tolist(), None, "points", 3.5, {}, x.numpy().astype(object)))
        if kind == "strides":
            return self.chance.choice((x.T.contiguous().T, x.repeat(2, 2)[::2, :d], x[:1].expand(n, d)))
        if kind == "constant":
            return torch.full_like(x, self.chance.choice((0.0, 1.0, -0.0, 1e-30, 1e30)))
        if kind == "far":
            return x + self.chance.choice((1e3, 1e7, 1e14))
        if kind == "gradient":
            return x.requires_grad_()
        return torch.nn.Parameter(x)

    def ids(self, length: int = 0, most: int = 0) -> Any:
        """Labels or clusters (n,)."""
        n = length or self.rows
        y = torch.arange(n) % (most or self.classes)
        if not self._spoilt():
            return y
        kind = self.chance.choice(("dtype", "dtype", "shape", "value", "value", "device", "layout", "kind", "one"))
        if kind == "dtype":
            names = ("int8", "int16", "int32", "uint8", "uint16", "uint64", "float32", "bool", "complex64", "float16")
            return y.to(getattr(torch, self.chance.choice(names)))
        if kind == "shape":
            shapes = ((0,), (), (n, 1), (n + 1,), (n - 1,), (1,))
            return torch.zeros(self.chance.choice(shapes), dtype=torch.long)
        if kind == "value":
            value = self.chance.choice((-1, -(2**62), 2**62, 2**63 - 1, -(2**63), 10**6, 99))
            return torch.where(torch.rand(n, generator=self.generator) < 0.3, torch.tensor(value), y)
        if kind == "device":
            return y.to("meta")
        if kind == "layout":
            return y.to_sparse()
        if kind == "one":
            return torch.full((n,), self.chance.choice((0, 5, -7)))
        return self.chance.choice((y.tolist(), y.numpy(), None, "labels", 0, y.float().numpy()))

    def number(self, good: Any) -> Any:
        """An option."""
        if not self._spoilt():
            return good
        return self.chance.choice((
            math.nan, math.inf, -math.inf, 0, -1, 0.0, -0.0, 1e308, 5e-324, 1e-300, 1e300, True, None, "3", "", 2.5, [],
            {}, (), 10**30, 10**400, 2**31, 2**63, -(2**63), torch.tensor(1.0), torch.tensor(math.nan), torch.ones(3),
            np.float32(0.5), np.int64(2), np.nan, 3 + 4j, b"1", object, torch.tensor(1.0, device="meta"), 7, 1000,
        ))  # fmt: skip

    def state(self, good: dict[str, Any]) -> Any:
        """A state dictionary, of this kind or of another."""
        if not self._spoilt():
            return good
        kind = self.chance.choice(("foreign", "less", "more", "changed", "changed", "changed", "none"))
        if kind == "foreign":
            return self.chance.choice(
                (torch.nn.Linear(2, 2).state_dict(), torch.optim.SGD([torch.ones(1)]).state_dict(), {})
            )
        if kind == "none":
            return self.chance.choice((None, [], "state", 3))
        found = dict(good)
        name = self.chance.choice(sorted(found))
        if kind == "less":
            del found[name]
        elif kind == "more":
            found["more"] = torch.zeros(2)
        else:
            value = found[name]
            if isinstance(value, Tensor) and self.chance.random() < 0.6:
                found[name] = self.chance.choice((
                    value.double() * math.nan, value - 5, value + 10**6, value.flatten()[:-1],
                    value.to("meta"), value.reshape(-1, 1), value.to_sparse() if value.ndim else value, value.float(),
                ))  # fmt: skip
            else:
                found[name] = self.number(0) if self.chance.random() < 0.5 else self.chance.choice(
                    (-1, math.nan, None, "x", 2**62, [], torch.zeros(3), torch.tensor(math.inf))
                )  # fmt: skip
        return found

    def table(self, rows: int = 0) -> Any:
        """Inputs (n, n_features) of an estimator."""
        return _as_array(self.points(rows), self.chance)

    def labels(self, rows: int = 0) -> Any:
        """Labels (n,) of an estimator."""
        y = self.ids(rows)
        plain = isinstance(y, Tensor) and y.layout == torch.strided and y.device.type == "cpu" and y.ndim == 1
        if self._spoilt() and plain:
            names = np.array([f"c{int(i.real)}" for i in y.tolist()])
            return self.chance.choice(
                (names, names.astype(object), y.numpy() * 1.5, y.numpy() * math.nan, names.astype("S"))
            )
        return _as_array(y, self.chance)


def _as_array(x: Any, chance: random.Random) -> Any:
    with suppress(Exception):
        return x.detach().numpy() if isinstance(x, Tensor) and chance.random() < 0.9 else x
    return x


def _index(odd: Odd, rows: int = 12) -> magnet.ClusterIndex:
    """A good index."""
    x = torch.randn(rows, odd.width, generator=odd.generator)
    return magnet.ClusterIndex.fit(x, torch.arange(rows) % odd.classes, 2)


def _with_gradient(output: magnet.MagnetOutput, *inputs: Any) -> Any:
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if wanted:
        return [*output, *torch.autograd.grad(output.loss, wanted)]
    return list(output)


def _loss(odd: Odd) -> Any:
    x, clusters, labels = odd.points(), odd.ids(most=2 * odd.classes), odd.ids()
    if isinstance(x, Tensor) and x.is_floating_point() and odd.chance.random() < 0.5:
        x = x.detach().requires_grad_()
    options = {
        "alpha": odd.number(1.0), "scaling": odd.number(1.0), "own_mean": odd.number("leave-one-out"),
        "variance": odd.number(None), "neighbourhoods": odd.ids(most=1) if odd.chance.random() < 0.3 else None,
    }  # fmt: skip
    return _with_gradient(magnet.magnet_loss(x, clusters, labels, **options), x)


def _objective(odd: Odd) -> Any:
    x, assignments = odd.points(), odd.ids()
    centres = odd.points(odd.classes) if odd.chance.random() < 0.5 else None
    options = {
        "alpha": odd.number(1.0),
        "scaling": odd.number(1.0),
        "variance": odd.number(None),
        "chunk": odd.number(4),
    }
    return list(magnet.magnet_objective(x, assignments, centres, odd.ids(odd.classes), **options))


def _module(odd: Odd) -> Any:
    module = magnet.MagnetLoss(odd.number(1.0), odd.number(1.0), odd.number("batch"), decay=odd.number(0.99))
    if odd.chance.random() < 0.4:
        module.load_state_dict(odd.state(module.state_dict()))
    output = module(odd.points(), odd.ids(most=2 * odd.classes), odd.ids())
    return [*output, module.variance]


def _fit(odd: Odd) -> Any:
    options = {"seed": odd.number(0), "restarts": odd.number(2), "max_iterations": odd.number(5)}
    take = odd.chance.choice((magnet.ClusterIndex.fit, kmeans_per_class))
    found = take(odd.points(), odd.ids(), odd.number(2), **options)
    return [found.centres, found.inertia]


def _made(odd: Odd) -> Any:
    found = magnet.ClusterIndex(odd.points(4), odd.ids(4), odd.ids(12, 4), odd.number(torch.tensor(1.0)))
    return [found.centres, found.variance, repr(found), found.impostors(0, 2)]


def _grown(odd: Odd) -> Any:
    options = {
        "reach": odd.number(1.0), "clusters_per_class": odd.number(2), "examples_per_cluster": odd.number(1),
    }  # fmt: skip
    return _index(odd).grown(odd.points(), odd.ids(), **options).centres


def _asked(odd: Odd) -> Any:
    index = _index(odd)
    if odd.chance.random() < 0.5:
        return [index.members(odd.number(1)), index.impostors(odd.number(0), odd.number(2))]
    return index.nearest_impostors(odd.number(2), odd.ids(3), exact=odd.chance.random() < 0.8)


def _sampler(odd: Odd) -> Any:
    index = _index(odd) if odd.chance.random() < 0.95 else odd.number(None)
    sampler = magnet.NeighbourhoodSampler(
        index, clusters_per_batch=odd.number(3), examples_per_cluster=odd.number(2), batches=odd.number(4),
        seed=odd.number(0), rank=odd.number(0), world_size=odd.number(1), delay=odd.number(2),
    )  # fmt: skip
    batches = list(islice(sampler, 3))
    assert len(sampler) > 0
    sampler.update(odd.ids(6), odd.chance.choice((torch.rand(6), [1.0] * 6, odd.points(6, 1))))
    if odd.chance.random() < 0.5:
        sampler.load_state_dict(odd.state(sampler.state_dict()))
    if odd.chance.random() < 0.3:
        sampler.clusters(odd.ids(6))
    return [*batches, *islice(sampler, 3), sampler.state_dict()["losses"]]


def _votes(odd: Odd) -> Any:
    options = {"neighbours": odd.number(4), "variance": odd.number(1.0), "scaling": odd.number(1.0)}
    if odd.chance.random() < 0.5:
        rule = magnet.SoftNeighbours(odd.points(), odd.ids(), **options)
    else:
        weights = odd.chance.choice((None, odd.number(None), torch.ones(len(_index(odd)))))
        rule = magnet.NearestClusters(
            _index(odd) if odd.chance.random() < 0.9 else odd.number(1), **options, weights=weights
        )
    asked = odd.points(5)
    found = [rule.predict(asked), rule.predict_proba(asked), rule.predict_log_proba(asked), *rule.nearest(asked)]
    if isinstance(rule, magnet.NearestClusters) and odd.chance.random() < 0.5:
        more = {"pull": odd.number(0.1), "iterations": odd.number(3), "example_weights": odd.number(None)}
        moved = rule.refined(odd.points(), odd.ids(), **more)
        found += [moved.references, rule.moved_to(odd.points(len(rule.references))).predict_proba(asked)]
    return found


def _nearest_classifier(odd: Odd) -> Any:
    model = magnet.NearestClustersClassifier(
        n_clusters=odd.number("auto"), scaling=odd.number("auto"), neighbours=odd.number(8),
        class_weight=odd.number(None), validation_fraction=odd.number(0.1), refusal_rate=odd.number(0.05),
        random_state=0,
    )  # fmt: skip
    model.fit(odd.table(40), odd.labels(40))
    asked = odd.table(5)
    found = [
        model.predict_proba(asked),
        model.novelty(asked),
        model.predict_log_proba(asked),
        model.decision_function(asked),
    ]
    if odd.chance.random() < 0.4:
        model.extend(odd.table(5), odd.labels(5))
    return found


def _magnet_classifier(odd: Odd) -> Any:
    model = magnet.MagnetClassifier(
        odd.number(2), n_clusters=odd.number(2), scaling=odd.number("auto"), alpha=odd.number(2.0),
        max_iter=odd.number(1), shrinkage=odd.number("auto"), standardize=odd.number("auto"), power=odd.number("auto"),
        centres=odd.number("auto"),
        clusters_per_batch=odd.number(8), examples_per_cluster=odd.number("auto"), learning_rate=odd.number(0.01),
        validation_fraction=odd.number(0.2), class_weight=odd.number(None), device=odd.number("cpu"), random_state=0,
    )  # fmt: skip
    model.fit(odd.table(60), odd.labels(60))
    asked = odd.table(5)
    return [model.predict_proba(asked), model.transform(asked), model.novelty(asked), model.components_]


def _tree(odd: Odd) -> Any:
    tree = CentreTree(odd.points(40), seed=odd.number(0))
    asked = odd.points(5)
    return list(tree.nearest(asked, odd.number(2), tree.beam(asked, odd.number(1)) or [1]))


def _verification(odd: Odd) -> Any:
    rates, unit = (odd.number(0.1),), odd.number(1.0)
    found = verification(odd.points(), odd.ids(), rates=rates, unit=unit, seed=odd.number(0))
    return [found.get("auc", 0.0), found.get("equal_error", 0.0)]


class Trained:
    """A small run, for calls that open one."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        y = np.arange(60) % 3
        np.savez(folder / "x.npz", X=rng.normal(size=(60, 3)) + y[:, None], y=y)
        self.folder, self.run = folder, magnet.train(folder / "x.npz", folder / "run", steps=2, silent=True)
        self.model = magnet.load(self.run.folder)

    def train(self, odd: Odd) -> Any:
        out = self.folder / f"run-{odd.chance.random()}"
        names = (
            "epochs",
            "seed",
            "dim",
            "alpha",
            "scaling",
            "learning_rate",
            "method",
            "backbone",
            "validation",
            "clip",
        )
        settings = {name: odd.number(None) for name in odd.chance.sample(names, 2)}
        settings = {name: value for name, value in settings.items() if value is not None}
        data = (odd.table(), odd.labels()) if odd.chance.random() < 0.7 else odd.number((odd.table(), odd.labels()))
        run = magnet.train(data, out, silent=True, **{"steps": 2, **settings})
        return magnet.evaluate(run)["knc"]["error"]

    def evaluate(self, odd: Odd) -> Any:
        data = None if odd.chance.random() < 0.3 else (odd.table(), odd.labels())
        part = odd.number("all" if data else "test")
        run = odd.chance.choice((self.run, self.run, self.run.folder, odd.number(self.run)))
        return magnet.evaluate(run, data, part)["knc"]["error"]

    def load(self, odd: Odd) -> Any:
        model = magnet.load(odd.number(self.run.folder), which=odd.number("best"), device=odd.number("cpu"))
        return model.classify(odd.table(5)).probabilities

    def ask(self, odd: Odd) -> Any:
        model, asked = self.model, odd.table(5)
        found = model.classify(asked, refuse=odd.chance.random() < 0.5)
        near = model.search(asked, odd.number(3))
        short = model.shortened(odd.number(2)) if odd.chance.random() < 0.3 else model
        if odd.chance.random() < 0.3:
            short.extend(odd.table(5), odd.labels(5))
        return [found.probabilities, found.novelty, [row.distance for rows in near for row in rows]]

    def lately(self, odd: Odd) -> Any:
        model = magnet.load(self.run.folder)
        near = model.find(odd.points(5, model.network.dim), odd.number(3))
        found = model.judge(odd.points(5, model.network.dim)).probabilities
        more = model.extend(odd.table(5), odd.labels(5), names=odd.number(()))
        more.save(odd.number(self.folder / f"bundle-{odd.chance.random()}"))
        return [found, [row.distance for rows in near for row in rows]]

    def opened(self, odd: Odd) -> Any:
        run = Run(odd.number(self.run.folder), which=odd.number("last"), test_draws=odd.number(0))
        data = open_data((odd.table(), odd.labels()), seed=odd.number(0), validation=odd.number(0.0))
        return [run.step, data.batch([0])]

    def explore(self, odd: Odd) -> Any:
        magnet.explore(odd.number(self.run), odd.number(self.folder / "explore.html"))


def random_calls(folder: Path, cases: int, seed: int, slow: float = 0.1) -> Iterator[tuple[str, Outcome]]:
    """So many calls, a share ``slow`` of them of what takes a second: what was called, and what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = Trained(folder)
    quick: dict[str, Callable[[Odd], Any]] = {
        "magnet_loss": _loss, "magnet_objective": _objective, "MagnetLoss": _module, "fit": _fit, "ClusterIndex": _made,
        "grown": _grown, "members and impostors": _asked, "NeighbourhoodSampler": _sampler, "votes": _votes,
        "load": trained.load, "Model": trained.ask, "Model again": trained.lately, "Run": trained.opened,
        "CentreTree": _tree, "verification": _verification,
    }  # fmt: skip
    long: dict[str, Callable[[Odd], Any]] = {
        "NearestClustersClassifier": _nearest_classifier, "MagnetClassifier": _magnet_classifier,
        "train": trained.train, "evaluate": trained.evaluate, "explore": trained.explore,
    }  # fmt: skip
    chance = random.Random(seed)
    for number in range(cases):
        kinds = long if chance.random() < slow else quick
        name = chance.choice(sorted(kinds))
        odd = Odd(seed * 1_000_003 + number)
        yield f"{name}, seed {seed * 1_000_003 + number}", called(kinds[name], odd)


def called(function: Callable[[Odd], Any], odd: Odd, seconds: int = 60) -> Outcome:
    """What comes of a call: numbers that are numbers, or an error that was meant."""
    try:
        with at_most(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(odd)
    except TooLongError:
        return Outcome(HANG, "")
    except ALLOWED as error:
        return Outcome(SAID if meant(error) and str(error) else TRACEBACK, f"{type(error).__name__}: {error}")
    except BaseException as error:
        return Outcome(TRACEBACK, f"{type(error).__name__}: {error}")
    return Outcome(SAME if finite(result) or not odd.finite else NOT_FINITE, "")


def meant(error: BaseException) -> bool:
    """Whether an error was raised on purpose: by this package, or by checks of scikit-learn and torch that it calls."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = any(part in last.filename for part in ("/magnet/", "/sklearn/", "/torch/nn/modules/module.py"))
    return ours and linecache.getline(last.filename, last.lineno or 0).strip().startswith("raise")
