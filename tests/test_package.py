"""The wheel and the source archive: what they hold, and what their metadata say."""

import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import magnet

pytest.importorskip("build")
pytest.importorskip("twine")
ROOT = Path(__file__).parent.parent
INSTALL = re.compile(r"pip install (?:--?\S+ )*'?(magnet[\w-]*)")


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Path:
    """A folder with the source archive and the wheel, which is built from it, of a copy of the sources."""
    copy, out = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    # Without isolation: setuptools is here, and nothing is downloaded.
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(archives) -> zipfile.ZipFile:
    (file,) = archives.glob("*.whl")
    return zipfile.ZipFile(file)


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_the_metadata_would_be_accepted(archives):
    files = sorted(archives.iterdir())
    assert [file.name for file in files] == [
        f"magnet_loss-{magnet.__version__}-py3-none-any.whl",
        f"magnet_loss-{magnet.__version__}.tar.gz",
    ]
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_every_file_of_the_package(wheel):
    package = ROOT / "src" / "magnet"
    files = {path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.is_file()}
    wanted = {name for name in files if "__pycache__" not in name}
    assert any(name.endswith(".js") for name in wanted)
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted


def test_the_distribution_is_magnet_loss_and_its_command_is_magnet(wheel):
    about = metadata(wheel)
    assert about["Name"] == "magnet-loss"
    assert about["Version"] == magnet.__version__
    (entry,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "magnet = magnet.cli:main" in wheel.read(entry).decode()


def test_every_line_that_installs_the_package_names_the_distribution_and_an_extra_it_has(wheel):
    extras = set(metadata(wheel).get_all("Provides-Extra", []))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for path in [*pages, *(ROOT / "src").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert set(INSTALL.findall(text)) <= {"magnet-loss"}, path
        for named in re.findall(r"magnet-loss\[([\w,]+)\]", text):
            assert set(named.split(",")) <= extras, (path, named)
