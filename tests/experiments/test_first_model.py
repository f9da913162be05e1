"""The time to a first model of photographs."""

import pytest
from safetensors.torch import save_file

from magnet.backbones import build
from magnet.errors import UserError
from magnet.experiments import first_model
from magnet.experiments.lab import Lab
from magnet.training.config import TrainConfig
from training.short_runs import write_images


def lab(tmp_path, data, **settings):
    return Lab(lambda row: TrainConfig(data, image_size=12, **settings), tmp_path / "out", seeds=1)


def test_every_way_is_measured_from_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(first_model, "SMALL", 12)
    monkeypatch.setattr(first_model, "EPOCHS", 1)
    data = write_images(tmp_path / "images", per_class=8)
    save_file(build("convnet", example_shape=(3, 12, 12)).state_dict(), tmp_path / "w.safetensors")
    outcome = first_model.run(lab(tmp_path, data, backbone="convnet", weights=tmp_path / "w.safetensors"))
    (table,) = outcome.tables
    assert [row[0] for row in table.rows] == list(outcome.values)
    assert len(table.rows) == 4
    for name, found in outcome.values.items():
        parts = found["features"][0] + found["start"][0] + found["training"][0]
        assert parts == pytest.approx(found["seconds"][0])
        assert (found["features"][0] > 0) == ("random" not in name)
        assert 0 <= found["error"][0] <= 1


def test_vectors_are_refused(tmp_path):
    with pytest.raises(UserError, match="needs images"):
        first_model.run(lab(tmp_path, "digits"))
