"""Results: whether they agree with earlier ones, and the page that shows them."""

import json
from pathlib import Path
from typing import Any

import pytest

from magnet.errors import UserError
from magnet.experiments.outcome import agreement, fill_page, read_values

DOCS = Path(__file__).parents[2] / "docs"


def test_figures_agree_where_mean_and_deviation_overlap() -> None:
    before = {"softmax": {"errors": [0.10, 0.12]}, "magnet": {"errors": [0.10, 0.12], "magnet_minus_this": [0, -1, 1]}}
    now = {"softmax": {"errors": [0.12, 0.14]}, "magnet": {"errors": [0.14, 0.16], "magnet_minus_this": [9, 8, 9]}}
    table = agreement(before, now)
    assert table.title.startswith("1 of 2 figures agree")  # 0.11 ± 0.014 and 0.13 ± 0.014
    assert table.rows == [["magnet / errors", "0.11 ± 0.014", "0.15 ± 0.014"]]


def test_columns_are_compared_each_and_what_is_missing_counts() -> None:
    before = {"all": {"precision": [[0.5, 0.9], [0.6, 0.8]]}, "ratio": [None, 3.0], "never": [None, None], "gone": [1]}
    now = {"all": {"precision": [[0.5, 0.1], [0.6, 0.2]]}, "ratio": [2.0, 4.0], "never": [5.0, 5.0], "new": [1, 2]}
    table = agreement(before, now)
    assert table.title.startswith("2 of 4 figures agree")
    assert [row[0] for row in table.rows] == ["all / precision / 2", "never"]
    assert table.rows[1][1:] == ["0 of 2 there", "5 ± 0"]


@pytest.mark.parametrize("path", sorted((DOCS / "results").glob("*.json")), ids=lambda path: path.stem)
def test_every_results_file_agrees_with_itself(path: Path) -> None:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    values = read_values(path, content["experiment"])
    table = agreement(values, values)
    assert not table.rows
    if content["experiment"] != "maps" and content["seeds"] > 1:  # one repetition has no spread
        assert not table.title.startswith("0 of 0")


def test_what_is_no_results_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(UserError, match=r"must be the results.json of an experiment"):
        read_values(path, "metrics")
    for content in ("[1]", "no JSON", '{"experiment": "metrics", "values": {"magnet": {"knc": ["a", "b"]}}}'):
        path.write_text(content)
        with pytest.raises(UserError, match=r"results.json is something else"):
            read_values(path, "metrics")
    path.write_text(json.dumps({"experiment": "maps", "values": {}}))
    with pytest.raises(UserError, match=r"must be results of metrics; .* holds results of maps"):
        read_values(path, "metrics")


def test_the_tables_of_the_page_are_those_of_the_results_files() -> None:
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    assert "<!-- results " in text
    assert fill_page(text, DOCS / "results") == text, "run: python -m magnet.experiments.outcome docs/results.md"


def test_fill_takes_all_tables_or_those_that_are_asked_for(tmp_path: Path) -> None:
    table = {"columns": ["a", "b"], "rows": [["x|y", "1"]], "caption": ""}
    content = {"tables": [{"title": "first", **table}, {"title": "second", **table}]}
    (tmp_path / "some.json").write_text(json.dumps(content))
    text = "before\n<!-- results some 2 -->\nold\n<!-- end -->\nafter\n"
    filled = fill_page(text, tmp_path)
    assert "second" in filled
    assert "first" not in filled
    assert "old" not in filled
    assert "| x\\|y | 1 |" in filled
    assert fill_page(filled, tmp_path) == filled
    assert "first" in fill_page(text.replace(" 2 ", " "), tmp_path)
