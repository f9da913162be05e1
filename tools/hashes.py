"""Writes the versions of constraints.txt with the SHA-256 of every file of them, for `pip install --require-hashes`.

python tools/hashes.py        after each change of constraints.txt

- requirements.txt: everything, with torch in PyPI's build.
- requirements-gpu.txt: the libraries that this build of torch needs on Linux.
- requirements-cpu.txt: torch without them, in the build of PyTorch's own index. If that cannot be reached, and the
  version is still the same, the file stays as it is.

pip would take PyPI's build wherever both are in one list: it prefers files whose address has a known SHA-256. So `make`
asks for the smaller one first.
"""

import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote
from urllib.request import urlopen

from packaging.utils import InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
GPU = re.compile(r"(cuda|nvidia)-.*|triton")
PYTHONS = re.compile(r"(cp|py)31[1-4]|py3")  # of wheels; wheels for a range of Pythons have the ABI abi3
MACHINES = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)|macosx.*|win_(amd64|arm64)")  # that torch is made for
HEAD = """\
# Made by tools/hashes.py from constraints.txt: do not edit. `make` installs these with --require-hashes.
"""


def pinned() -> dict[str, str]:
    """The version of each package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def hashes(name: str, version: str, index: str = INDEX) -> list[str]:
    """The SHA-256 of all files of a version that a Python of today can install."""
    with urlopen(f"{index}/{name.lower().replace('_', '-').replace('.', '-')}/", timeout=60) as page:
        links = re.findall(r"/([^/\"#]+)#sha256=([0-9a-f]{64})", page.read().decode())
    return sorted(digest for file, digest in links if fits(unquote(file), version))


def fits(file: str, version: str) -> bool:
    """Whether a file is of this version, and its source or a wheel for one of `PYTHONS` and `MACHINES`."""
    try:
        if not file.endswith(".whl"):
            return parse_sdist_filename(file)[1] == Version(version)
        _, found, _, tags = parse_wheel_filename(file)
    except (ValueError, InvalidWheelFilename):  # eggs and installers of long ago
        return False
    return found == Version(version) and any(
        (PYTHONS.fullmatch(tag.interpreter) or tag.abi == "abi3")
        and not tag.abi.endswith("t")  # without the global lock
        and MACHINES.fullmatch(tag.platform)
        for tag in tags
    )


def write(file: str, pins: Iterable[tuple[str, str]], index: str = INDEX, marker: str = "") -> None:
    """Write the entries of some packages to a file, with the SHA-256 of their files in an index."""
    wanted = list(pins)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: hashes(*pair, index), wanted))
    absent = [name for (name, _), digests in zip(wanted, found, strict=True) if not digests]
    if absent:
        sys.exit(f"no file of this version on {index}: {', '.join(absent)}")
    entries = (
        f"{name}=={version}{marker} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests) + "\n"
        for (name, version), digests in zip(wanted, found, strict=True)
    )
    (ROOT / file).write_text(HEAD + "".join(entries), encoding="utf-8")


def main() -> None:
    """Write the files."""
    pins = pinned()
    write("requirements.txt", [(name, version) for name, version in pins.items() if not GPU.fullmatch(name)])
    gpu = [(name, version) for name, version in pins.items() if GPU.fullmatch(name)]
    write("requirements-gpu.txt", gpu, marker=" ; sys_platform == 'linux'")
    torch, file = f"{pins['torch']}+cpu", "requirements-cpu.txt"
    try:
        write(file, [("torch", torch)], CPU_INDEX)
    except URLError as error:
        if f"torch=={torch} " not in (ROOT / file).read_text(encoding="utf-8"):
            sys.exit(f"{file} cannot be written: {CPU_INDEX}: {error}")
        print(f"{file} stays as it is: {CPU_INDEX}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
