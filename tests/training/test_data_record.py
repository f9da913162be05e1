"""The parts of the data stay what they were when a run began."""

import shutil

import pytest

from magnet.errors import UserError
from magnet.runs.run import Run
from magnet.training.config import TrainConfig, read_config
from magnet.training.train import train


@pytest.fixture
def grown(images, tmp_path):
    """A run on a folder of images that has grown since."""
    photos = shutil.copytree(images, tmp_path / "photos")
    config = TrainConfig(
        data=str(photos), out=tmp_path / "run", backbone="convnet", image_size=16, epochs=1, workers=0, evaluate=False
    )
    folder = train(config, silent=True)
    before = Run(folder).data
    some = sorted(path for path in photos.rglob("*.*") if path.is_file())[0]
    shutil.copy(some, some.with_name("0-came-later" + some.suffix))
    return folder, before


def names(data, part):
    return [data.names[i] for i in data.indices(part).tolist()]


def test_examples_that_come_later_do_not_move_others_between_the_parts(grown):
    folder, before = grown
    after = Run(folder).data
    assert len(after) == len(before) + 1
    for part in ("train", "test"):
        assert names(after, part) == names(before, part)


def test_a_run_does_not_go_on_with_other_data(grown):
    folder, _ = grown
    with pytest.raises(UserError, match="has changed since it began"):
        train(read_config(folder), resume=True, silent=True)
