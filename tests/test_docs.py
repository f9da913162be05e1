"""Every Python block of the README and the docs runs as it stands."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from magnet.cli import main
from readme import shell_lines, write_examples

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


def headings(page: Path) -> set[str]:
    """The names by which a link reaches the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.*)$", text, re.M))
    return {re.sub(r"[ -]+", "-", title.strip()) for title in plain}


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("C*.md"))], ids=lambda page: page.name)
def test_links_between_pages_lead_to_files_and_headings_that_exist(page):
    links = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8"))
    for target, heading in links:
        if not target.startswith(("http:", "https:", "mailto:")):
            found = page if not target else page.parent / target
            assert found.exists(), target
            assert not heading or heading in headings(found), (target, heading)


def test_every_magnet_line_of_the_readme_runs_as_it_is_printed(tmp_path, monkeypatch, capsys):
    """In this environment and on small data; `tools/readme.py` runs all lines in an empty one."""
    lines = [line for line in shell_lines(ROOT / "README.md") if line.startswith("magnet")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("magnet.training.workbench.Workbench.workers", property(lambda bench: 0))  # forks take long
    write_examples(tmp_path, side=20)  # too small for photographs: no pretrained network
    lines.remove("magnet demo")  # which has a test of its own
    assert len(lines) >= 9
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
    for written in ("runs/features/config.yaml", "x.npz", "runs/photos/config.yaml"):
        assert (tmp_path / written).is_file()
