"""Errors whose message tells the user what to do, and checks of values that raise them.

What is read from a file is checked against a type before it is used (`checked`): ranges, lengths, known names. Types
are given by Python's annotations: numbers, text, `Literal`, unions, lists, tuples, dictionaries, data classes, named
tuples, typed dictionaries, and `Annotated` with `Bounds` for a number with bounds. Floats must be finite. Nothing here
imports torch.
"""

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict


class UserError(ValueError):
    """Something given by the user is wrong: says what was found, what was expected and what to do.

    The command line prints its message in one line, without a traceback.
    """


class RangeError(UserError):
    """Representations are not finite, or their squares would overflow or vanish."""


class StorageError(OSError):
    """A file cannot be written: the disk is full, read-only, or not ours. Says where, and what to do."""


def percent(share: float | None) -> str:
    """A fraction as a percentage, for people: in a terminal, on a page."""
    return "-" if share is None else f"{100 * share:.1f} %"


def visible(text: str) -> str:
    """Text from outside, such as names of classes and files, without control characters and unprintable ones.

    >>> visible("a" + chr(27) + "[2J")
    'a\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def one_line(error: Exception, most: int = 200) -> str:
    """The text of an error, in one line of at most so many characters; without a text, the name of its type."""
    return " ".join(str(error).split())[:most] or type(error).__name__


def flag(setting: str) -> str:
    """The option of a setting on the command line.

    >>> flag("learning_rate")
    '--learning-rate'
    """
    return f"--{setting.replace('_', '-')}"


def first_few(names: Sequence[str], most: int = 3) -> str:
    """The first names for a message.

    >>> first_few(["ant", "bee", "cat", "dog"])
    'ant, bee, cat, ...'
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a message about an unknown name: up to ``most`` similar known names, or a full stop.

    >>> f"no method 'magnets'{did_you_mean('magnets', ['softmax', 'magnet'])} There are: softmax, magnet"
    "no method 'magnets': did you mean magnet? There are: softmax, magnet"
    >>> f"no method 'x'{did_you_mean('x', ['softmax', 'magnet'])} There are: softmax, magnet"
    "no method 'x'. There are: softmax, magnet"
    """
    close = get_close_matches(name, list(known), n=most)
    return f": did you mean {' or '.join(close)}?" if close else "."


def check_at_least(option: str, value: float, least: float, most: float = 10**9) -> None:
    """Raise a `UserError` if the value of an option is below its least value, above its greatest, or not a number.

    >>> check_at_least("test_draws", 0, 1)
    Traceback (most recent call last):
    magnet.errors.UserError: --test-draws must be at least 1; found 0
    """
    if not least <= value <= most:
        bound = f"at most {most:,}" if value > most else f"at least {least}"
        raise UserError(f"{flag(option)} must be {bound}; found {value}")


@dataclass(frozen=True)
class Bounds:
    """The numbers from ``least`` to ``most``; ``above`` leaves the least one out, ``below`` the greatest.

    ``also`` is one more allowed number; ``why`` explains the bounds in messages.

    >>> Bounds(0, 1, below=True).describe()
    'at least 0 and below 1'
    """

    least: float = -math.inf
    most: float = math.inf
    why: str = ""
    above: bool = False
    below: bool = False
    also: float = math.nan

    def __contains__(self, value: float) -> bool:
        if value == self.also:
            return True
        low = value > self.least if self.above else value >= self.least
        return bool(low and (value < self.most if self.below else value <= self.most))

    def describe(self) -> str:
        """The range in words."""
        words = ["positive" if self.above and not self.least else f"at least {self.least:g}"] * (self.least > -math.inf)
        words += [f"{'below' if self.below else 'at most'} {self.most:g}"] * (self.most < math.inf)
        more = f", or {self.also:g}" if self.also == self.also else ""
        return " and ".join(words) + more + (f" ({self.why})" if self.why else "")


COUNT = Bounds(0, 2**53)  # whole numbers that JSON keeps exactly
POSITIVE = Bounds(0, 1e300, above=True)
Count = Annotated[int, COUNT]
Positive = Annotated[float, POSITIVE]
Share = Annotated[float, Bounds(0, 1 + 1e-6)]  # a mean of ones may be rounded up
Seconds = Annotated[float, Bounds(0, 1e9)]


def checked(value: Any, kind: Any, where: str) -> Any:
    """The value, converted to type ``kind``: dictionaries become data classes and named tuples, text becomes paths.

    Args:
        value: what was read.
        kind: the type that it should have; Any allows everything.
        where: the name of the value in the message of the `UserError` that is raised if it does not fit.

    >>> checked({"a": 1}, dict[str, float], "weights")
    {'a': 1.0}
    >>> checked("1", int, "epochs")
    Traceback (most recent call last):
    ...
    magnet.errors.UserError: epochs is '1', expected a whole number
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = checked(value, arguments[0], where)
        for bounds in arguments[1:]:
            if isinstance(bounds, Bounds) and found is not None and found not in bounds:
                raise UserError(f"{where} is {_short(value)}, expected {bounds.describe()}")
        return found
    if origin is NotRequired:
        return checked(value, arguments[0], where)
    if origin in (Union, types.UnionType):
        return _one_of(value, arguments, where)
    if origin is Literal:
        if any(value == known and type(value) is type(known) for known in arguments):
            return value
        raise _unfit(value, f"one of {', '.join(map(repr, arguments))}", where)
    if origin in (list, tuple, dict):
        return _container(value, origin, arguments, where)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields") or is_typeddict(kind)):
        return _fields(value, kind, where)
    return _plain(value, kind, where)


