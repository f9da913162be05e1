"""The frame of the measurements: fair turns, honest bounds, results that are kept."""

import json
import subprocess
import sys

import pytest

from magnet.bench import PARTS, measurement
from magnet.bench.measurement import (
    Measurement,
    as_table,
    compare_times,
    duration,
    peak_memory,
    read_results,
    run_child,
    stamp,
    write_results,
    write_tables,
)
from magnet.cli import main
from magnet.errors import UserError


def of(ratio, **more):
    return Measurement("name", "what", "1 ms", "2 ms, other", ratio, 0.4, 0.6, 5, **more)


@pytest.mark.parametrize(
    ("ratio", "more", "holds"),
    [
        (0.5, {}, True),
        (0.5, {"bound": 0.5}, True),
        (0.6, {"bound": 0.5}, False),
        (0.6, {"bound": 0.5, "at_most": False}, True),
        (0.4, {"bound": 0.5, "at_most": False}, False),
        (float("nan"), {"bound": 0.5}, False),
    ],
)
def test_a_bound_holds_or_does_not(ratio, more, holds):
    assert of(ratio, **more).holds is holds


def test_two_callables_take_turns_and_each_goes_first_as_often():
    order = []
    timed = compare_times(lambda: order.append("a"), lambda: order.append("b"), repeats=6, calls=2)
    assert "".join(order) == "aabb" + "aabb" + "bbaa" + "aabb" + "bbaa" + "aabb" + "bbaa"
    assert len(timed.ratios) == 6
    made = timed.measurement("n", "w", "other", bound=1.0)
    assert made.low <= made.ratio <= made.high
    assert made.baseline.endswith(", other")
    with pytest.raises(ValueError, match="at least five"):
        compare_times(print, print, repeats=4)


def test_the_ratio_is_ours_over_the_baseline(monkeypatch):
    clock = iter(range(0, 1000))
    monkeypatch.setattr(measurement.time, "perf_counter", lambda: float(next(clock)))
    slow = compare_times(lambda: [next(clock) for _ in range(3)], lambda: None, repeats=5)
    assert slow.ratios == [4.0] * 5
    assert (slow.ours, slow.baseline) == (4.0, 1.0)


def test_times_are_written_for_people():
    assert [duration(x) for x in (12.34, 0.0056789, 2.5e-5)] == ["12.3 s", "5.68 ms", "25 µs"]


def test_the_memory_of_a_child_is_its_own(tmp_path):
    (tmp_path / "hold.py").write_text(
        "import json, sys\nfrom magnet.bench.measurement import peak_memory\n"
        "held = bytearray(int(sys.argv[1]))\nfor i in range(0, len(held), 4096): held[i] = 1\n"
        "print('noise')\nprint(json.dumps({'peak': peak_memory()}))\n"
    )
    ballast = bytearray(200 << 20)
    for i in range(0, len(ballast), 4096):
        ballast[i] = 1
    small, large = (run_child("hold", size, PYTHONPATH=str(tmp_path))["peak"] for size in (0, 64 << 20))
    assert peak_memory() > 200 << 20 > small  # the child is not charged with what its parent holds
    assert 50 << 20 < large - small < 80 << 20
    with pytest.raises(RuntimeError, match="ended with code 1"):
        run_child("hold", "many", PYTHONPATH=str(tmp_path))


def record(*found):
    return {**stamp(), "seconds": 1.0, "measurements": [vars(m) for m in found]}


def test_results_survive_the_file_and_make_tables(tmp_path):
    results = {"draw": record(of(0.5, bound=1.0), of(2.0, bound=1.0, unit="%")), "loss": record(of(3e-5))}
    path = tmp_path / "new" / "results.json"
    assert read_results(path) == {}
    write_results(path, results)
    assert read_results(path) == results
    assert as_table(results).row_count == 3
    document = tmp_path / "page.md"
    document.write_text(
        "before\n<!-- bench: draw -->\nstale\n<!-- end -->\n<!-- bench: step -->\n<!-- end -->\nafter\n"
    )
    for _ in range(2):  # writing again changes nothing
        write_tables(document, results)
        page = document.read_text()
    assert "stale" not in page
    assert "| name: what | 1 ms | 2 ms, other | 0.5 | 0.4 to 0.6 (5) | ≤ 1 | yes |" in page
    assert "| 2 % |" in page
    assert "| NO |" in page
    assert "magnet bench --only step" in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    path.write_text(json.dumps({"parts": {"draw": 1}}))
    with pytest.raises(UserError, match="holds no measurements"):
        read_results(path)


def test_an_unknown_part_is_said_with_the_known_ones(capsys):
    assert main(["bench", "--only", "stpe"]) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in PARTS)


def test_help_lists_the_parts_without_torch(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    shown = capsys.readouterr().out
    assert all(part in shown for part in PARTS)
    code = "import sys; from magnet.bench import PARTS; import magnet.commands.bench; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
