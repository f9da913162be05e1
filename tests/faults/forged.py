"""Files of runs, bundles and estimators with one value changed, and checksums that fit: what only a person can make."""

import contextlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import magnet
from faults.calls import called
from faults.damage import commands
from faults.hostile import spoilt_json
from faults.outcomes import Outcome, command, printed
from magnet.files import DIGEST, file_digest, record_digest, write_tensors
from training.short_runs import run as train
from training.short_runs import stop_at

MANIFESTS = ("manifest.json", "bundle.json")  # which name the checksums of the files beside them


def forged(run: Path, scratch: Path, cases: int, seed: int, *, resumed: bool = False) -> Iterator[tuple[str, Outcome]]:
    """So many cases, each of one forged file and what is then done with it; ``resumed``: an interrupted run goes on."""
    chance = random.Random(seed)
    scratch.mkdir(parents=True, exist_ok=True)
    rows = np.load(run.parent / "rows.npy")
    used = Path(shutil.copytree(run, scratch / "used"))  # with all that commands keep in a run
    for words in (["suspects", used], ["report", used, "--out", scratch / "r.html"]):
        printed(*words)
    stopped = stopped_run(scratch / "stopped", run.parent / "x.npz")
    if resumed:
        for number in range(cases):
            copy = scratch / "resumed"
            shutil.rmtree(copy, ignore_errors=True)
            path = chance.choice(_files(Path(shutil.copytree(stopped, copy))))
            changed = f"{path.relative_to(copy)}: {forge(path, chance)}, seed {seed}, {number}"
            yield changed, command("train", "--resume", copy, "--quiet")
        return
    X, y = (np.load(run.parent / "x.npz")[name] for name in ("X", "y"))
    estimators = {kind.__name__: kind(random_state=0).fit(X, y) for kind in (magnet.NearestClustersClassifier, _short)}
    for number in range(cases):
        what = chance.choice(("run", "run", "bundle", "estimator"))
        if what == "estimator":
            model = chance.choice(list(estimators.values()))
            model.save(scratch / "estimator")
            changed = forge(scratch / "estimator", chance)
            case = f"estimator, {changed}, seed {seed}, {number}"
            yield case, called(lambda odd, model=model: _use(model, scratch, X, y), _Any())
            continue
        asked = commands(run, scratch)
        if what == "run" and chance.random() < 0.25:  # these take a second
            asked = {
                "train": ["train", "--resume", run, "--quiet"],
                "verify": ["verify", run, run.parent / "rows.npy", run.parent / "rows.npy", "--false-accepts", "0.3"],
                "suspects": ["suspects", run],
                "report": ["report", run, "--out", scratch / "r.html"],
                "export": ["export", run, "--to", scratch / "exported", "--force"],
                "explore": ["explore", run, "--no-open", "--out", scratch / "x.html"],
            }
        elif what == "bundle":
            asked = {name: asked[name] for name in ("classify", "search")}
            asked["load"] = []
        which = chance.choice(sorted(asked))
        copy = scratch / what
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(stopped if which == "train" else used if what == "run" else run.parent / "bundle", copy)
        path = chance.choice(_files(copy))
        changed = f"{what}, {path.relative_to(copy)}: {forge(path, chance)}"
        case = f"{changed}, {which}, seed {seed}, {number}"
        if which == "load":
            yield case, called(lambda odd, copy=copy: _ask(copy, rows), _Any())
        else:
            yield case, command(*[copy if word == run else word for word in asked[which]])


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".jsonl", ".safetensors"))


def stopped_run(folder: Path, data: Path) -> Path:
    """A run that was interrupted, and can be resumed."""
    options = {"epochs": 4, "validation": 0.2, "keep_refreshes": 2, "quiet": True, "evaluate": False}
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        stop_at(patch, 8)
        train(folder, str(data), **options)
    return folder


def _short(random_state: int) -> magnet.MagnetClassifier:
    return magnet.MagnetClassifier(max_iter=1, random_state=random_state)


class _Any:
    finite = True


