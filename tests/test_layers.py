"""Imports point one way: every room of the package knows only the rooms below it."""

import ast
from pathlib import Path

import magnet

HOME = Path(magnet.__file__).parent

# From the bottom to the top. A room may import the rooms above its own line here, and none beside it. "core" are the
# files beside the rooms: objective, clustering, index, sampler, classify and what they need.
LAYERS = (
    ("core",),
    ("backbones", "data", "methods", "evaluation", "estimator"),
    ("training",),
    ("runs", "integrations"),
    ("report", "export"),
    ("experiments", "bench"),
    ("commands", "api"),
    ("cli",),
    ("__init__", "__main__"),
)
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


def room(parts):
    name = parts[0].removesuffix(".py")
    return name if name in HEIGHT else "core"


def imports():
    """(file, room, imported module, imported name) of every import of the package by itself."""
    for path in sorted(HOME.rglob("*.py")):
        file = path.relative_to(HOME)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: a relative import"
                found = [(node.module or "", alias.name) for alias in node.names]
            else:
                found = [(alias.name, "") for alias in node.names] if isinstance(node, ast.Import) else []
            for module, name in found:
                if module.startswith("magnet."):
                    yield file.as_posix(), room(file.parts), module, name


def test_every_room_imports_only_rooms_below_it():
    upwards = {
        (file, module)
        for file, own, module, _ in imports()
        if (other := room(module.split(".")[1:])) != own and HEIGHT[other] >= HEIGHT[own]
    }
    assert not upwards


def test_no_room_imports_private_names_of_another():
    private = {
        (file, module, name)
        for file, own, module, name in imports()
        if room(module.split(".")[1:]) != own and name.startswith("_") and name != "__version__"
    }
    assert not private


def test_every_room_has_its_layer():
    rooms = {path.parent.name for path in HOME.glob("*/__init__.py")}
    assert rooms <= set(HEIGHT), "give a new room its place in LAYERS"
