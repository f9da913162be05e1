import pytest
import torch

from training.short_runs import write_images, write_vectors


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Runs that are compared bit by bit must use the same number of threads as their subprocesses."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    return write_vectors(tmp_path_factory.mktemp("data") / "vectors.npz")


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images")
