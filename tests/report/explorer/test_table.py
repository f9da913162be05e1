import csv

import numpy as np
import pytest
import torch

from magnet.errors import UserError
from magnet.report.explorer.build import build_explorer
from magnet.report.explorer.table import check_table, safe_cell, write_table
from magnet.runs.run import Run


@pytest.fixture(scope="module")
def odd(odd_vectors):
    return build_explorer([Run(odd_vectors)], examples=1000, seed=0, say=lambda what: lambda done, total: None)


def test_a_csv_has_a_row_for_each_example_in_the_order_of_the_data(odd, tmp_path):
    write_table(odd, tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").open(newline="", encoding="utf-8")))
    run = odd.seen[0].run
    assert list(rows[0]) == [
        "projection_x",
        "projection_y",
        "neighbors",
        "label",
        "cluster",
        "loss",
        "prediction",
        "path",
        "split",
        "correct",
        "run",
        "held_out_loss",
        "suggestion",
    ]
    assert [row["path"] for row in rows] == run.data.names
    assert [row["label"] for row in rows] == [safe_cell(run.classes[c]) for c in run.data.labels]
    assert {row["split"] for row in rows} == {"train", "validation", "test"}
    assert all((row["correct"] == "True") == (row["label"] == row["prediction"]) for row in rows)
    order = np.argsort(odd.rows)
    assert np.allclose([float(row["loss"]) for row in rows], odd.seen[0].predictions.loss.numpy()[order], atol=1e-5)
    doubts = odd.seen[0].predictions.doubts
    assert np.allclose([float(row["held_out_loss"]) for row in rows], doubts.loss.numpy()[order])
    assert [row["suggestion"] for row in rows] == [safe_cell(run.classes[c]) for c in doubts.suggestion[order]]
    assert np.allclose([float(row["projection_x"]) for row in rows], odd.seen[0].end[1][0][order, 0], atol=1e-4)


def test_neighbours_are_rows_of_the_table_as_embedding_atlas_reads_them(odd_vectors, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    twice = build_explorer([Run(odd_vectors)] * 2, examples=1000, seed=0, say=lambda what: lambda done, total: None)
    write_table(twice, tmp_path / "t.parquet")
    near = parquet.read_table(tmp_path / "t.parquet").to_pydict()["neighbors"]
    end = twice.seen[0].end[0]
    order = np.argsort(twice.rows)
    distances = torch.cdist(end.representations[order], end.representations[order]).fill_diagonal_(torch.inf)
    expected = distances.topk(12, largest=False)
    for row in (0, 40, 91):
        found = near[row]
        assert np.allclose(found["distances"], expected.values[row] / end.sigma, atol=1e-3)
        assert [distances[row, i].item() for i in found["ids"]] == pytest.approx(
            expected.values[row].tolist(), rel=1e-3
        )
        assert near[92 + row]["ids"] == [92 + i for i in found["ids"]]  # those of the second run


def test_no_cell_of_text_is_a_formula(odd, tmp_path):
    write_table(odd, tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text(encoding="utf-8")
    assert "'=HYPERLINK(1)" in text
    assert ",=HYPERLINK" not in text
    assert [safe_cell(cell) for cell in ("=1", "+1", "-1", "@x", "\t=1", "a=1", -1.5)] == [
        "'=1", "'+1", "'-1", "'@x", "'\t=1", "a=1", -1.5,
    ]  # fmt: skip


def test_parquet_says_the_same_with_types(odd, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(odd, tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    assert table["path"] == odd.seen[0].run.data.names
    assert set(table["label"]) == set(odd.seen[0].run.classes)  # types keep formulas harmless here
    assert {type(v) for v in table["correct"]} == {bool}
    assert {type(v) for v in table["loss"]} == {float}


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"must end in .csv or .parquet"):
        check_table(tmp_path / "t.xlsx")
