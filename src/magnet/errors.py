"""Errors whose message tells the user what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something given by the user is wrong: says what was found, what was expected and what to do.

    The command line prints its message in one line, without a traceback.
    """


class RangeError(UserError):
    """Representations are not finite, or their squares would overflow or vanish."""


class StorageError(OSError):
    """A file cannot be written: the disk is full, read-only, or not ours. Says where, and what to do."""


def visible(text: str) -> str:
    """Text from outside, such as names of classes and files, without control characters and unprintable ones.

    >>> visible("a" + chr(27) + "[2J")
    'a\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a message about an unknown name: up to ``most`` similar known names, or a full stop.

    >>> f"no method 'magnets'{did_you_mean('magnets', ['softmax', 'magnet'])} There are: softmax, magnet"
    "no method 'magnets': did you mean magnet? There are: softmax, magnet"
    >>> f"no method 'x'{did_you_mean('x', ['softmax', 'magnet'])} There are: softmax, magnet"
    "no method 'x'. There are: softmax, magnet"
    """
    close = get_close_matches(name, list(known), n=most)
    return f": did you mean {' or '.join(close)}?" if close else "."


def check_at_least(option: str, value: float, least: float) -> None:
    """Raise a `UserError` if the value of an option is below its least value, or not a number.

    >>> check_at_least("test_draws", 0, 1)
    Traceback (most recent call last):
    magnet.errors.UserError: --test-draws must be at least 1; found 0
    """
    if not value >= least:
        raise UserError(f"--{option.replace('_', '-')} must be at least {least}; found {value}")
