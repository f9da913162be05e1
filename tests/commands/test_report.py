import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from faults.outcomes import caught
from magnet.files import read_record, write_record
from magnet.report.summary.findings import Findings, measure, read_runs
from magnet.report.summary.page import comparable, error_table, notices, same_data, write_report
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset
from magnet.training.train import train

EVIL = "<script>alert(1)</script>"
CURVES = ["active", "churn", "error", "loss", "sigma"]
SMALL = {"steps": 60, "refresh_every": 20, "evaluate": False, "quiet": True}


class Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, path: Path):
        super().__init__()
        self.tags, self.words, self.links = [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src", "xlink:href", "action")]

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two short runs on vectors with attributes, of three classes, one with a wicked name."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    dark = rng.integers(2, size=300)
    X = rng.normal(size=(300, 6)) + 1.2 * np.eye(6)[y] + 2 * np.eye(6)[5] * dark[:, None]
    shape = np.array(["round", "long", "?"])[rng.integers(3, size=300)]
    np.savez(
        folder / "cells.npz", X=X.astype(np.float32), y=y, classes=np.array([EVIL, "b & $c_1$", "grün"]),
        attributes=np.stack([np.array(["no", "yes"])[dark], shape], axis=1), attribute_names=np.array(["dark", "<b>"]),
        split=np.arange(300) // 3 % 5 // 3 * 2 - (np.arange(300) // 3 % 10 == 9),
    )  # fmt: skip
    for method in ("magnet", "softmax"):
        config = TrainConfig(data=str(folder / "cells.npz"), method=method, out=folder / method, **SMALL)
        train(config, silent=True)
    return folder


@pytest.fixture
def own(runs, tmp_path):
    """A copy of a run, to be spoilt."""
    return Path(shutil.copytree(runs / "magnet", tmp_path / "own", ignore=shutil.ignore_patterns("cache")))


@pytest.fixture(scope="module")
def both(runs):
    from magnet.cli import main

    out = runs / "both.html"
    assert main(["report", str(runs / "magnet"), str(runs / "softmax"), "--out", str(out)]) == 0
    return Page(out)


def test_the_page_needs_nothing_else(both):
    assert "script" not in both.tags
    assert [link for link in both.links if not link.startswith(("#", "data:"))] == []
    assert "url(http" not in both.source
    assert "default-src 'none'" in both.source


def test_wicked_names_are_text(both):
    assert EVIL in both.text
    assert "b & $c_1$" in both.text
    assert "<script" not in both.source


def test_errors_are_those_of_evaluate_under_each_classifier(both, runs):
    for method, rules in {"magnet": ("knc", "knn"), "softmax": ("knc", "knn", "head")}.items():
        found = evaluate(Run(runs / method))
        for rule in rules:
            assert f"{100 * found[rule]['error']:.1f} %" in both.text
        assert found["checkpoint"].startswith("best: step ")
        assert f"{found['n']} test examples, {found['checkpoint']}" in both.text
    assert "own head" in both.text


def test_all_sections_and_their_figures_as_png(both, runs):
    for words in ("Errors", "Curves", "Worst confused classes", "Attributes", "Time", "Configuration", "σ"):
        assert words in both.text
    pictures = sorted(path.stem for path in (runs / "both").iterdir())
    assert pictures == sorted([*CURVES, "errors", "attributes", "attribute-lift", "time"])
    assert both.tags.count("svg") == len(pictures) + 2  # and the confusion matrix of each run
    for name in pictures:
        with Image.open(runs / "both" / f"{name}.png") as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 100
    assert not list(runs.rglob("*.part"))


def test_the_matrix_counts_what_is_taken_for_what_and_its_cells_lead_to_the_pairs(both, runs):
    run = Run(runs / "magnet")
    rows = run.data.indices("test")
    predicted = run.rule("knc").predict(run.embed(rows, test=True))
    labels = run.data.labels[rows]
    wrong = {}
    for a, b in zip(labels.tolist(), predicted.tolist(), strict=True):
        wrong[a, b] = wrong.get((a, b), 0) + (a != b)
    (a, b), most = max(wrong.items(), key=lambda pair: pair[1])
    assert f"{run.classes[a]} taken for {run.classes[b]} {most} of {(labels == a).sum()}" in both.text
    ids = set(re.findall(r'id="(run-0-[a-z0-9-]+)"', both.source))
    for link in (link for link in both.links if link.startswith("#run-0-pair-")):
        assert link[1:] in ids
    assert f"#run-0-pair-{a}-{b}" in both.links


def test_accuracy_stands_beside_error_and_a_difference_inside_the_standard_error_is_not_bold(runs):
    known = read_runs([runs / "magnet", runs / "softmax"])
    for one in known:
        measure(one)

    def first_cells(*errors):
        for one, error in zip(known, errors, strict=True):
            one.findings.evaluation["knc"]["error"] = error
        return [cells[0] for _, cells in error_table(known, comparable=True).rows]

    n = known[0].findings.evaluation["n"]
    near = 0.2 + 0.9 * (0.2 * 0.8 / n) ** 0.5
    assert [cell.best for cell in first_cells(0.2, near)] == [False, False]
    cells = first_cells(0.2, 0.35)
    assert [cell.best for cell in cells] == [True, False]
    assert cells[0].beside == "accuracy 80.0 %"


def test_the_settings_of_one_run_are_compared_with_those_of_its_preset(own, tmp_path):
    (known,) = read_runs([own])
    known.config = with_preset(replace(known.config, preset="vectors"))
    known.config = replace(known.config, alpha=7.5)
    write_report([known], tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    assert "Settings that are not the defaults of the preset vectors" in page.text
    marked = re.findall(r'<code class="differs">(\w+)</code>', page.source)
    assert "alpha" in marked
    assert "scaling" not in marked


def test_settings_that_differ_are_marked(both):
    marked = re.findall(r'<code class="differs">(\w+)</code>', both.source)
    assert "method" in marked
    assert "seed" not in marked
    assert "out" not in marked
    assert "<code>seed</code>" in both.source


def test_the_second_report_evaluates_nothing_and_says_the_same(both, runs, magnet, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("evaluated again")

    summary = "report.summary"
    for name in (
        "runs.run.embed",
        "runs.evaluate.rankings",
        f"{summary}.findings.class_scores",
        f"{summary}.findings.rivals",
    ):
        monkeypatch.setattr(f"magnet.{name}", refuse)
    magnet("report", runs / "magnet", runs / "softmax", "--out", runs / "again.html")
    again = Page(runs / "again.html")
    foot = re.compile(r"<footer>.*</footer>")
    assert foot.sub("", again.source) == foot.sub("", both.source)


def test_findings_of_other_weights_or_a_broken_file_are_not_taken(own):
    def measured():
        (known,) = read_runs([own])
        measure(known)
        return known.findings

    found = measured()
    (kept,) = (own / "cache").glob("*.report.json")
    run = Run(own)
    assert Findings.load(run, found.evaluation) == found
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"key": "another"}))
    assert Findings.load(run, found.evaluation) is None
    kept.write_text("{")
    assert Findings.load(run, found.evaluation) is None
    assert measured().evaluation == found.evaluation
    assert Findings.load(run, found.evaluation) is not None


