"""Optional packages, imported the way the package imports them."""

from types import ModuleType

import pytest

from magnet.backbones.timm import import_torchvision


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    try:
        import_torchvision()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}")
    return pytest.importorskip("torchvision")


@pytest.fixture(scope="session")
def timm(torchvision: ModuleType) -> ModuleType:
    return pytest.importorskip("timm")
