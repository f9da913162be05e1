"""The search for settings."""

import builtins
import dataclasses
import os
import pickle
import shlex
import signal
import sqlite3
import sys

import numpy as np
import pytest

from magnet.cli import main
from magnet.commands import train as train_command
from magnet.errors import UserError
from magnet.training.config import TrainConfig, read_config
from magnet.training.loop import Trainer
from magnet.training.search import Search, open_validated, settings_of, tune
from training.short_runs import settings, start, weights, write_vectors

pytest.importorskip("optuna")
WORDS = ("tune", "--data", "digits", "--epochs", "1", "--dim", "4", "--backbone", "mlp", "--quiet", "--device", "cpu")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def search(vectors, tmp_path, **options):
    config = settings(None, vectors, method=options.pop("method", "magnet"), epochs=1, **options.pop("config", {}))
    return Search(config, tmp_path / "search", **{"trials": 3, **options})


def opened(search):
    return search.open(open_validated(search))


def results(study):
    return [(t.number, t.value, settings_of(t.params)) for t in study.ended()]


def ignore(study):
    pass


def test_a_search_ends_with_a_table_a_file_and_a_command_that_trains(tmp_path, capsys, monkeypatch):
    assert main([*WORDS, "--trials", "3", "--out", "found"]) == 0
    output = capsys.readouterr().out
    assert [line.split("  ")[0] for line in output.splitlines()[:3]] == ["trial 0", "trial 1", "trial 2"]
    assert "Global scaling" in output
    command = shlex.split(output.splitlines()[-1])
    assert command[:2] == ["magnet", "train"]
    seen = []
    monkeypatch.setattr("magnet.training.train.train", lambda config, **more: seen.append(config) or tmp_path / "run")
    monkeypatch.setattr(train_command, "_finish", lambda folder, config: None)
    train_command.main([*command[2:], "--no-evaluate"])
    best = TrainConfig.load(tmp_path / "found" / "best.yaml")
    assert seen == [dataclasses.replace(best, evaluate=False)]
    assert (best.epochs, best.dim, best.validation, best.evaluate) == (1, 4, 0.0, True)
    assert best.schedule == "annealing"
    kept = [
        folder.name for folder in sorted((tmp_path / "found" / "trials").iterdir()) if (folder / "checkpoint").exists()
    ]
    assert len(kept) == 1
    winner = read_config(tmp_path / "found" / "trials" / kept[0])
    assert (winner.learning_rate, winner.scaling, winner.validation) == (best.learning_rate, best.scaling, 0.2)


def test_the_same_command_goes_on_to_the_wanted_number(vectors, tmp_path):
    first = results(tune(search(vectors, tmp_path, trials=2), report=ignore))
    assert len(first) == 2
    assert results(tune(search(vectors, tmp_path, trials=2), report=ignore)) == first
    on = results(tune(search(vectors, tmp_path, trials=4), report=ignore))
    assert on[:2] == first
    at_once = results(
        tune(dataclasses.replace(search(vectors, tmp_path, trials=4), folder=tmp_path / "b"), report=ignore)
    )
    assert on == at_once


@pytest.mark.parametrize("method", ["magnet", "triplet"])
def test_only_validation_is_looked_at(method, vectors, tmp_path, monkeypatch):
    touched = set()
    from magnet.data import Dataset

    batch = Dataset.batch

    def noting(data, rows):
        touched.update(data.split[rows].tolist())
        return batch(data, rows)

    monkeypatch.setattr(Dataset, "batch", noting)
    study = tune(search(vectors, tmp_path, method=method, trials=2), report=ignore)
    assert touched == {0, 1}
    folder = tmp_path / "search" / "trials" / f"{study.ranked()[0].number:04d}"
    assert not read_config(folder).evaluate


def test_an_interrupted_trial_is_as_if_it_had_never_been(vectors, tmp_path, monkeypatch):
    step = Trainer._step
    steps = []

    def signalled(trainer):
        step(trainer)
        steps.append(trainer.step)
        if len(steps) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Trainer, "_step", signalled)
    with pytest.raises(KeyboardInterrupt, match="of 3 trials; the same command goes on"):
        tune(search(vectors, tmp_path, config={"clusters_per_batch": 2}, fixed=frozenset({"clusters_per_batch"})),
             report=ignore)  # fmt: skip
    monkeypatch.setattr(Trainer, "_step", step)
    study = tune(search(vectors, tmp_path, config={"clusters_per_batch": 2}, fixed=frozenset({"clusters_per_batch"})),
                 report=ignore)  # fmt: skip
    assert len(study.ranked()) == 3


