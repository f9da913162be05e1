"""For the API pages: examples of a docstring that have no heading of their own become its section of examples."""

import re
from typing import Any

import griffe


def with_section(text: str) -> str:
    """The docstring with a heading above its examples, up to the next section.

    >>> print(with_section("Double it.\\n\\n>>> 2 * 2\\n4\\n\\nArgs:\\n    x: it."))
    Double it.
    <BLANKLINE>
    Examples:
        >>> 2 * 2
        4
    <BLANKLINE>
    Args:
        x: it.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>> ") and not inside:
            inside = True
            lines.append("Examples:")
        elif re.fullmatch(r"[A-Z]\w+:", line):
            inside = False
        lines.append(f"    {line}" if inside and line else line)
    return "\n".join(lines)


class Examples(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_section(obj.docstring.value)
