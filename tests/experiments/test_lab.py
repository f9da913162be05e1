import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from magnet.data import Dataset, merge_classes
from magnet.errors import UserError
from magnet.experiments import cache
from magnet.experiments.cache import is_finished, judged, key_of, other_data_note, top_classes, trained, wrong
from magnet.experiments.lab import Lab, methods_of, read_row
from magnet.experiments.outcome import pretty
from magnet.experiments.search import DROPOUTS, FINALISTS, chosen, searched_space, settings_for, trials, with_dropout
from magnet.files import read_record, write_record
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import CONFIG, TrainConfig
from magnet.training.folder import FOLDER, LEARNER, MANIFEST, open_checkpoint
from magnet.training.presets import with_preset
from magnet.training.workbench import open_for
from training.short_runs import write_vectors

pytestmark = pytest.mark.usefixtures("few_digits")


def configure(method: str) -> TrainConfig:
    return replace(with_preset(TrainConfig(data="digits", method=method, start="random")), epochs=2)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(configure, tmp_path / "some", trials=2, seeds=2, console=Console(quiet=True))


def test_every_method_gets_the_same_number_of_trials_and_a_trial_is_repeatable() -> None:
    drawn = {m: trials(configure(m), 5) for m in ("softmax", "triplet", "magnet", "pml/SupConLoss")}
    assert {len(found) for found in drawn.values()} == {5}
    assert drawn["magnet"] == trials(configure("magnet"), 5)
    assert drawn["magnet"][:3] == trials(configure("magnet"), 3)
    assert len({t["learning_rate"] for t in drawn["softmax"]}) == 5


def test_what_is_given_is_not_searched() -> None:
    fixed = frozenset({"alpha", "clusters_per_batch"})
    assert not {"alpha", "batch"} & searched_space(configure("magnet"), fixed).keys()
    assert trials(configure("softmax"), 5, frozenset({"learning_rate"})) == [{}]
    fixed = frozenset({"dropout"})
    assert chosen(configure("softmax"), fixed) == {"learning_rate": configure("softmax").learning_rate}


def test_dropout_is_tried_on_a_linear_map_unless_it_is_given_or_the_network_has_its_own() -> None:
    linear, deep = configure("softmax"), replace(configure("softmax"), backbone="mlp")
    assert [config.dropout for config in with_dropout([linear])] == list(DROPOUTS)
    assert len(with_dropout([linear] * 9)) == FINALISTS * len(DROPOUTS)
    assert with_dropout([linear], frozenset({"dropout"})) == with_dropout([deep]) == []
    assert chosen(linear)["dropout"] == 0.0
    assert chosen(replace(linear, dropout=0.2))["dropout"] == 0.2
    assert "dropout" not in chosen(deep)


def test_a_run_is_trained_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure("softmax")
    first = lab.train(config)
    monkeypatch.setattr(cache, "train", lambda *args, **more: pytest.fail("trained again"))
    again = lab.train(replace(config, quiet=True, workers=1))  # what does not change a result does not count
    assert again.folder == first.folder
    answers = top_classes(first)
    assert set(answers) == {"head", "knc", "knn"}
    truth = lab.data.labels[lab.data.indices("test")]
    predicted = first.rule("knc").predict(first.embed(lab.data.indices("test"), test=True))
    assert (wrong(answers["knc"], truth) == (predicted != truth).numpy()).all()
    assert (wrong(answers["knc"], truth, top=5) <= wrong(answers["knc"], truth)).all()
    assert {k: v.tolist() for k, v in top_classes(lab.train(config)).items()} == {
        k: v.tolist() for k, v in answers.items()
    }


def test_other_settings_labels_or_parts_are_other_runs() -> None:
    data, held = open_for(configure("softmax")), open_for(replace(configure("softmax"), validation=0.2))
    swapped = open_for(configure("softmax"))
    swapped.labels = 9 - swapped.labels
    config = configure("softmax")
    keys = {
        key_of(config, data), key_of(replace(config, seed=1), data), key_of(replace(config, learning_rate=0.1), data),
        key_of(config, held), key_of(config, swapped), key_of(configure("magnet"), data),
    }  # fmt: skip
    assert len(keys) == 6
    assert config.backbone == "linear"
    assert key_of(replace(config, dropout=0.0), data) == key_of(config, data)
    assert key_of(replace(config, dropout=0.2), data) != key_of(config, data)


