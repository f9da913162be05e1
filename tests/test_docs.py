"""Every Python block of the README and the docs runs as it stands."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M))
]


def missing(block: str) -> list[str]:
    """The packages that a block imports and that are not installed."""
    return [name for name in re.findall(r"^(?:import|from) (\w+)", block, re.M) if find_spec(name) is None]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_code_block_runs(block, tmp_path, monkeypatch):
    if missing(block):
        pytest.skip(f"needs {', '.join(missing(block))}")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block, "block", "exec"), names)
    if "error" in names:
        assert float(names["error"]) < 0.1


def test_the_loop_of_the_readme_is_short():
    readme = [b.values[0] for b in BLOCKS if b.id.startswith("README.md-")]
    (block,) = [text for text in readme if "NeighbourhoodSampler(" in text]
    assert 10 <= len([line for line in block.splitlines() if line.strip() and "import" not in line]) <= 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_every_command_in_the_readme_exists():
    from magnet.cli import COMMANDS

    used = re.findall(r"^ +magnet (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert used
    assert set(used) <= set(COMMANDS)
