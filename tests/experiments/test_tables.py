"""Ten tables by cross-validation: how they are drawn, what is measured on them, and how classifiers are ranked."""

import json

import numpy as np
import pytest
from rich.console import Console
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier

from magnet.errors import UserError
from magnet.experiments import tables
from magnet.experiments.tables import TABLES, corners, normal_in_ring, two_normals, waveform
from training.short_runs import write_images, write_vectors

QUIET = Console(quiet=True)


def simple(seed, cache):
    """Three classifiers: two alike and one that knows nothing, the last two of other kinds than the first."""
    return {
        "kNN": KNeighborsClassifier(3),
        "LDA": KNeighborsClassifier(3),
        "random forest": DummyClassifier(strategy="constant", constant=0),
    }


def test_there_are_ten_tables_and_a_seed_gives_the_same_one_again():
    assert len(TABLES) == 10
    for name, draw in TABLES.items():
        X, y = draw(1)
        assert X.ndim == 2, name
        assert len(X) == len(y), name
        assert np.bincount(y).min() >= 40, name
        assert np.array_equal(X, draw(1)[0]), name
    assert not np.array_equal(waveform(1)[0], waveform(2)[0])


def test_two_normals_are_told_apart_as_well_as_their_formula_says():
    X, y = two_normals(0, 20_000)
    assert np.mean((X.sum(axis=1) > 0) != y) == pytest.approx(0.0228, abs=0.004)  # Phi(-2)


def test_a_normal_lies_inside_a_ring_of_twice_its_deviation():
    X, y = normal_in_ring(0, 20_000)
    assert X[y == 0].std(axis=0) == pytest.approx(np.full(20, 2.0), abs=0.06)
    assert X[y == 1].std(axis=0) == pytest.approx(np.full(20, 1.0), abs=0.03)
    assert X[y == 1].mean(axis=0) == pytest.approx(np.full(20, 20**-0.5), abs=0.04)


def test_waves_lie_between_two_triangles_that_are_six_high():
    X, y = waveform(0, 30_000)
    means = np.array([X[y == c].mean(axis=0) for c in range(3)])
    first, second, third = (np.maximum(6 - np.abs(np.arange(21) - peak), 0) for peak in (6, 14, 10))
    expected = np.array([first + second, first + third, second + third]) / 2
    assert means == pytest.approx(expected, abs=0.08)


def test_corners_of_one_class_are_an_even_number_of_edges_apart():
    X, y = corners(0, 5_000)
    corner = X[:, :3] > 2
    assert np.mean(corner.sum(axis=1) % 2 == y) == pytest.approx(0.934, abs=0.02)  # 3 sides, each beyond 2 deviations
    assert np.abs(X[:, 3:].mean(axis=0)).max() < 0.1


def test_equal_errors_share_a_rank_and_the_worst_is_last():
    outcome = tables.run(QUIET, tables=["iris", "wine"], choose=simple, repeats=2)
    errors, ranks = outcome.tables
    assert [row[0] for row in errors.rows] == ["iris", "wine"]
    assert errors.rows[0][3] == "66.7 ± 0.0"
    assert len(outcome.values["iris"]["kNN"]["error"]) == 2 * tables.FOLDS
    shown = {row[0]: row[1:5] for row in ranks.rows}
    assert shown["kNN"][:2] == shown["LDA"][:2] == ["1.5", "1.5"]
    assert [shown[name][3] for name in ("kNN", "LDA", "random forest")] == ["0", "0", "2"]
    assert shown["random forest"][:2] == ["", "3.0"]  # neither a metric learner nor linear


def test_a_test_fold_has_no_part_in_the_fit():
    class Spy(DummyClassifier):
        def fit(self, X, y):
            self.seen = {row.tobytes() for row in X}
            return super().fit(X, y)

        def score(self, X, y):
            assert not self.seen & {row.tobytes() for row in X}
            return super().score(X, y)

    found = tables.run(QUIET, tables=["twonorm"], choose=lambda seed, cache: {"kNN": Spy()})
    assert len(found.values["twonorm"]["kNN"]["error"]) == tables.FOLDS


@pytest.mark.slow
def test_the_command_cross_validates_every_classifier_on_a_table_of_ones_own(command, tmp_path):
    source = write_vectors(tmp_path / "mine.npz", count=60)
    words = ("reproduce", "tables", "--tables", source, "--out", str(tmp_path / "out"))
    printed = command(*words)
    assert "Ranks over 1 table" in printed
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert content["experiment"] == "tables"
    assert list(content["values"]["mine"]) == list(tables.classifiers(0, ""))
    assert all(len(found["error"]) == tables.FOLDS for found in content["values"]["mine"].values())


def test_what_cannot_be_cross_validated_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no table or file 'wines': did you mean wine\?"):
        tables.run(QUIET, tables=["wines"])
    with pytest.raises(UserError, match=r"takes tables of numbers; .* holds images"):
        tables.run(QUIET, tables=[write_images(tmp_path / "photos", per_class=4)])
    with pytest.raises(UserError, match="a class has 3 examples; 5 folds need 5 of each"):
        tables.run(QUIET, tables=[write_vectors(tmp_path / "few.npz", count=9)])
    with pytest.raises(UserError, match="seeds must be at least 1"):
        tables.run(QUIET, repeats=0)


def test_all_experiments_on_ones_data_leave_the_tables_out():
    from magnet.commands.reproduce import EXPERIMENTS, _wanted

    assert set(EXPERIMENTS) - set(_wanted(["all"])[0]) == {"tables"}
