"""Which files of the package a command goes through: those in which a function is called, not all that are imported.

python tools/walk.py train --data digits --steps 60 --validation 0.2 --out /tmp/run --quiet
"""

import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import magnet
from magnet.cli import main

HOME = Path(magnet.__file__).parent


def walk(arguments: list[str]) -> Counter[str]:
    """The files that a command goes through, as paths in the package, with how many functions of each it calls."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code not in seen and not _importing(frame):
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        code = main(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if code:
        raise SystemExit(code)
    paths = (Path(code.co_filename) for code in seen)
    return Counter(str(path.relative_to(HOME)) for path in paths if path.is_relative_to(HOME))


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: what its body calls is no part of the walk."""
    while frame is not None and frame.f_code.co_name != "walk":
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    files = walk(sys.argv[1:])
    for name, functions in sorted(files.items()):
        print(f"{functions:4} {name}")
    print(f"{len(files)} files")
