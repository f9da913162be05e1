"""Retrieval among classes that were never trained on."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from magnet.data import open_data
from magnet.experiments import unseen
from magnet.experiments.lab import Lab
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset


def test_the_halves_share_no_class_and_the_second_chooses_nothing(twelve):
    data = open_data(twelve)
    whole, held = unseen.halved(data)
    trained, searched = whole.labels[whole.indices("train")], whole.labels[whole.indices("test")]
    assert int(trained.max()) < int(searched.min())
    assert len(trained) + len(searched) == len(data)
    fitted, chosen_by = (set(held.labels[held.indices(part)].tolist()) for part in ("train", "test"))
    assert not fitted & chosen_by
    assert fitted | chosen_by == set(trained.tolist())


def test_recall_and_nmi_are_those_of_a_naive_search():
    generator = torch.Generator().manual_seed(0)
    r, labels = torch.randn(60, 3, generator=generator), torch.arange(60) % 12
    found = unseen.ranked_among_others(r, labels)
    hits = {1: 0, 8: 0}
    for i in range(60):
        order = sorted((j for j in range(60) if j != i), key=lambda j: float((r[i] - r[j]).square().sum()))
        for count in hits:
            hits[count] += any(labels[j] == labels[i] for j in order[:count])
    assert found["recall@1"] == pytest.approx(hits[1] / 60)
    assert found["recall@8"] == pytest.approx(hits[8] / 60)
    assert 0 < found["nmi"] < 1


@pytest.fixture
def twelve(tmp_path):
    """Twelve classes."""
    generator = np.random.default_rng(0)
    labels = np.arange(240) % 12
    spec = str(tmp_path / "twelve.npz")
    np.savez(spec, X=generator.normal(size=(12, 6))[labels] * 3 + generator.normal(size=(240, 6)), y=labels)
    return spec


@pytest.mark.parametrize("trials", [1, 3])
def test_every_row_has_every_column(twelve, tmp_path, trials):
    def configure(row):
        return replace(with_preset(TrainConfig(data=twelve, method=row)), epochs=1, dropout=0.0)

    lab = Lab(
        configure, tmp_path / "results" / "unseen", fixed=frozenset({"dropout"}), trials=trials, seeds=1,
        methods=("magnet", "softmax"), console=Console(quiet=True),
    )  # fmt: skip
    outcome = unseen.run(lab)
    assert [row[0] for row in outcome.tables[0].rows] == ["Magnet", "softmax", "features", "the start alone"]
    assert all(0 <= value <= 1 for found in outcome.values.values() for one in found.values() for value in one)
    assert np.all([len(row) == 5 for row in outcome.tables[0].rows])
    json.dumps(outcome.values)
    settings = lab.chosen[unseen.HALF]["magnet"][0]
    assert {"shrinkage", "epochs", "learning_rate"} <= settings.keys()
