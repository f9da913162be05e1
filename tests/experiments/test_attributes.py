"""The experiment on attribute concentration, end to end on digits and on small vectors."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from experiments.small_labs import lab_of
from magnet.data import Dataset, open_data
from magnet.errors import UserError
from magnet.evaluation.concentration import attribute_concentration
from magnet.experiments import attributes
from magnet.experiments.attributes import attributes_of, derived_attributes
from training.short_runs import write_vectors


@pytest.fixture(scope="module")
def digits(tmp_path_factory, few_digits):
    return lab_of("digits", tmp_path_factory.mktemp("results") / "attributes")


@pytest.fixture(scope="module")
def outcome(digits):
    return attributes.run(digits)


def test_every_method_has_a_row_and_every_size_a_column(outcome):
    everywhere, _, within, _ = outcome.tables
    for table in (everywhere, within):
        assert table.columns == ["method", "1", "2", "4", "8", "16", "32", "64", "128"]
        names = [row[0] for row in table.rows]
        methods = ["softmax", "triplet", "semantic triplet", "Magnet"]
        rows = [name for method in methods for name in (method, "±")]
        assert names == [*rows, "at random", *(f"vs {method}" for method in methods[:-1])]
        shown = Console(width=80, file=io.StringIO())
        shown.print(table.rich())
        assert "…" not in shown.file.getvalue()  # fits a terminal
        assert all(len(row) == 9 for row in table.rows)
    assert "computed from the pixels" in everywhere.caption
    assert [figure.name for figure in outcome.figures] == ["attributes.png"]
    assert outcome.figures[0].stat().st_size > 10_000


def test_the_numbers_are_those_of_the_runs(outcome, digits):
    rows = digits.data.indices("test")
    table = derived_attributes(digits.data, rows.numpy()).values
    for method in digits.methods:
        for seed, config in enumerate(digits.seeded(digits.best(method))):
            space = digits.train(config).embed(rows, test=True)
            found = attribute_concentration(space, table).precision
            np.testing.assert_allclose(outcome.values["all"]["precision"][method][seed], found)


def test_differences_are_those_of_the_means_and_lie_in_their_intervals(outcome):
    values = json.loads(json.dumps(outcome.values))  # ready for JSON
    for scope in ("all", "class"):
        mean = {method: np.mean(found, axis=0) for method, found in values[scope]["precision"].items()}
        for method in ("softmax", "triplet", "semantic-triplet"):
            difference, low, high = np.array(values[scope]["difference"][method]).T
            # Blocks of other sizes round differently, so that two equally near neighbours may change places.
            np.testing.assert_allclose(difference, mean["magnet"] - mean[method], atol=1e-4)
            assert (low <= difference + 1e-9).all()
            assert (difference <= high + 1e-9).all()
            relative, low, high = np.array(values[scope]["relative"][method]).T
            np.testing.assert_allclose(relative, mean["magnet"] / mean[method] - 1, atol=1e-3)
            assert (low <= high).all()


def test_within_a_class_that_is_smaller_than_the_neighbourhood_all_methods_are_at_random(outcome):
    # The largest neighbourhood has 128 examples, and no class has as many in the test part.
    for found in outcome.values["class"]["precision"].values():
        np.testing.assert_allclose(np.array(found)[:, -1], outcome.values["class"]["at_random"])


def test_attributes_of_whole_classes_count_among_other_classes(tmp_path):
    rng = np.random.default_rng(0)
    percent = rng.integers(0, 100, (3, 6)).astype(np.float32)
    percent[:, 0] = [90, 80, 10]
    data = write_vectors(tmp_path / "v.npz", class_attributes=percent, attribute_names=[f"has {i}" for i in range(6)])
    lab = lab_of(data, tmp_path / "results" / "attributes", seeds=1)
    outcome = attributes.run(lab)
    assert list(outcome.values) == ["attributes", "part", "sizes", "others"]
    assert "of other classes" in outcome.tables[0].title
    rows = lab.data.indices("test")
    space = lab.train(lab.best("magnet")).embed(rows, test=True)
    found = attribute_concentration(
        space, lab.data.attributes.keep(rows.numpy()).values, labels=lab.data.labels[rows], others_only=True
    )
    np.testing.assert_allclose(outcome.values["others"]["precision"]["magnet"][0], found.precision)


def test_vectors_without_attributes_are_refused_before_anything_is_trained(tmp_path):
    lab = lab_of(write_vectors(tmp_path / "v.npz"), tmp_path / "results" / "attributes")
    with pytest.raises(UserError, match="has no attributes"):
        attributes.run(lab)
    assert not lab.runs.exists()


def test_attributes_that_are_the_same_throughout_a_class_are_measured_without_a_table_within_classes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(attributes, "SIZES", (1, 4))  # each has its bootstrap intervals
    labels = np.arange(90) % 3
    table = np.stack([labels == 0, labels < 2], axis=1).astype(np.float32)
    lab = lab_of(write_vectors(tmp_path / "v.npz", attributes=table), tmp_path / "results" / "attributes", seeds=1)
    outcome = attributes.run(lab)
    assert "class" not in outcome.values
    assert len(outcome.tables) == 2
    assert "No attribute varies within a class" in outcome.tables[0].caption
    assert [figure.name for figure in outcome.figures] == ["attributes.png"]
    json.dumps(outcome.values, allow_nan=False)


def test_where_only_training_examples_are_annotated_precision_is_measured_among_them(tmp_path, monkeypatch):
    monkeypatch.setattr(attributes, "SIZES", (1, 4))  # each has its bootstrap intervals
    test = np.arange(90) % 10 == 0
    table = np.random.default_rng(0).integers(0, 2, (90, 2)).astype(np.float32)
    table[test] = np.nan
    data = write_vectors(tmp_path / "v.npz", attributes=table, test=test)
    lab = lab_of(data, tmp_path / "results" / "attributes", seeds=1)
    outcome = attributes.run(lab)
    assert outcome.values["part"] == "train"
    assert "among the train examples" in outcome.tables[0].caption
    assert "Only training examples are annotated" in outcome.tables[0].caption
    rows = lab.data.indices("train")
    space = lab.train(lab.best("magnet")).embed(rows, test=True)
    found = attribute_concentration(space, table[~test], sizes=(1, 4))
    np.testing.assert_allclose(outcome.values["all"]["precision"]["magnet"][0], found.precision)


def test_attributes_derived_of_digits_are_facts_of_their_ink():
    data = open_data("digits")
    rows = data.indices("test").numpy()
    found, note = attributes_of(data, rows)
    assert "computed from the pixels" in note
    assert found.level == "image"
    ink = data.vectors[rows].reshape(-1, 8, 8).astype(float)
    place = np.arange(8)
    measured = {
        "bright": ink.sum(axis=(1, 2)),
        "left-heavy": -(ink.sum(axis=1) @ place) / ink.sum(axis=(1, 2)),
        "top-heavy": -(ink.sum(axis=2) @ place) / ink.sum(axis=(1, 2)),
    }
    for name, values in measured.items():
        has = found.values[:, found.names.index(name)] == 1
        assert 0.45 < has.mean() <= 0.5
        # Bytes of grey are a little coarser than the ink itself: all but ties at the median agree.
        assert (has == (values > np.median(values))).mean() > 0.99


def test_data_with_attributes_keeps_them_and_vectors_without_are_refused():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    table = (np.arange(40).reshape(20, 2) % 3 == 0).astype(np.float32)
    data = Dataset.from_arrays(X, y, attributes=table)
    found, note = attributes_of(data, np.array([1, 4]))
    np.testing.assert_array_equal(found.values, table[[1, 4]])
    assert note == ""
    with pytest.raises(UserError, match="no attributes and no pictures"):
        derived_attributes(Dataset.from_arrays(X, y), np.arange(3))
