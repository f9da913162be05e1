"""Planted wrong labels: what is counted, beside cleanlab, and kept."""

import numpy as np
import pytest

from experiments.small_labs import lab_of
from magnet.errors import UserError
from magnet.experiments import suspects


@pytest.fixture
def lab(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(160) % 4
    X = (6 * np.eye(4)[y] + rng.normal(size=(160, 4))).astype(np.float32)
    np.savez(tmp_path / "four.npz", X=X, y=y, test=np.arange(160) >= 140)
    return lab_of(str(tmp_path / "four.npz"), tmp_path / "results" / "suspects", seeds=2)


def test_magnet_and_cleanlab_find_what_was_planted_and_are_compared_by_planted_labels(lab):
    pytest.importorskip("cleanlab")
    outcome = suspects.run(lab)
    for rate in ("0.05", "0.1"):
        found = outcome.values[rate]
        assert min(found["magnet"] + found["self_confidence"]) > 0.8
        assert len(found["magnet"]) == 2
        mean, low, high = found["difference"]["self_confidence"]
        assert low <= mean <= high
        assert mean == pytest.approx(np.mean(found["magnet"]) - np.mean(found["self_confidence"]))
    (table,) = outcome.tables
    assert [row[0] for row in table.rows] == ["Magnet", "cleanlab, self-confidence", "cleanlab, margin"]
    assert "[" in table.rows[1][3]
    assert "140 training examples" in table.title


def test_a_second_run_counts_nothing_again_unless_the_data_is_another(lab, monkeypatch):
    lab.linear = False
    first = suspects.run(lab)
    assert "difference" in first.values["0.05"]
    monkeypatch.setattr(suspects, "_by_magnet", lambda *arguments: pytest.fail("counted again"))
    assert suspects.run(lab).values == first.values
    lab.data.labels[:4] = 3 - lab.data.labels[:4]
    with pytest.raises(pytest.fail.Exception, match="counted again"):
        suspects.run(lab)


def test_images_are_refused(lab):
    lab.data.kind = "images"
    with pytest.raises(UserError, match="searched among vectors; four holds images"):
        suspects.run(lab)