def test_attribute_precision_is_that_of_the_test_part(both, runs):
    from magnet.evaluation.concentration import attribute_concentration

    run = Run(runs / "magnet")
    rows = run.data.indices("test")
    found = attribute_concentration(run.embed(rows, test=True), run.data.attributes.keep(rows.numpy()).values)
    assert f"{100 * found.precision[3]:.1f} %" in both.text
    assert "dark=yes" in both.text
    assert "<b>=round" in both.text


def test_without_attributes_there_is_no_such_section(digits_run, magnet, tmp_path):
    printed = magnet("report", digits_run, "--out", tmp_path / "deep" / "r.html")
    page = Page(tmp_path / "deep" / "r.html")
    assert "r.html" in printed
    assert "Attribute" not in page.text
    assert "train with --validation" in page.text  # the reason why there is no error curve


def test_runs_on_different_data_stand_side_by_side_with_a_warning(digits_run, runs, magnet, tmp_path):
    magnet("report", digits_run, runs / "magnet", "--out", tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    assert "trained on different data" in page.text
    assert "<strong>" not in page.source  # nobody is best


def test_runs_tested_on_different_examples_are_not_compared(runs, tmp_path):
    with np.load(runs / "cells.npz") as cells:
        np.savez(tmp_path / "unsplit.npz", X=cells["X"], y=cells["y"])
    few = SMALL | {"steps": 3, "data": str(tmp_path / "unsplit.npz")}
    folders = [train(TrainConfig(seed=s, out=tmp_path / str(s), **few), silent=True) for s in (0, 1)]
    both = read_runs(folders)
    for one in both:
        measure(one)
    assert same_data(both)
    assert not comparable(both)
    assert comparable(both[:1])
    assert any("tested on different examples" in notice for notice in notices(both))
    assert not any(cell.best for _, cells in error_table(both, comparable(both)).rows for cell in cells)


def test_an_unfinished_run_is_reported_as_such(own, magnet, tmp_path):
    for file in (own / "checkpoint").glob("*/manifest.json"):
        values = read_record(file, dict)
        write_record(file, values | {"progress": values["progress"] | {"finished": False}})
    magnet("report", own, "--out", tmp_path / "r.html")
    assert "is not finished" in Page(tmp_path / "r.html").text


def test_a_run_without_a_checkpoint_has_a_report_without_errors(own, tmp_path):
    shutil.rmtree(own / "checkpoint")
    assert "no checkpoint yet" in caught("report", own, "--out", tmp_path / "r.html").err
    text = Page(tmp_path / "r.html").text
    assert "was not evaluated" in text
    assert (tmp_path / "r" / "loss.png").is_file()
    assert not (tmp_path / "r" / "errors.png").exists()


def test_data_that_is_gone_is_said_and_what_was_measured_before_is_kept(own, runs, magnet, tmp_path):
    config = own / "config.yaml"
    config.write_text(config.read_text().replace("cells.npz", "gone.npz"))
    assert "gone.npz" in caught("report", own, "--out", tmp_path / "r.html").err
    assert "was not evaluated" in Page(tmp_path / "r.html").text
    shutil.copy(runs / "cells.npz", runs / "gone.npz")
    magnet("report", own, "--out", tmp_path / "r.html")
    (runs / "gone.npz").unlink()
    magnet("report", own, "--out", tmp_path / "r.html")
    text = Page(tmp_path / "r.html").text
    assert "Measured earlier" in text
    assert "Worst confused classes" in text


def test_bad_input(own, complaint, tmp_path, monkeypatch):
    assert "one or more run folders" in complaint("report")
    assert "no run at" in complaint("report", tmp_path / "nowhere")
    assert "is not a run" in complaint("report", tmp_path)
    assert ".html" in complaint("report", own, "--out", tmp_path / "r.pdf")
    (tmp_path / "r").write_text("in the way of the folder of figures")
    assert "cannot be written" in complaint("report", own, "--out", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_without_matplotlib_it_is_said_at_once(own, complaint, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "matplotlib" in complaint("report", own)
