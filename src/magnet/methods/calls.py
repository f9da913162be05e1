"""``Name(argument=value, ...)`` read as text: literal values only, and nothing is executed."""

import ast
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from magnet.errors import UserError

LONGEST = 500


def read_call(text: str, shown: str = "") -> tuple[str, dict[str, Any]]:
    """The name and the arguments of ``Name`` or ``Name(argument=literal, ...)``.

    Args:
        text: what to read; it may come from a stranger's file.
        shown: what to call it in an error.
    """
    wrong = UserError(
        f"{shown or text!r} is not understood: write NAME or NAME(argument=value, ...), plain values only"
    )
    if len(text) > LONGEST:
        raise wrong
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise wrong from error
    call = found if isinstance(found, ast.Call) else ast.Call(found, [], [])
    if not isinstance(call.func, ast.Name) or call.args or any(word.arg is None for word in call.keywords):
        raise wrong
    try:
        values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise wrong from error
    return call.func.id, values


def closest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the known ones that look like it, or all of them."""
    known = sorted(known)
    close = get_close_matches(name, known, n=3)
    if close:
        return f": did you mean {' or '.join(close)}?"
    return f": there are {', '.join(known)}" if known else ": there are none"
