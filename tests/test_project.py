"""The files around the package agree with it."""

import ast
import importlib.util
import inspect
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import magnet

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_stated_in_the_package_and_taken_from_there():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "magnet.__version__"}
    # A literal, so that a build reads it without importing the package.
    module = ast.parse((ROOT / "src/magnet/__init__.py").read_text(encoding="utf-8"))
    assigned = [node for node in module.body if isinstance(node, ast.Assign)]
    (version,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "__version__"]
    assert ast.literal_eval(version) == magnet.__version__


def test_the_citation_is_of_this_version_and_names_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == magnet.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    paper = citation["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Rippel", "Paluri", "Dollár", "Bourdev"]
    assert paper["url"].endswith("1511.05939")


def test_the_changelog_begins_with_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert first is not None
    assert first[1] == magnet.__version__


def test_the_lowest_declared_python_is_tested():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python-version"]
    lowest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert lowest.rsplit(".", 1)[0] == tested[0] == "3.11"
    assert f"uv venv --python {lowest} .venv" in [step.get("run") for step in jobs["lowest"]["steps"]]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", ".github/ISSUE_TEMPLATE/question.md"])
def test_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs|\.github)/[^`*]+)`", text)
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", magnet.__all__)
def test_every_public_name_shows_an_example_and_says_where_in_the_paper_it_stands(name):
    text = inspect.getdoc(getattr(magnet, name))
    assert ">>> " in text
    assert re.search(r"section \d|equation \d|appendix [A-D]|Adaptive Density Discrimination", text)


def test_a_public_name_is_defined_in_one_file():
    """But for what every command, experiment and measurement has, and the three commands for Python."""
    shared = {"main", "run", "measure", "train", "evaluate", "MagnetLoss"}
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        if "commands" not in path.parts:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(path.name)
    assert {name: files for name, files in found.items() if len(files) > 1 and name not in shared} == {}


def test_the_repository_holds_no_links_and_nothing_that_it_ignores():
    """An environment or a link to one, once committed, ends both commands of a fresh clone."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    held = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    ignored = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line for line in held.splitlines() if line.startswith("120000")] == []
    assert ignored.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "most"),
    [
        ("train --data digits --steps 12 --validation 0.2 --quiet", 35),
        ("reproduce hierarchy --data digits --steps 12 --seeds 1 --pairings 1 --trials 1 --methods softmax magnet", 43),
    ],
)
def test_the_walk_of_a_command_is_short(command, most, few_digits, tmp_path):
    """A new file on the way of every training needs a reason, and this number."""
    spec = importlib.util.spec_from_file_location("walk", ROOT / "tools/walk.py")
    walk = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(walk)
    files = walk.walk([*command.split(), "--out", str(tmp_path / "out")])
    assert len(files) <= most, sorted(files)
