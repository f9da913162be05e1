"""One HTML file that needs nothing else: style, scripts and data are all inside it.

A package that wants a page has a folder ``assets`` with ``body.html``, style sheets and scripts; `base_style` comes
before its style sheets. The scripts are joined
in the order of their names, ``main.js`` last, inside one function, so that they share names with each other and with
nothing else. They read the data with ``JSON.parse(document.getElementById("data").textContent)``.
"""

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from magnet.files import writing


def page(
    package: str, title: str, data: Mapping[str, Any], *, beside: bool = False, scripts: Sequence[str] = ()
) -> str:
    """The text of a self-contained page, or of one with pictures and scripts beside it.

    Args:
        package: the dotted name of the package.
        title: of the window, untrusted text.
        data: what JSON can hold, finite numbers only; its strings are untrusted text.
        beside: whether the page may read pictures and scripts that lie in its own folder.
        scripts: addresses of such scripts, to be run first.
    """
    assets = sorted((files(package) / "assets").iterdir(), key=lambda file: (file.name == "main.js", file.name))

    def text(suffix: str) -> list[str]:
        return [file.read_text(encoding="utf-8") for file in assets if file.name.endswith(suffix)]

    own = "(() => {\n'use strict';\n" + "\n".join(text(".js")) + "\n})();"
    # The browser itself makes sure that the page asks nothing of the network.
    own_folder = " 'self' file:" if beside else ""
    policy = (
        f"default-src 'none'; script-src 'unsafe-inline'{own_folder}; style-src 'unsafe-inline'; "
        f"img-src data:{own_folder}"
    )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>",
            *(f"<style>\n{sheet}</style>" for sheet in [base_style(), *text(".css")]),
            "</head>\n<body>",
            *text("body.html"),
            f'<script type="application/json" id="data">{embedded_json(data)}</script>',
            *(f'<script src="{html.escape(address)}"></script>' for address in scripts),
            f"<script>{_closed(own)}</script>",
            "</body>\n</html>\n",
        ]
    )


def base_style() -> str:
    """The style sheet that all pages share: colours, light and dark, type, tables, pictures."""
    return (files("magnet.report") / "assets" / "base.css").read_text(encoding="utf-8")


def embedded_json(data: Any) -> str:
    """JSON that can stand inside a script element: no character in it means anything to HTML or ends a line."""
    # All but ASCII is escaped by default: U+2028, and the halves of characters that undecodable file names hold.
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def percent(share: float | None) -> str:
    """A fraction as a percentage."""
    return "–" if share is None else f"{100 * share:.1f} %"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    with writing(path) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def _closed(script: str) -> str:
    """A script that cannot end its element: inside strings, where such text occurs, the backslash changes nothing."""
    return re.sub("</(?=script)", r"<\\/", script, flags=re.IGNORECASE).replace("<!--", r"<\!--")
