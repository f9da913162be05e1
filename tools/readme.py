"""Run every shell line of the README as it is printed, in an empty environment: python tools/readme.py.

The lines run one after the other, in one shell, in a copy of the repository in a temporary folder beside small data
under the names that the README uses. `pip install` builds the wheel there and installs it. Versions are those of
constraints.txt. Nothing but packages is downloaded.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parent.parent
PHOTOGRAPH = 240  # pixels of the short side from which on images are surely taken for photographs
COLOURS = {"cat": (200, 120, 40), "dog": (60, 60, 60), "fox": (220, 40, 20)}


def shell_lines(page: Path) -> list[str]:
    """The lines of a page that are indented as commands, without their comments."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return [re.sub(r"\s+#.*", "", line).strip() for line in re.findall(r"^    \S.*$", text, re.M)]


def write_examples(folder: Path, side: int) -> None:
    """Little data under the names of the README: features.npz, new.npy, and images, ``side`` pixels high, in photos/,
    holiday/ and cat.jpg.
    """
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    centres = rng.normal(size=(3, 2, 8)) * 3  # two modes a class
    features = centres[labels, np.arange(120) % 2] + rng.normal(size=(120, 8))
    np.savez(folder / "features.npz", X=features.astype(np.float32), y=labels)
    np.save(folder / "new.npy", features[:5])
    for name, colour in COLOURS.items():
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(6):
            _paint(folder / "photos" / name / f"{number}.jpg", colour, side, rng)
    (folder / "holiday").mkdir()
    _paint(folder / "holiday" / "beach.jpg", COLOURS["dog"], side, rng)
    _paint(folder / "cat.jpg", COLOURS["cat"], side, rng)


def _paint(path: Path, colour: tuple[int, int, int], side: int, rng: np.random.Generator) -> None:
    pixels = np.array(colour) + rng.normal(0, 30, (side, side + side // 3, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def main() -> int:
    """Make the environment and the copy, run the lines, and return the exit code of the first that fails, or 0."""
    lines = shell_lines(ROOT / "README.md")
    with tempfile.TemporaryDirectory() as place:
        copy, empty = Path(place) / "clone", Path(place) / "environment"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
        venv.create(empty, with_pip=True)
        write_examples(copy, side=PHOTOGRAPH)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {
            "PATH": f"{empty / 'bin'}:{os.environ['PATH']}",
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        }
        script = "\n".join(["set -e", *(f"printf '\\n$ %s\\n' {_quoted(line)}\n{line}" for line in lines)])
        return subprocess.run(["bash", "-c", script], cwd=copy, env=environment, check=False).returncode


def _quoted(line: str) -> str:
    return "'" + line.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    sys.exit(main())