def _ask(folder: Path, rows: np.ndarray) -> Any:
    model = magnet.load(folder)
    found = model.classify(rows)
    near = model.search(rows, 3) if model.references is not None else []
    model.extend(rows, ["new"] * len(rows))
    model.save(folder.parent / "again")
    return [found.probabilities, found.novelty, [row.distance for each in near for row in each]]


def _use(model: Any, scratch: Path, X: np.ndarray, y: np.ndarray) -> Any:
    found = type(model).load(scratch / "estimator")
    answers = [found.predict_proba(X[:5]), found.novelty(X[:5]), found.predict_log_proba(X[:5])]
    found.predict(X[:5])
    found.extend(X[:9], y[:9])
    found.save(scratch / "again")
    return answers


def forge(path: Path, chance: random.Random) -> str:
    """Change one value in a record or in a file of tensors, and make all checksums fit."""
    before = _digest(path)
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        place = chance.randrange(len(lines))
        lines[place] = spoilt_json(lines[place], chance)
        path.write_text("\n".join(lines) + "\n")
        what = "a value of a line"
    elif path.suffix == ".json":
        values = json.loads(path.read_text())
        if isinstance(values, dict):
            values.pop(DIGEST, None)
        text = spoilt_json(json.dumps(values), chance)
        values = json.loads(text)
        if isinstance(values, dict):
            text = json.dumps(values | {DIGEST: record_digest(values)})
        path.write_text(text)
        what = "a value"
    else:
        with safe_open(path, framework="pt") as file:
            about = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about.pop(DIGEST, None)
        if "estimator" in about and chance.random() < 0.6:
            about["estimator"] = spoilt_json(about["estimator"], chance)
            what = "a value"
        else:
            what = _spoil(tensors, chance)
        write_tensors(path, tensors, about)
    after = _digest(path)
    for name in MANIFESTS:
        manifest = path.with_name(name)
        if before != after and path.name != name and manifest.is_file():
            values = json.loads(manifest.read_text().replace(before, after))
            values.pop(DIGEST)
            manifest.write_text(json.dumps(values | {DIGEST: record_digest(values)}))
    return what


def _spoil(tensors: dict[str, Tensor], chance: random.Random) -> str:
    """Change one tensor."""
    if not tensors:
        tensors["x"] = torch.zeros(1)
        return "a tensor more"
    name = chance.choice(sorted(tensors))
    x = tensors[name]
    kind = chance.choice(
        ("nan", "inf", "huge", "tiny", "negative", "zero", "dtype", "shape", "less", "more", "none", "name")
    )
    if kind in ("nan", "inf", "huge", "tiny", "negative", "zero"):
        value = {"nan": float("nan"), "inf": float("inf"), "huge": 3e38, "tiny": 1e-45, "negative": -7, "zero": 0}[kind]
        if not x.is_floating_point():
            value = {"nan": 2**31, "inf": 2**62, "huge": 999, "tiny": 1, "negative": -1, "zero": 0}[kind]
            value = min(value, torch.iinfo(x.dtype).max) if x.dtype != torch.bool else bool(value)
        flat = x.clone().reshape(-1)
        flat[: chance.choice((1, len(flat)))] = value
        tensors[name] = flat.reshape(x.shape)
    elif kind == "dtype":
        tensors[name] = x.to(chance.choice((torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)))
    elif kind == "shape":
        tensors[name] = chance.choice((x.reshape(-1), x[None], x.reshape(-1)[:0], x.expand(2, *x.shape).clone()))
    elif kind in ("less", "more"):
        tensors[name] = x[:-1].clone() if kind == "less" and x.ndim else torch.cat([x, x]) if x.ndim else x.reshape(1)
    elif kind == "none":
        del tensors[name]
    else:
        tensors[name + "x"] = tensors.pop(name)
    return f"{name} {kind}"


def _digest(path: Path) -> str:
    """The checksum by which a manifest names a file."""
    if path.suffix in (".json", ".jsonl"):
        return file_digest(path)
    with safe_open(path, framework="pt") as file:
        return str(file.metadata()[DIGEST])
