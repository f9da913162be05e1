"""Names of a package that are imported when they are first used: help and wrong input must not wait for torch."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``homes`` says in which of its modules each name is.

    >>> find = lazily("magnet", {"UserError": "errors"})
    >>> find("UserError").__name__
    'UserError'
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
