"""What a run remembers of its training set."""

import shutil

import pytest
import torch

from magnet.errors import UserError
from magnet.files import read_record, read_tensors, write_record, write_tensors
from magnet.runs.run import Run
from magnet.training.folder import LEARNER, MANIFEST


@pytest.fixture
def embedded(monkeypatch):
    """How many examples were embedded since the test began."""
    from magnet.runs import run as module

    counts = []
    original = module.embed

    def counted(learner, rows, *others, **more):
        counts.append(len(rows))
        return original(learner, rows, *others, **more)

    monkeypatch.setattr(module, "embed", counted)
    return counts


def test_the_training_part_is_embedded_once(own_photo_run, embedded):
    first = Run(own_photo_run)
    second_index, references = first.index, first.references
    assert embedded == [17]
    again = Run(own_photo_run)
    assert again.references.equal(references)
    assert again.index == second_index
    assert embedded == [17]
    assert [file.name for file in (own_photo_run / "cache").iterdir()] == ["step-00000006.safetensors"]


def test_without_the_data_a_used_run_still_classifies(photos, tmp_path, magnet, complaint):
    from magnet.training.config import TrainConfig
    from magnet.training.train import train

    moved = shutil.copytree(photos, tmp_path / "moved")
    run = train(
        TrainConfig(data=str(moved), backbone="convnet", image_size=16, steps=2, workers=0, quiet=True, test_draws=1,
                    clusters_per_class=2, out=tmp_path / "run"), silent=True
    )  # fmt: skip
    photo = photos / "blue" / "0.png"
    before = magnet("classify", run, photo, "--json")
    shutil.rmtree(moved)
    assert magnet("classify", run, photo, "--json") == before
    assert magnet("evaluate", run, "--data", photos, "--json")["n"] == 7
    assert "was trained on cannot be opened" in complaint("evaluate", run)
    shutil.rmtree(run / "cache")
    assert "change `data` in" in complaint("classify", run, photo)


def test_a_run_opened_without_its_data_does_not_pretend_to_have_it(own_photo_run):
    Run(own_photo_run).index  # noqa: B018
    with pytest.raises(UserError, match="left closed"):
        Run(own_photo_run, need_data=False).data  # noqa: B018


@pytest.mark.parametrize("spoil", ["cut", "garbage", "weights", "settings", "revision"])
def test_a_stale_or_broken_memory_is_made_anew(own_photo_run, embedded, spoil, monkeypatch):
    references = Run(own_photo_run).references
    (file,) = (own_photo_run / "cache").iterdir()
    if spoil == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif spoil == "garbage":
        file.write_bytes(b"garbage")
    elif spoil == "weights":
        last = own_photo_run / "checkpoint" / "step-00000006"
        tensors = read_tensors(last / LEARNER, None).tensors
        digest = write_tensors(last / LEARNER, {k: v * 2 if v.is_floating_point() else v for k, v in tensors.items()})
        manifest = read_record(last / MANIFEST, dict)
        write_record(last / MANIFEST, manifest | {"files": manifest["files"] | {LEARNER: digest}})
    elif spoil == "revision":
        monkeypatch.setattr("magnet.runs.run.REVISION", 0)
    else:
        config = own_photo_run / "config.yaml"
        config.write_text(config.read_text().replace("clusters_per_class: 2", "clusters_per_class: 1"))
    again = Run(own_photo_run)
    assert torch.equal(again.references, references) == (spoil != "weights")
    assert len(again.index) == (3 if spoil == "settings" else 6)
    assert embedded == [17, 17]


def test_other_examples_in_the_data_are_noticed(own_photo_run, photos, tmp_path, embedded):
    moved = shutil.copytree(photos, tmp_path / "moved")
    config = own_photo_run / "config.yaml"
    config.write_text(config.read_text().replace(str(photos), str(moved)))
    assert len(Run(own_photo_run).references) == 17
    for i in range(8):
        (moved / "blue" / f"{i}.png").rename(moved / "blue" / f"{i}x.png")
    run = Run(own_photo_run)
    assert "blue/3x.png" in run.data.names
    # Under new names they are not known to have been trained on, so they no longer count as training examples.
    assert len(run.references) < 17
    assert embedded == [17, len(run.references)]


def test_memories_of_checkpoints_that_are_gone_are_removed(own_photo_run):
    (own_photo_run / "cache").mkdir()
    (own_photo_run / "cache" / "step-00000001.safetensors").write_text("old")
    Run(own_photo_run).index  # noqa: B018
    assert [file.name for file in (own_photo_run / "cache").iterdir()] == ["step-00000006.safetensors"]
