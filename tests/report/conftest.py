"""Short runs to look at, their pages, and a browser to open these in."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_wine

from magnet.report.explorer.build import build_explorer
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.train import train
from report.browser import DESKTOP, Page, look_like, start

FASHION = Path("/usr/share/datasets/fashion-mnist")


def short(folder: Path, **settings) -> Path:
    """A short quiet training."""
    usual = {"evaluate": False, "quiet": True, "workers": 0, "out": folder}
    return train(TrainConfig(**(usual | settings)), silent=True)


@pytest.fixture(scope="session")
def digits_magnet(tmp_path_factory) -> Path:
    """Magnet on digits, with four refreshes kept."""
    settings = {"clusters_per_class": 4, "steps": 60, "refresh_every": 15, "keep_refreshes": 4}
    return short(tmp_path_factory.mktemp("e") / "magnet", data="digits", **settings)


@pytest.fixture(scope="session")
def digits_softmax(tmp_path_factory) -> Path:
    return short(tmp_path_factory.mktemp("e") / "softmax", data="digits", method="softmax", steps=40)


@pytest.fixture(scope="session")
def digits_triplet(tmp_path_factory) -> Path:
    return short(tmp_path_factory.mktemp("e") / "triplet", data="digits", method="triplet", steps=10)


@pytest.fixture(scope="session")
def odd_vectors(tmp_path_factory) -> Path:
    """A run on vectors with hostile names, an attribute, and a class that has no training example."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), [30, 30, 30, 2])
    file = tmp_path_factory.mktemp("o") / "odd.npz"
    np.savez(
        file,
        X=rng.normal(size=(92, 6)) + 3 * np.eye(4, 6)[labels],
        y=np.array(["<script>alert(1)</script>", "=HYPERLINK(1)", 'a "b", c\u2028', "only in test"])[labels],
        split=np.where(labels == 3, 2, np.arange(92) % 3),
        name=np.array([f"<img src=x onerror=alert({i})>" for i in range(92)]),
        attributes=np.array([["yes"], ["no"], [""]])[np.arange(92) % 3],
        attribute_names=np.array(["<b>striped</b>"]),
        feature_names=np.array([f"<i>feature {i}</i>" for i in range(6)]),
    )
    return short(file.parent / "run", data=str(file), clusters_per_class=2, steps=20)


@pytest.fixture(scope="session")
def wine(tmp_path_factory) -> Path:
    """A run on scikit-learn's wines: 13 features with names, from 0.13 to 1680."""
    table, file = load_wine(), tmp_path_factory.mktemp("w") / "wine.npz"
    np.savez(file, X=table.data, y=table.target, feature_names=np.array(table.feature_names))
    return short(file.parent / "run", data=str(file), clusters_per_class=2, steps=20)


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    """A run on twelve pictures, one colour a class."""
    folder = tmp_path_factory.mktemp("p")
    for name, colour in {"red": (220, 30, 30), "blue": (30, 30, 220)}.items():
        for i in range(6):
            file = folder / "photos" / name / f"{i} #.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (180 + 9 * i, 200), colour).save(file)
    settings = {"backbone": "convnet", "image_size": 16, "steps": 3, "clusters_per_class": 1, "test_draws": 1}
    return short(folder / "run", data=str(folder / "photos"), **settings)


@pytest.fixture(scope="session")
def fashion(tmp_path_factory) -> Path:
    """A convnet after a handful of steps on the first of the real Fashion-MNIST images."""
    if not FASHION.is_dir():
        pytest.skip(f"Fashion-MNIST is not at {FASHION} (Debian's package dataset-fashion-mnist puts it there)")
    folder = tmp_path_factory.mktemp("f") / "fashion-mnist"
    folder.mkdir()
    for part, count in {"train": 400, "t10k": 100}.items():
        for kind, dimensions in {"images-idx3": 3, "labels-idx1": 1}.items():
            name = f"{part}-{kind}-ubyte.gz"
            data = gzip.decompress((FASHION / name).read_bytes())
            start = 4 + 4 * dimensions
            size = (784 if dimensions == 3 else 1) * count
            cut = data[:4] + count.to_bytes(4, "big") + data[8:start] + data[start : start + size]
            (folder / name).write_bytes(gzip.compress(cut))
    settings = {"backbone": "convnet", "steps": 8, "clusters_per_class": 2, "test_draws": 1}
    return short(folder.parent / "run", data=f"fashion-mnist:{folder}", **settings)


def quietly(what):
    """Says nothing of what is done."""
    return lambda done, total: None


def written(out: Path, *runs: Path, **settings) -> Path:
    """The page of runs, of 500 examples at most."""
    settings = {"examples": 500, "seed": 0, "say": quietly} | settings
    return build_explorer([Run(run) for run in runs], **settings).write(out).page


@pytest.fixture(scope="session")
def digits_page(digits_magnet, digits_softmax, tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("page") / "digits.html", digits_magnet, digits_softmax)


@pytest.fixture(scope="session")
def odd_page(odd_vectors, tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("page") / "odd.html", odd_vectors)


@pytest.fixture(scope="session")
def wine_page(wine, tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("page") / "wine.html", wine)


@pytest.fixture(scope="session")
def photo_page(photos) -> Path:
    """Beside its data."""
    return written(photos.parent / "photos.html", photos)


@pytest.fixture(scope="session")
def fashion_page(fashion, tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("page") / "fashion.html", fashion)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    started = start(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


@pytest.fixture
def open_page(browser):
    """Opens a page; when the test is over, the console must be free of errors and nothing may have been fetched.

    Nothing but the files beside the index.html of a folder.
    """
    opened: list[Page] = []
    own = "data:"
    browser.get_log("browser")

    def show(file: Path, size: tuple[int, int] = DESKTOP, theme: str = "light") -> Page:
        nonlocal own
        own = f"{file.resolve().parent.as_uri()}/" if file.name == "index.html" else "data:"
        look_like(browser, size, theme)
        opened.append(Page(browser, file))
        return opened[-1]

    yield show
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    fetched = opened[-1].js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in fetched if not name.startswith(("data:", own))] == []
    opened[-1].js("localStorage.clear()")


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds what stands in the way of people who see or move differently."""
    found = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    return (Path(found.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
