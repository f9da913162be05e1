"""What holds for all tests."""

import json
import os

import numpy as np
import pytest
import torch

# Some virtual processors announce matrix units that they do not have, and bfloat16 arithmetic dies of it. This has to
# be said before the first product is computed.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from magnet.cli import main
from magnet.data.benchmarks.digits import list_digits


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small networks are no quicker with two threads, and runs that are compared bit by bit must use as many threads as
    their subprocesses.
    """
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def few_digits():
    """Makes ``digits`` a fifth of what it is, 360 examples, for tests that train many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("magnet.data.sources.list_digits", lambda: list_digits().keep(np.arange(0, 1797, 5)))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Features of images are kept in a folder of the tests, not in the user's cache."""
    os.environ["MAGNET_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_disks():
    """Tests end processes, never machines: what is written need not reach the disk, which takes half of a short run."""
    patch = pytest.MonkeyPatch()
    patch.setattr("os.fsync", lambda file: None)
    yield
    patch.undo()


@pytest.fixture
def command(capsys):
    """Runs a command that must succeed, and returns what it prints; as JSON if it was asked for."""

    def run(*words):
        assert main([str(word) for word in words]) == 0
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in words else printed

    return run


@pytest.fixture
def complaint(capsys):
    """Runs a command that must be refused in one line, and returns that line."""

    def run(*words):
        assert main([str(word) for word in words]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("magnet: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return run