def write(path: Path, content: np.ndarray) -> Dataset:
    np.savez(path, X=content, y=np.arange(90) % 3)
    return open_for(replace(configure("softmax"), data=str(path)))


def test_another_file_with_the_same_names_and_labels_is_not_answered_from_the_first_ones_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    told = np.eye(3)[np.arange(90) % 3] * 9 + rng.normal(size=(90, 3))
    easy, noise = write(tmp_path / "a.npz", told), write(tmp_path / "b.npz", rng.normal(size=(90, 3)))
    assert (list(easy.names), easy.labels.tolist()) == (list(noise.names), noise.labels.tolist())
    config = configure("softmax")
    runs = [Run(trained(config, data, tmp_path / "runs"), which="last", data=data) for data in (easy, noise)]
    assert runs[0].folder != runs[1].folder
    errors = [evaluate(run)["head"]["error"] for run in runs]
    assert errors[0] < 0.1 < errors[1]
    held = replace(config, validation=0.2)
    curves = [judged(held, open_for(replace(held, data=str(tmp_path / f"{name}.npz"))), tmp_path) for name in "ab"]
    assert curves[0] != curves[1]
    moved = shutil.copy(tmp_path / "a.npz", tmp_path / "c.npz")
    assert key_of(config, open_for(replace(config, data=str(moved)))) == key_of(config, easy)


