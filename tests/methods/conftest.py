import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same numbers whichever tests ran before."""
    torch.manual_seed(0)
