"""A final run that diverges is a row that says so, and the rest of the experiment goes on."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from magnet.experiments import attributes, cache, demo
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, agreement, read_values, spread
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset
from magnet.training.train import train
from training.short_runs import write_vectors

METHODS = ("softmax", "triplet", "magnet")
ABSURD = 1e30  # a learning rate


def configure(data: str, method: str) -> TrainConfig:
    small = {"epochs": 1, "dim": 8, "clusters_per_batch": 4, "examples_per_cluster": 2, "device": "cpu"}
    return replace(with_preset(TrainConfig(data=data, method=method)), **small)


def lab_where(diverging: str, tmp_path: Path, name: str, seeds: int = 2) -> Lab:
    """A lab in which one of three methods has an absurd learning rate among its given settings."""
    rng = np.random.default_rng(0)
    data = write_vectors(tmp_path / "v.npz", classes=4, attributes=rng.integers(0, 2, (90, 3)).astype(np.float32))
    rates = {method: ABSURD if method == diverging else 0.01 for method in METHODS}
    chosen = {"classes": {method: [{"learning_rate": rate}] for method, rate in rates.items()}}
    (tmp_path / "settings.json").write_text(json.dumps({"settings": chosen}))
    return Lab(
        lambda method: configure(data, method), tmp_path / "results" / name, methods=METHODS, seeds=seeds, pairings=2,
        settings=tmp_path / "settings.json", console=Console(quiet=True),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def few_sizes(monkeypatch):
    monkeypatch.setattr(attributes, "SIZES", (1, 4))  # each has its bootstrap intervals


def run(name: str, lab: Lab) -> Outcome:
    lab.out.mkdir(parents=True, exist_ok=True)
    outcome: Outcome = import_module(f"magnet.experiments.{name.replace('-', '_')}").run(lab)
    return outcome


@pytest.mark.parametrize("diverging", ["softmax", "magnet"])
@pytest.mark.parametrize("name", ["fine-grained", "metrics", "hierarchy", "attributes", "maps", "dynamics"])
def test_a_diverged_method_is_a_row_that_says_so_and_is_not_trained_again(name, diverging, tmp_path, monkeypatch):
    lab = lab_where(diverging, tmp_path, name, seeds=1 if name == "maps" else 2)
    outcome = run(name, lab)
    rows = {row[0]: row[1:] for row in outcome.tables[0].rows}
    words = {"softmax": "softmax", "triplet": "triplet", "magnet": "Magnet"}
    assert any("diverged" in cell for cell in rows[words[diverging]])
    for method in METHODS:
        if method != diverging:
            assert rows[words[method]][-1] or rows[words[method]][1], "the rest has numbers"
            own_cells = rows[words[method]][:2]
            assert not any(cell.startswith("diverged") for cell in own_cells)
    path = outcome.save(lab.out, {"experiment": name})
    assert '"diverged"' in path.read_text()
    values = read_values(path, name)
    assert not agreement(values, values).rows
    for figure in outcome.figures:
        assert figure.stat().st_size > 1000
    monkeypatch.setattr(cache, "train", lambda *args, **more: pytest.fail("trained again"))
    again = run(name, lab_where(diverging, tmp_path, name, seeds=1 if name == "maps" else 2))
    assert [table.rows for table in again.tables] == [table.rows for table in outcome.tables]


@pytest.mark.parametrize("name", ["fine-grained", "metrics", "hierarchy", "attributes", "maps", "dynamics"])
def test_an_experiment_in_which_everything_diverges_says_that_everything_diverged(name, tmp_path):
    lab = lab_where("softmax", tmp_path, name, seeds=1)
    lab._given = {"classes": {method: [{"learning_rate": ABSURD}] for method in METHODS}}
    outcome = run(name, lab)
    assert [any("diverged" in cell for cell in row) for row in outcome.tables[0].rows] == [True] * 3
    json.dumps(outcome.values)


def test_ablations_whose_best_setting_diverges_say_so(tmp_path, monkeypatch):
    from magnet.experiments import ablations

    monkeypatch.setattr(ablations, "choices", lambda best, steps: {"gap alpha": [("1", {}), ("2", {"alpha": 2.0})]})
    outcome = run("ablations", lab_where("magnet", tmp_path, "ablations"))
    assert all(row[1] == "diverged" for table in outcome.tables for row in table.rows)
    assert outcome.values["neighbours L"]["128"] == [None, None]


def test_a_search_whose_trials_all_diverge_leaves_the_other_methods_their_rows(tmp_path):
    lab = lab_where("softmax", tmp_path, "fine-grained", seeds=1)
    before = lab.configure

    def configure(method: str) -> TrainConfig:
        return replace(before(method), learning_rate=ABSURD if method == "softmax" else 0.01)

    searching = Lab(
        configure, lab.out, methods=METHODS, seeds=1, trials=2, fixed=frozenset({"learning_rate"}),
        console=Console(quiet=True),
    )  # fmt: skip
    outcome = run("fine-grained", searching)
    assert [row[2] == "diverged" for row in outcome.tables[0].rows] == [True, False, False]
    assert outcome.values["softmax"]["trials"] == [None]


def test_one_diverged_seed_of_several_is_counted_beside_the_mean_of_the_others():
    assert spread([0.1, None, 0.2]) == "15.0 ± 7.1 (1 of 3 diverged)"
    assert spread([None, None]) == "diverged"
    assert spread([0.1, 0.2]) == "15.0 ± 7.1"


def test_weights_that_overflow_in_the_last_step_are_noticed(tmp_path):
    config = replace(configure(write_vectors(tmp_path / "v.npz"), "softmax"), steps=1, learning_rate=ABSURD)
    with pytest.raises(FloatingPointError, match="the weights grew without bounds at step 1"):
        train(replace(config, out=tmp_path / "run", evaluate=False), silent=True)


def test_a_method_of_the_demo_that_diverges_has_no_run_and_no_numbers(tmp_path):
    data = write_vectors(tmp_path / "v.npz", classes=4)
    config = replace(configure(data, "softmax"), learning_rate=ABSURD, validation=0.2, evaluate=False)
    lab = Lab(lambda method: config, tmp_path / "demo", methods=("softmax",), seeds=2, console=Console(quiet=True))
    reached = demo.measure(lab, "softmax")
    assert reached.run is None
    assert reached.knc == reached.knn == reached.hidden == [None, None]
    assert not list((tmp_path / "demo").iterdir())


def test_the_demo_goes_on_without_a_method_that_diverges(tmp_path, capsys, monkeypatch):
    from magnet.commands.demo import main

    def measured(lab, method):
        if method == "triplet":
            return demo.Reached([None], [None], [None], None)
        return demo.Reached([0.05], [0.06], [0.07], SimpleNamespace(folder=lab.out / method))

    drawn = []
    monkeypatch.setattr(demo, "measure", measured)
    monkeypatch.setattr(demo, "map_of", lambda run, title: title)
    monkeypatch.setattr(demo, "draw_maps", lambda panels, *rest, **more: drawn.extend(panels))
    page = lambda runs, **more: SimpleNamespace(write=lambda path: path.write_text(f"{len(runs)} runs"))  # noqa: E731
    monkeypatch.setattr(demo, "build_explorer", page)
    main(["--out", str(tmp_path), "--seeds", "1"])
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if "triplet" in line and "diverged" in line)
    assert row.count("diverged") == 3
    assert drawn == ["softmax", "magnet"]
    assert (tmp_path / "explore.html").read_text() == "2 runs"
    assert str(tmp_path / "magnet") in shown.replace("\n", "")
