"""How all commands read their options."""

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import tyro

T = TypeVar("T")


def read_options(kind: type[T], command: str, description: str, arguments: Sequence[str], **more: Any) -> T:
    """Options of a command from its words on the command line; ``--help`` prints the description with examples."""
    return tyro.cli(
        kind,
        prog=f"magnet {command}",
        description=description,
        args=list(arguments),
        config=(tyro.conf.FlagConversionOff,) if more.pop("plain_flags", False) else (),
        **more,
    )


def value_of(flag: str, arguments: Sequence[str], default: str) -> str:
    """The value of one flag, looked up before the options are read as a whole."""
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if word == flag:
            return following
        if word.startswith(flag + "="):
            return word.split("=", 1)[1]
    return default


def given_options(arguments: Sequence[str]) -> set[str]:
    """The options that were given, as Python spells them: {"learning_rate", "no_quiet"}."""
    return {word.split("=")[0].removeprefix("--").replace("-", "_") for word in arguments if word.startswith("--")}


def is_terminal() -> bool:
    """Whether a person is looking."""
    return sys.stdout.isatty()


def short_name(data: str) -> str:
    """A word for data that --data names, for the folder of what comes of it."""
    return Path(data.split(":")[-1]).stem or "data"
