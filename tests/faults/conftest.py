import pytest

from faults.damage import make_run


@pytest.fixture(scope="session")
def damaged_run(tmp_path_factory):
    """A run whose copies are to be damaged."""
    return make_run(tmp_path_factory.mktemp("faults"))
