import json
from pathlib import Path
from typing import Any

import pytest

from magnet.errors import UserError
from magnet.experiments.agreement import agreement, read_values

RESULTS = Path(__file__).parents[2] / "docs" / "results"


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


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_results_file_agrees_with_itself(path: Path) -> None:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    values = read_values(path, content["experiment"])
    table = agreement(values, values)
    assert not table.rows
    if content["experiment"] != "maps":  # which have one repetition
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
    with pytest.raises(UserError, match=r"must be results of metrics; .* has those of maps"):
        read_values(path, "metrics")
