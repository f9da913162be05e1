"""What a person meets when something is wrong: the outcome of a command, or of a call, under a fault."""

import contextlib
import io
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from magnet.cli import main

# Outcomes that a person may meet: the result as it should be, or a line that says what is wrong.
SAME, SAID = "as without the fault", "said"
GOOD = (SAME, SAID)
# And those that nobody should: another result without a word, an exception of Python, no end, numbers that are none.
SILENT, TRACEBACK, HANG, NOT_FINITE = "silent", "traceback", "hang", "not finite"


class Outcome(NamedTuple):
    kind: str
    words: str  # what was said, or the exception


class TooLongError(BaseException):
    """Raised where a case takes longer than it may; no `except Exception` swallows it."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Ended(NamedTuple):
    """How a command ended."""

    code: int | None  # None: in an exception, or not at all
    out: str
    err: str  # or the exception


def caught(*words: object, seconds: int = 60) -> Ended:
    """A command in this process."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with at_most(seconds), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(word) for word in words])
    except SystemExit as stop:  # how the reader of options ends
        code = stop.code if isinstance(stop.code, int) else 2
    except TooLongError:
        return Ended(None, "", HANG)
    except BaseException as error:
        return Ended(None, "", f"{type(error).__name__}: {error}")
    return Ended(code, out.getvalue(), err.getvalue().strip())


def command(*words: object, expected: str | None = None, seconds: int = 60) -> Outcome:
    """A command in this process. Without ``expected``, what it must print, any success will do."""
    code, out, said = caught(*words, seconds=seconds)
    if code is None:
        return Outcome(HANG, " ".join(map(str, words))) if said == HANG else Outcome(TRACEBACK, said)
    if code:
        return Outcome(SAID if (said or out.strip()) and "Traceback" not in said else TRACEBACK, said)
    if expected is None or out == expected:
        return Outcome(SAME, said)
    return Outcome(SAID if said else SILENT, said or out[:200])


def call(function: Callable[[], Any], allowed: tuple[type[Exception], ...], seconds: int = 20) -> Outcome:
    """A call of Python: refused with one of the ``allowed`` errors, or done with finite numbers."""
    try:
        with at_most(seconds):
            result = function()
    except TooLongError:
        return Outcome(HANG, "")
    except allowed as error:
        if type(error).__module__.startswith(("magnet", "builtins")) and str(error):
            return Outcome(SAID, str(error))
        return Outcome(TRACEBACK, f"{type(error).__name__}: {error}")
    except BaseException as error:
        return Outcome(TRACEBACK, f"{type(error).__name__}: {error}")
    return Outcome(SAME if finite(result) else NOT_FINITE, "")


def printed(*words: object) -> str:
    """What a command prints that must succeed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(word) for word in words]) == 0
    return out.getvalue()


def finite(result: Any) -> bool:
    import numpy as np
    import torch

    if isinstance(result, torch.Tensor):
        return not result.is_floating_point() or not bool(result.isnan().any())
    if isinstance(result, np.ndarray):
        return result.dtype.kind != "f" or not bool(np.isnan(result).any())
    if isinstance(result, tuple | list):
        return all(finite(entry) for entry in result)
    if isinstance(result, float):
        return result == result
    return True


def as_json(text: str) -> Any:
    return json.loads(text)
