import json
from pathlib import Path

from magnet.experiments.page import fill

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tables_of_the_page_are_those_of_the_results_files() -> None:
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    assert "<!-- results " in text
    assert fill(text, DOCS / "results") == text, "run: python -m magnet.experiments.page docs/results.md"


def test_fill_takes_all_tables_or_those_that_are_asked_for(tmp_path: Path) -> None:
    table = {"columns": ["a", "b"], "rows": [["x|y", "1"]], "caption": ""}
    content = {"tables": [{"title": "first", **table}, {"title": "second", **table}]}
    (tmp_path / "some.json").write_text(json.dumps(content))
    text = "before\n<!-- results some 2 -->\nold\n<!-- end -->\nafter\n"
    filled = fill(text, tmp_path)
    assert "second" in filled
    assert "first" not in filled
    assert "old" not in filled
    assert "| x\\|y | 1 |" in filled
    assert fill(filled, tmp_path) == filled
    assert "first" in fill(text.replace(" 2 ", " "), tmp_path)
