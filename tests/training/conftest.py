import pytest

from training.short_runs import write_images, write_vectors


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    return write_vectors(tmp_path_factory.mktemp("data") / "vectors.npz")


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images")
