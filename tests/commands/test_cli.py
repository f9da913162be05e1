import subprocess
import sys
from contextlib import suppress

import pytest

from magnet import __version__
from magnet.cli import COMMANDS, main

MINE = ("data", "evaluate", "embed", "classify", "search", "export", "train")


def test_help_lists_all_commands_with_an_example(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert "example: magnet train" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_version(capsys):
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_an_unknown_command_is_one_line_with_the_nearest(capsys):
    assert main(["evalute"]) == 2
    error = capsys.readouterr().err
    assert "did you mean evaluate?" in error
    assert error.count("\n") == 1


def test_help_does_not_wait_for_torch():
    # Of the overview and of every command here, in one new process.
    words = [["--help"], *([name, "--help"] for name in MINE if name != "train")]
    script = (
        "import sys; from magnet.cli import main\n"
        f"for words in {words!r}:\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "    assert 'torch' not in sys.modules, words\n"
        "import magnet.runs.run, magnet.runs.evaluate, magnet.commands.inputs\n"
        "assert 'lightning_fabric' not in sys.modules\n"  # seconds that only training needs to wait
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", MINE)
def test_every_help_has_an_example(name, capsys):
    with suppress(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert f"magnet {name} " in shown


@pytest.mark.parametrize("words", [["evaluate"], ["evaluate", "run", "--part", "tests"], ["search", "--cuont", "3"]])
def test_wrong_options_end_with_code_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""
