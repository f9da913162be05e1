"""The picture of the explorer in the README and the docs, made from a run on Fashion-MNIST (MIT licence).

`make docs` calls this: the picture is made again when the page, or this file, has changed since it was made. That takes
Chromium and the images (Debian: chromium, chromium-driver, dataset-fashion-mnist) and two minutes; where one of them is
missing, the picture that is there stays, and a line says so.

    python tools/hero.py [--force]
"""

import gzip
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "explorer.png"
FASHION = Path("/usr/share/datasets/fashion-mnist")
PARTS = {"train": 6000, "t10k": 1500}  # the first images of either file
TRAINING = {"preset": "images", "backbone": "convnet", "steps": 400, "clusters_per_class": 4, "test_draws": 1}
SHOWN = 3000
MARK = "made from"  # in the PNG: a digest of what the picture shows


def main() -> None:
    """Make the picture, if it is not of the present page."""
    digest = digest_of_sources()
    with Image.open(PICTURE) as picture:
        if picture.info.get(MARK) == digest and "--force" not in sys.argv:
            return
    missing = [
        what
        for what, there in {
            "Chromium": shutil.which("chromium") or shutil.which("chromium-browser"),
            "chromedriver": shutil.which("chromedriver"),
            f"Fashion-MNIST at {FASHION}": FASHION.is_dir(),
        }.items()
        if not there
    ]
    if missing:
        print(f"{PICTURE.relative_to(ROOT)} is of an earlier page; to make it again needs {', '.join(missing)}")
        return
    print(f"Making {PICTURE.relative_to(ROOT)} again (about two minutes) ...")
    with tempfile.TemporaryDirectory() as folder:
        page = explore(Path(folder))
        shot = photograph(page, Path(folder))
        about = PngInfo()
        about.add_text(MARK, digest)
        with Image.open(shot) as picture:
            picture.convert("RGB").save(PICTURE, pnginfo=about, optimize=True)


def digest_of_sources() -> str:
    """Of this file and of all that draws the page: not of the network, whose numbers move for many reasons."""
    report = ROOT / "src" / "magnet" / "report"
    files = [Path(__file__), *(report / "assets").iterdir(), *(report / "explorer" / "assets").iterdir()]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def cut(folder: Path) -> Path:
    """The first images of Fashion-MNIST, in its own layout."""
    data = folder / "fashion-mnist"
    data.mkdir()
    for part, count in PARTS.items():
        for kind, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            name = f"{part}-{kind}-ubyte.gz"
            whole = gzip.decompress((FASHION / name).read_bytes())
            some = whole[:4] + count.to_bytes(4, "big") + whole[8:head] + whole[head : head + size * count]
            (data / name).write_bytes(gzip.compress(some, compresslevel=1))
    return data


def explore(folder: Path) -> Path:
    """Train, and write the page."""
    from magnet.report.explorer.build import build_explorer
    from magnet.runs.run import Run
    from magnet.training.config import TrainConfig
    from magnet.training.presets import with_preset
    from magnet.training.train import train

    data, out = f"fashion-mnist:{cut(folder)}", folder / "fashion"
    start = with_preset(TrainConfig(data=data, preset=TRAINING["preset"], backbone=TRAINING["backbone"]))
    config = TrainConfig(**{**vars(start), **TRAINING, "out": out, "quiet": True, "evaluate": False})
    run = Run(train(config, silent=True))
    explorer = build_explorer([run], examples=SHOWN, seed=0, say=lambda what: lambda done, total: None)
    return explorer.write(folder / "explore.html").page


def photograph(page: Path, folder: Path) -> Path:
    """The page as it opens, in a window of 1440 x 900."""
    sys.path.insert(0, str(ROOT / "tests"))
    from report.browser import DESKTOP, Page, look_like, start

    browser = start(folder / "profile")
    try:
        look_like(browser, DESKTOP, "light")
        shown = Page(browser, page)
        shown.until(
            "magnet.data.pictures.loaded?.length && magnet.data.pictures.loaded.every((sheet) => sheet.complete)"
        )
        shown.settle()
        browser.save_screenshot(str(folder / "explorer.png"))
    finally:
        browser.quit()
    return folder / "explorer.png"


if __name__ == "__main__":
    main()
