"""Coarse labels to fine classes: where the two levels come from, and what is compared."""

from pathlib import Path

import numpy as np
import pytest

from experiments.small_labs import lab_of
from magnet.data import Dataset
from magnet.errors import UserError
from magnet.experiments import coarse_to_fine

BIRDS = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Crested_Auklet", "004.Least_Auklet"]


def write_birds(path, **columns):
    rng = np.random.default_rng(0)
    y = np.arange(240) % 4
    X = (8 * np.eye(4)[y] + 4 * np.eye(2)[y // 2].repeat(2, axis=1) + rng.normal(size=(240, 4))).astype(np.float32)
    np.savez(path, X=X, y=y, classes=np.array(BIRDS), test=rng.random(240) < 0.3, **columns)
    return str(path)


def test_every_method_is_judged_by_the_classes_that_its_labels_do_not_tell(tmp_path):
    lab = lab_of(write_birds(tmp_path / "birds.npz"), tmp_path / "results" / "coarse-to-fine", seeds=1)
    lab.methods = ["softmax", "magnet"]
    outcome = coarse_to_fine.run(lab)
    assert "trained on 2 coarse classes, judged by 4 fine ones, one seed" in outcome.tables[0].title
    errors = {method: outcome.values["coarse classes"][method]["knc"][0] for method in lab.methods}
    assert set(errors) == {"softmax", "magnet"}
    assert errors["magnet"] < 0.2


def test_what_others_report_of_cifar100_stands_beside_ours_and_is_what_the_page_prints(tmp_path):
    lab = lab_of(write_birds(tmp_path / "cifar100.npz"), tmp_path / "results" / "coarse-to-fine", seeds=1)
    lab.methods = ["magnet"]
    *ours, others = coarse_to_fine.run(lab).tables
    assert ours[0].title.startswith("cifar100, trained on 2 coarse classes")
    assert "as others report, not run here" in others.title
    page = Path(__file__).parents[2] / "docs" / "results.md"
    assert others.markdown() in page.read_text(encoding="utf-8")


def test_data_of_one_level_is_told_how_to_name_two():
    data = Dataset.from_arrays(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(UserError, match="name both, as --label COARSE --judge FINE"):
        coarse_to_fine.coarse(data)


def test_levels_that_the_data_brings_go_before_those_of_names():
    fine = np.array([0, 1, 2, 3])
    data = Dataset.from_arrays(np.eye(4), fine % 2, judge=fine)
    assert coarse_to_fine.coarse(data) is data
