import json
from itertools import pairwise
from pathlib import Path

import pytest

from magnet.cli import main

pytestmark = pytest.mark.usefixtures("few_digits")
QUICK = ["--data", "digits", "--trials", "1", "--seeds", "2", "--pairings", "2", "--epochs", "1"]


def test_an_experiment_prints_its_table_and_writes_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "fine-grained", *QUICK, "--out", str(tmp_path)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "error on the 115 test examples" in printed
    assert "Magnet minus this" in printed
    content = json.loads((tmp_path / "fine-grained" / "results.json").read_text())
    assert content["experiment"] == "fine-grained"
    assert content["data"] == "digits"
    assert content["seeds"] == 2
    assert content["conditions"]["epochs"] == 1
    assert {"python", "torch", "magnet"} <= content["versions"].keys()
    for method in ("softmax", "triplet", "semantic-triplet", "magnet"):
        assert len(content["values"][method]["errors"]) == 2
        assert 0 < content["values"][method]["settings"]["learning_rate"] < 1
    runs = {folder.name for folder in (tmp_path / "runs").iterdir()}
    assert main(["reproduce", "metrics", *words[2:]]) == 0  # the same runs under other rules
    assert {folder.name for folder in (tmp_path / "runs").iterdir()} == runs
    assert (tmp_path / "metrics" / "metrics.png").is_file()


def test_hidden_classes_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "hierarchy", *QUICK, "--out", str(tmp_path)]) == 0
    assert "Magnet against the others" in capsys.readouterr().out
    values = json.loads((tmp_path / "hierarchy" / "results.json").read_text())["values"]["random pairs"]
    for method in ("softmax", "triplet", "semantic-triplet", "magnet"):
        assert len(values[method]["knc"]) == 2
        assert all(five <= one for five, one in zip(values[method]["knc@5"], values[method]["knc"], strict=True))


def test_dynamics_tells_when_triplets_end_is_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "dynamics", *QUICK, "--out", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Triplet's iterations over Magnet's" in printed
    assert "semantic triplet's iterations over Magnet's" in printed
    values = json.loads((tmp_path / "dynamics" / "results.json").read_text())["values"]
    assert len(values["curves"]["magnet"][0]) == 2  # twice the epochs, a validation after each
    for goal in ("triplet", "semantic-triplet"):
        last = [sum(error for _, error in curve[-3:]) / len(curve[-3:]) for curve in values["curves"][goal]]
        assert values["ends"][goal] == pytest.approx(last)
        for curve, end, step in zip(
            values["curves"]["magnet"], last, values[goal]["first_there"]["magnet"], strict=True
        ):
            below = [at for at, error in curve if error <= end]
            assert step == (below[0] if below else None)
    for curve, times in zip(values["curves"]["magnet"], values["seconds"]["magnet"], strict=True):
        assert [error for _, error in times] == [error for _, error in curve]
        assert all(earlier < later for (earlier, _), (later, _) in pairwise(times))
    assert (tmp_path / "dynamics" / "dynamics.png").is_file()


def test_settings_of_another_experiment_are_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = {"triplet": {"alpha": 0.7}, "magnet": {"alpha": 3.0, "scaling": 4.0}}
    source = tmp_path / "results.json"
    source.write_text(json.dumps({"settings": {"classes": {m: [s] for m, s in chosen.items()}}}))
    words = [*QUICK, "--scaling", "5", "--settings", str(source), "--out", str(tmp_path)]
    words += ["--methods", "triplet", "magnet"]
    assert main(["reproduce", "fine-grained", *words]) == 0
    assert "Given, not searched" in capsys.readouterr().out
    values = json.loads((tmp_path / "fine-grained" / "results.json").read_text())["values"]
    assert values["triplet"]["settings"]["alpha"] == 0.7
    assert values["magnet"]["settings"]["alpha"] == 3.0
    assert "scaling" not in values["magnet"]["settings"]  # given, so not among the chosen
    for content, said in (
        ([], "does not hold chosen settings"),
        ({"settings": {"classes": {"magnet": [{"alpha": 1.0}]}}}, "has no settings of triplet for classes"),
        ({"settings": {"classes": {"magnet": [{"colour": 1.0}]}}}, "names settings that do not exist: colour"),
    ):
        source.write_text(json.dumps(content))
        assert main(["reproduce", "fine-grained", *words]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_an_experiment_is_made_again_with_the_settings_in_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "hierarchy", *QUICK, "--methods", "triplet", "magnet"]
    assert main([*words, "--out", str(tmp_path / "first")]) == 0
    first = tmp_path / "first" / "hierarchy" / "results.json"
    again = [*words, "--out", str(tmp_path / "again"), "--settings", str(first), "--against", str(first)]
    assert main(again) == 0
    assert "14 of 14 figures agree" in " ".join(capsys.readouterr().out.split())
    one, other = (
        json.loads((tmp_path / name / "hierarchy" / "results.json").read_text()) for name in ("first", "again")
    )
    assert one["settings"].keys() == {"random pairs"}
    assert one["settings"] == other["settings"]
    for method in ("triplet", "magnet"):
        assert one["values"]["random pairs"][method]["knc"] == other["values"]["random pairs"][method]["knc"]
        assert len(one["settings"]["random pairs"][method]) == 3
        assert other["values"]["random pairs"][method]["trials"] == [None] * 3


@pytest.mark.slow
def test_ablations_give_a_table_for_each_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", "digits", "--trials", "1", "--seeds", "1", "--steps", "10"]
    assert main(["reproduce", "ablations", *words, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    content = json.loads((tmp_path / "ablations" / "results.json").read_text())
    titles = " ".join(table["title"] for table in content["tables"])
    for word in ("alpha", "scaling", "K", "M x D", "refreshed", "seed clusters", "warm start", "neighbours L"):
        assert word in titles


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hierachy", "--data", "digits"], "did you mean hierarchy?"),
        (["fine-grained", "--data", "digits", "--method", "triplet"], "such as --methods softmax magnet"),
        (["fine-grained", "--data", "digits", "--methods", "softmax", "magnt"], "did you mean magnet?"),
        (["fine-grained", "--data", "digits", "--methods", "softmax", "nca"], "must name magnet"),
        (["dynamics", "--data", "digits", "--methods", "softmax", "magnet"], "where triplet ends"),
        (["fine-grained", "--data", "digits", "--trials", "0"], "--trials must be at least 1"),
        (["all", "--data", "digits", "--against", "results.json"], "name the experiment, not all"),
        (["metrics", "--data", "digits", "--against", "no.json"], "--against must be the results.json"),
    ],
)
def test_bad_words_are_explained(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words]) == 2
    assert said in capsys.readouterr().err