def test_a_trial_whose_process_was_killed_does_not_count(vectors, tmp_path):
    one = search(vectors, tmp_path, trials=2)
    lost = opened(one).claim(2)
    gone = start("--version", module="pip")
    gone.communicate()
    lost.set_user_attr("owner", [os.uname().nodename, gone.pid])
    assert [number for number, *_ in results(tune(one, report=ignore))] == [1, 2]


def test_no_more_trials_are_claimed_than_wanted_by_two_at_once(vectors, tmp_path, monkeypatch):
    one, two = (opened(search(vectors, tmp_path, trials=2)) for _ in range(2))
    assert one.claim(2).number == 0
    ask = two._study.ask
    # The second process sees that a trial is left, and asks for it after the first one did.
    monkeypatch.setattr(two._study, "ask", lambda: (one.claim(2), ask())[1])
    assert two.claim(2) is None
    assert [trial.number for trial in one._counting()] == [0, 1]


def test_a_run_that_diverges_is_a_failed_trial(vectors, tmp_path, monkeypatch):
    step = Trainer._step

    def diverging(trainer):
        if trainer.folder.name == "0001":
            raise FloatingPointError("the loss became nan")
        step(trainer)

    monkeypatch.setattr(Trainer, "_step", diverging)
    study = tune(search(vectors, tmp_path), report=ignore)
    assert [value is None for _, value, _ in results(study)] == [False, True, False]
    assert study.ended()[1].user_attrs["failure"] == "the loss became nan"
    monkeypatch.setattr(Trainer, "_step", lambda trainer: diverging(type("T", (), {"folder": tmp_path / "0001"})))
    with pytest.raises(UserError, match="all 3 trials failed, for instance: the loss became nan"):
        tune(dataclasses.replace(search(vectors, tmp_path), folder=tmp_path / "b"), report=ignore)


def test_weights_are_kept_if_wanted(vectors, tmp_path):
    tune(search(vectors, tmp_path, trials=2, keep=True), report=ignore)
    for number in (0, 1):
        assert weights(tmp_path / "search" / "trials" / f"{number:04d}")


def test_other_settings_need_another_folder(vectors, tmp_path):
    tune(search(vectors, tmp_path, trials=1), report=ignore)
    with pytest.raises(UserError, match=r"holds a search with other settings \(epochs\): give another --out"):
        tune(dataclasses.replace(one := search(vectors, tmp_path), config=dataclasses.replace(one.config, epochs=2)),
             report=ignore)  # fmt: skip


def test_what_the_command_is_given_stays_fixed(tmp_path):
    assert main([*WORDS, "--trials", "2", "--method", "softmax", "--learning-rate=0.02", "--sampler", "tpe"]) == 0
    for folder in (tmp_path / "searches" / "digits-softmax-0" / "trials").iterdir():
        assert read_config(folder).learning_rate == 0.02
        assert read_config(folder).annealing < 1


def test_a_search_does_not_go_on_with_other_data(tmp_path):
    data = write_vectors(tmp_path / "x.npz")
    tune(search(data, tmp_path, trials=1), report=ignore)
    content = dict(np.load(data))
    np.savez(data, X=content["X"][:, ::-1], y=content["y"])
    with pytest.raises(UserError, match=r"a search with other settings \(content of the data\): give another --out"):
        tune(search(data, tmp_path, trials=2), report=ignore)


def test_the_study_is_read_without_unpickling(vectors, tmp_path, monkeypatch):
    tune(search(vectors, tmp_path, trials=1), report=ignore)
    with sqlite3.connect(tmp_path / "search" / "study.db") as database:
        dump = "\n".join(database.iterdump())
    assert "X'80" not in dump  # how a pickle begins

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert len(opened(search(vectors, tmp_path)).ranked()) == 1


def test_wrong_data_leaves_nothing_behind(tmp_path, capsys):
    assert main(["tune", "--data", "nowhere.npz"]) == 2
    assert "nowhere.npz does not exist" in capsys.readouterr().err
    assert not (tmp_path / "searches").exists()


def test_without_optuna_the_command_says_what_to_install(monkeypatch, capsys):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "optuna")
    monkeypatch.setattr(builtins, "__import__", missing)
    assert main([*WORDS, "--trials", "1"]) == 2
    assert "pip install 'magnet-loss[tune]'" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_share_the_trials(vectors, tmp_path):
    study = tune(search(vectors, tmp_path, trials=4, jobs=2), report=ignore)
    assert [number for number, *_ in results(study)] == [0, 1, 2, 3]
    assert os.getpid() not in {trial.user_attrs["owner"][1] for trial in study.ended()}
    alone = tune(dataclasses.replace(search(vectors, tmp_path, trials=4), folder=tmp_path / "b"), report=ignore)
    assert [drawn for *_, drawn in results(study)] == [drawn for *_, drawn in results(alone)]
