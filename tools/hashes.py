"""Writes requirements.txt: the versions of constraints.txt with the SHA-256 of every file of them on PyPI.

python tools/hashes.py        after each change of constraints.txt

torch and torchvision are not in it: they come in builds, for processors alone and for each kind of GPU, from other
places than PyPI too, and which one is right depends on the machine. `make` installs those by their versions.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

from packaging.utils import InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
BUILDS = ("torch", "torchvision")
PYTHONS = re.compile(r"(cp|py)31[1-4]|py3")  # of wheels; wheels for a range of Pythons have the ABI abi3
MACHINES = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)|macosx.*|win_(amd64|arm64)")  # that torch is made for
HEAD = """\
# Made by tools/hashes.py from constraints.txt: do not edit. `make` installs these with --require-hashes.
"""


def pinned() -> dict[str, str]:
    """The version of each package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def hashes(name: str, version: str) -> list[str]:
    """The SHA-256 of all files of a version that a Python of today can install."""
    with urlopen(f"{INDEX}/{name.lower().replace('_', '-').replace('.', '-')}/") as page:
        links = re.findall(r"/([^/\"#]+)#sha256=([0-9a-f]{64})", page.read().decode())
    return sorted(digest for file, digest in links if fits(file, version))


def fits(file: str, version: str) -> bool:
    """Whether a file is of this version, and its source or a wheel for one of `PYTHONS` and `MACHINES`."""
    try:
        if not file.endswith(".whl"):
            return str(parse_sdist_filename(file)[1]) == version
        _, found, _, tags = parse_wheel_filename(file)
    except (ValueError, InvalidWheelFilename):  # eggs and installers of long ago
        return False
    return str(found) == version and any(
        (PYTHONS.fullmatch(tag.interpreter) or tag.abi == "abi3")
        and not tag.abi.endswith("t")  # without the global lock
        and MACHINES.fullmatch(tag.platform)
        for tag in tags
    )


def main() -> None:
    """Write the file."""
    wanted = [(name, version) for name, version in pinned().items() if name not in BUILDS]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: hashes(*pair), wanted))
    absent = [name for (name, _), digests in zip(wanted, found, strict=True) if not digests]
    if absent:
        sys.exit(f"no file of this version on {INDEX}: {', '.join(absent)}")
    entries = (
        f"{name}=={version} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests) + "\n"
        for (name, version), digests in zip(wanted, found, strict=True)
    )
    (ROOT / "requirements.txt").write_text(HEAD + "".join(entries), encoding="utf-8")


if __name__ == "__main__":
    main()