def test_only_runs_of_the_same_source_before_it_changed_are_spoken_of(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = rng.normal(size=(90, 3))
    data, runs = write(tmp_path / "a.npz", content), tmp_path / "runs"
    config = replace(configure("softmax"), epochs=1, data=str(tmp_path / "a.npz"))
    for some in (data, merge_classes(data, 0)):
        trained(config, some, runs)
    other = write(tmp_path / "b.npz", content + 1)
    trained(replace(config, data=str(tmp_path / "b.npz")), other, runs)
    assert other_data_note(runs, data) == other_data_note(runs, other) == ""
    assert other_data_note(runs, write(tmp_path / "a.npz", -content)) == (
        f"{tmp_path / 'a.npz'} has changed since 2 earlier runs in {runs} "
        "(other values in X (the labels are the same)): new ones are trained"
    )


def test_weights_and_a_warm_start_count_by_their_content(tmp_path: Path) -> None:
    config, data = configure("softmax"), open_for(configure("softmax"))
    source = trained(config, data, tmp_path)
    for name, content in (("a", b"some"), ("b", b"others"), ("same", b"some")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.pth").write_bytes(content)
        copied = Path(shutil.copytree(source, tmp_path / name / "run"))
        manifest = open_checkpoint(copied / FOLDER, "last").path / MANIFEST
        write_record(manifest, read_record(manifest, dict) | {"files": {LEARNER: content.hex()}})
    for field, place in (("weights", "w.pth"), ("warm_start", "run")):
        keys = [key_of(replace(config, **{field: tmp_path / name / place}), data) for name in ("a", "b", "same")]
        assert keys[0] != keys[1]
        assert keys[0] == keys[2]


def test_another_revision_of_the_code_makes_the_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    config, data = configure("softmax"), open_for(configure("softmax"))
    before = key_of(config, data)
    monkeypatch.setattr(cache, "REVISION", cache.REVISION + 1)
    assert key_of(config, data) != before


def test_a_stopped_run_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, data = configure("magnet"), open_for(configure("magnet"))
    whole = trained(config, data, tmp_path / "whole")
    from magnet.training import loop

    save = loop.Trainer._save

    def stop(trainer: loop.Trainer) -> None:
        save(trainer)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_save", stop)
        with pytest.raises(KeyboardInterrupt):
            trained(config, data, tmp_path / "stopped")
    assert not is_finished(tmp_path / "stopped" / whole.name)
    resumed = trained(config, data, tmp_path / "stopped")
    assert is_finished(resumed)
    runs = [Run(folder, which="last", data=data) for folder in (whole, resumed)]
    assert torch.equal(*(run.references for run in runs))


def test_a_run_stopped_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    config, data = configure("softmax"), open_for(configure("softmax"))
    folder = tmp_path / key_of(config, data)
    folder.mkdir()
    replace(config, out=folder).save(folder / CONFIG)
    assert is_finished(trained(config, data, tmp_path))


def test_a_judged_run_keeps_its_errors_and_not_its_weights(tmp_path: Path) -> None:
    config = replace(configure("softmax"), validation=0.2)
    data = open_for(config)
    curve = judged(config, data, tmp_path)
    assert [step for step, _ in curve] == [5, 10]
    folder = tmp_path / key_of(config, data)
    assert not (folder / "checkpoint").exists()
    assert judged(config, data, tmp_path) == curve


def test_a_run_that_diverges_is_remembered_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(configure("softmax"), learning_rate=1e30, validation=0.2)
    data = open_for(config)
    assert judged(config, data, tmp_path) == []
    monkeypatch.setattr(cache, "train", lambda *args, **more: pytest.fail("trained again"))
    assert judged(config, data, tmp_path) == []


def test_the_best_trial_is_the_one_with_the_lowest_validation_error(lab: Lab) -> None:
    ranked = lab.search("softmax")
    assert lab.trials < FINALISTS
    assert len(ranked) == lab.trials * (1 + len(DROPOUTS)) == lab.tries - 1  # one more for the votes
    assert [error for error, _ in ranked] == sorted(error for error, _ in ranked)
    assert lab.best("softmax") == ranked[0][1]
    assert [config.seed for config in lab.seeded(ranked[0][1])] == [0, 1]


def test_from_the_whitened_start_settings_are_chosen_once_and_votes_on_the_validation_part(tmp_path: Path) -> None:
    def small(method: str) -> TrainConfig:
        return replace(with_preset(TrainConfig(data="digits", method=method)), epochs=1)

    lab = Lab(small, tmp_path / "some", trials=1, seeds=1, fixed=frozenset({"dropout"}), console=Console(quiet=True))
    best = lab.best("triplet")
    assert best.start == "whitened"
    assert min(best.power, best.shrinkage, best.clusters_per_class, best.votes_scaling, best.knn_scaling) > 0
    run = lab.train(best)
    assert run.embeddings.votes["knc"].scaling == best.votes_scaling
    assert run.embeddings.votes["knn"].neighbours == best.knn_neighbours
    again = Lab(small, tmp_path / "some", trials=1, seeds=1, fixed=frozenset({"dropout"}), console=Console(quiet=True))
    assert again.best("triplet") == best


def test_numbers_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--seeds must be at least 1; found 0"):
        Lab(configure, tmp_path, seeds=0)


def test_final_runs_train_on_the_datas_own_validation_part_once_settings_are_chosen(tmp_path: Path) -> None:
    split = np.arange(90) // 3 % 3  # as Flowers has it: three parts
    spec = write_vectors(tmp_path / "v.npz", split=split)

    def small(method: str) -> TrainConfig:
        return replace(with_preset(TrainConfig(data=spec, method=method)), epochs=1)

    lab = Lab(small, tmp_path / "some", seeds=1, console=Console(quiet=True))
    assert [len(lab.held.indices(part)) for part in ("train", "validation", "test")] == [30, 30, 30]
    assert [len(lab.data.indices(part)) for part in ("train", "validation", "test")] == [60, 0, 30]
    assert lab.about()["examples"]["train"] == 60
    run = lab.train(small("softmax"))
    assert run is not None
    assert len(Run(run.folder).train) == 60  # opened again by its folder alone, too


def test_a_row_may_have_settings_of_its_own_which_are_not_searched(tmp_path: Path) -> None:
    row = "magnet(own_mean=batch,schedule=annealing, clusters_per_batch=6)"
    own = {"own_mean": "batch", "schedule": "annealing", "clusters_per_batch": 6}
    assert read_row(row) == ("magnet", own)
    assert read_row("pml/ArcFaceLoss(margin=20)") == ("pml/ArcFaceLoss(margin=20)", {})
    assert pretty(row) == "Magnet (own mean batch, schedule annealing, clusters per batch 6)"
    assert methods_of("fine-grained", ("magnet", row)) == ("magnet", row)
    lab = Lab(lambda row: replace(configure("magnet"), **read_row(row)[1]), tmp_path / "some")
    space = searched_space(lab.configure(row), lab.fixed_for(row))
    assert space.keys() == {"learning_rate", "alpha", "scaling", "clusters_per_class"}
    settings = {"classes": {"magnet": [{"alpha": 3.0}]}}
    assert settings_for(tmp_path, settings, "classes", ["magnet", row])[row] == [{"alpha": 3.0}]
    for bad in ("magnet(alpha=x)", "magnet(own_mean=median)", "magnet(alpha=1", "magnet(data=digits)", "magnet(x=1)"):
        with pytest.raises(UserError, match="is not understood at"):
            read_row(bad)
