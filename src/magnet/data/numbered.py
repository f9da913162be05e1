"""Names of rows that have none of their own."""

from collections.abc import Sequence
from typing import overload


class Numbered(Sequence[str]):
    """The names "0", "1", ... up to a count: a sequence that is not held. Five million strings would take 300 MB."""

    def __init__(self, count: int) -> None:
        self._rows = range(count)

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> list[str]: ...
    def __getitem__(self, key: int | slice) -> str | list[str]:
        found = self._rows[key]
        return [str(row) for row in found] if isinstance(found, range) else str(found)

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbered):
            return len(self) == len(other)
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Numbered({len(self)})"
