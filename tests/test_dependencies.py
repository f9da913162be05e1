"""What the package imports is what pyproject.toml declares."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_OTHERS = {"torchvision"}  # comes with timm and with transformers, and is imported for them alone


def normal(name: str) -> str:
    """A distribution by its one name: "lightning_fabric>=2.5" is "lightning-fabric"."""
    return re.split(r"[^\w.-]", name)[0].lower().replace("_", "-")


def imported(source: str) -> set[str]:
    """The top-level packages that a file imports anywhere."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names}


def test_imports_are_found_wherever_they_stand():
    source = "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n    import h\n"
    assert imported(source) == {"a", "c", "h"}


def test_every_package_that_is_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [words for name, words in project["optional-dependencies"].items() if name not in ("all", "dev")]
    declared = {normal(word) for words in [project["dependencies"], *extras] for word in words}
    known = {"magnet", *sys.stdlib_module_names, *OF_OTHERS}
    providers = packages_distributions()
    undeclared = {}
    for path in sorted((ROOT / "src" / "magnet").rglob("*.py")):
        for name in imported(path.read_text(encoding="utf-8")) - known:
            if not {normal(provider) for provider in providers.get(name, [name])} & declared:
                undeclared[name] = str(path.relative_to(ROOT))
    assert undeclared == {}


def listed(file: str) -> dict[str, str]:
    """The versions in a file of requirements, all of which have a hash."""
    text = (ROOT / file).read_text()
    entry = r"^([\w.-]+)==(\S+) (?:; sys_platform == 'linux' )?\\\n    --hash=sha256:[0-9a-f]{64}"
    found = dict(re.findall(entry, text, re.M))
    assert len(found) == len(re.findall(r"^\w", text, re.M))
    return found


def test_every_pinned_package_is_installed_by_its_hashes():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    everywhere, gpu = listed("requirements.txt"), listed("requirements-gpu.txt")
    assert {**everywhere, **gpu} == pins, "run tools/hashes.py"
    assert not everywhere.keys() & gpu.keys()
    assert listed("requirements-cpu.txt") == {"torch": f"{pins['torch']}+cpu"}
    make = (ROOT / "Makefile").read_text()
    assert "CHECKED := $(PIP) --require-hashes --no-deps --requirement" in make
    for file in ("requirements.txt", "requirements-cpu.txt", "requirements-gpu.txt"):
        assert f"$(CHECKED) {file}" in make


def test_whatever_the_installed_torch_needs_is_pinned():
    """So that the last step of `make`, which installs this package, finds everything there."""
    pins = {normal(name) for name in listed("requirements.txt")}
    needed = {normal(word) for word in requires("torch") or [] if "extra ==" not in word}
    assert needed <= pins