def _plain(value: Any, kind: Any, where: str) -> Any:
    if kind is Any:
        return value
    if kind is None or kind is type(None):
        if value is None:
            return None
        raise _unfit(value, "nothing", where)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(value):
                return float(value)
        except OverflowError:
            pass
        raise _unfit(value, "a finite number", where)
    if kind is Path and isinstance(value, str) and "\0" not in value:
        return Path(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}
    raise _unfit(value, names.get(kind, getattr(kind, "__name__", str(kind))), where)


def _one_of(value: Any, kinds: tuple[Any, ...], where: str) -> Any:
    reasons = []
    for kind in sorted(kinds, key=lambda kind: kind is float):  # whole numbers stay whole where both are allowed
        try:
            return checked(value, kind, where)
        except UserError as error:
            if kind is not type(None):
                reasons.append(str(error))
    raise UserError(reasons[0])


def _container(value: Any, origin: Any, arguments: tuple[Any, ...], where: str) -> Any:
    if origin is dict:
        if not isinstance(value, Mapping) or not all(isinstance(key, arguments[0]) for key in value):
            raise _unfit(value, "named values", where)
        return {key: checked(entry, arguments[1], f"{where}[{_short(key)}]") for key, entry in value.items()}
    if not isinstance(value, list | tuple):
        raise _unfit(value, "a list", where)
    if origin is tuple and arguments[-1] is not ...:
        if len(value) != len(arguments):
            raise _unfit(value, f"a list of {len(arguments)}", where)
        kinds = zip(value, arguments, strict=True)
        return tuple(checked(entry, kind, f"{where}[{i}]") for i, (entry, kind) in enumerate(kinds))
    return origin(checked(entry, arguments[0], f"{where}[{i}]") for i, entry in enumerate(value))


def _fields(value: Any, kind: Any, where: str) -> Any:
    """A data class, named tuple or typed dictionary, without unknown names and with all required ones."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _unfit(value, "named values", where)
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        missing = (dataclasses.MISSING, dataclasses.MISSING)
        needed = {f.name for f in dataclasses.fields(kind) if (f.default, f.default_factory) == missing}
        known = {f.name for f in dataclasses.fields(kind)}
    elif is_typeddict(kind):
        needed, known = set(kind.__required_keys__), set(hints)
    else:
        needed, known = set(kind._fields) - set(kind._field_defaults), set(kind._fields)
    unknown, absent = sorted(set(value) - known), sorted(needed - set(value))
    if unknown:
        raise UserError(f"{where} has {_short(unknown[0])}, which is not known here")
    if absent:
        raise UserError(f"{where} has no {absent[0]!r}")
    found = {name: checked(entry, hints[name], f"{where}: {name}") for name, entry in value.items()}
    return found if is_typeddict(kind) else kind(**found)


def _unfit(value: Any, expected: str, where: str) -> UserError:
    return UserError(f"{where} is {_short(value)}, expected {expected}")


def _short(value: Any) -> str:
    """A value as a message shows it: in one line, not longer than forty characters."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."
