"""Values from files are what they should be, or the error says what they are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypedDict

import pytest

from magnet.errors import Bounds, UserError, checked


@dataclass(frozen=True)
class Part:
    size: Annotated[int, Bounds(1, 9, "of a hand")]
    names: tuple[str, ...] = ()


class Pair(NamedTuple):
    a: float
    b: int | None = None


class Loose(TypedDict, total=False):
    part: Part
    pair: Pair


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3, float, 3.0),
        (3, int | float, 3),
        ("a/b", Path | None, Path("a/b")),
        (None, Path | None, None),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, "x"], tuple[int, str], (1, "x")),
        ({"size": 3, "names": ["a"]}, Part, Part(3, ("a",))),
        ({"a": 1}, Pair, Pair(1.0)),
        ({"pair": {"a": 1, "b": 2}}, Loose, {"pair": Pair(1.0, 2)}),
    ],
    ids=str,
)
def test_what_fits_is_given_back_as_its_type(value, kind, expected):
    found = checked(value, kind, "x")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (True, int, "x is True, expected a whole number"),
        (1.5, int, "x is 1.5"),
        ("1", float, "expected a number"),
        (float("nan"), float, "expected a finite number"),
        (10**400, float, "expected a finite number"),
        ("c", Literal["a", "b"], "one of 'a', 'b'"),
        (1, Literal[True], "one of True"),
        ({"size": 0}, Part, r"x: size is 0, expected at least 1 and at most 9 \(of a hand\)"),
        ({"size": 1, "colour": 2}, Part, "x has 'colour', which is not known here"),
        ({}, Part, "x has no 'size'"),
        ([1], Part, "x is list, expected named values"),
        ([1], tuple[int, int], "expected a list of 2"),
        ({1: 2}, dict[str, int], "expected named values"),
        ({"pair": {"a": "1"}}, Loose, "x: pair: a is '1'"),
        ("a\0b", Path, "expected a path"),
        ("x" * 99, int, r"x is 'xxxx.*\.\.\., expected"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_is_named_in_one_line(value, kind, words):
    with pytest.raises(UserError, match=words) as error:
        checked(value, kind, "x")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 150
