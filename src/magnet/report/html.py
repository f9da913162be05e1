"""Pages: one HTML file with style, scripts and data inside it, or a folder with pictures and data beside the page.

A package that wants a page has a folder ``assets`` with ``body.html``, style sheets and scripts; `base_style` comes
before its style sheets. The scripts are joined in the order of their names, ``main.js`` last, inside one function, so
that they share names with each other and with nothing else. They read the data with
``JSON.parse(document.getElementById("data").textContent)``.
"""

import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from magnet.errors import UserError
from magnet.files import file_digest, read_json, writing

LIST = "files.json"  # in the folder of a page: its files, each with the digest of its content


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


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    with writing(path) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


class Folder:
    """The folder of a page, in which an earlier page may lie: its files are replaced, and those left over removed.

    Only files that the list of the earlier page names, and that have not changed since, are ever removed.
    """

    def __init__(self, path: Path) -> None:
        check_folder(path)
        self.path = path
        self.written: dict[str, str] = {}
        if not (path / LIST).is_file():
            write_whole(path / LIST, "{}")  # one that is interrupted can be written again

    def keep(self, name: str, content: str | bytes) -> str:
        """Write a file under a relative name, and give the name back."""
        content = content.encode() if isinstance(content, str) else content
        write_whole(self.path / name, content)
        self.written[name] = hashlib.sha256(content).hexdigest()
        return name

    def finish(self) -> None:
        """Write the list, and remove what is left over of an earlier page."""
        earlier = _listed(self.path)
        write_whole(self.path / LIST, json.dumps(self.written, indent=1))
        for name in earlier.keys() - self.written.keys():
            file = self.path / name
            if file.is_file() and not file.is_symlink() and file_digest(file) == earlier[name]:
                file.unlink()


def check_folder(path: Path) -> None:
    """Raise a UserError unless a folder is new, empty, or that of an earlier page."""
    if path.is_dir() and any(path.iterdir()) and not (path / LIST).is_file():
        raise UserError(f"--out {path} holds other files: give the name of a new folder, or of one that holds a page")
    _listed(path)


def _listed(path: Path) -> dict[str, str]:
    """The files of an earlier page; names that lead out of its folder are ignored."""
    if not (path / LIST).is_file():
        return {}
    found: dict[str, str] = read_json(path / LIST, dict[str, str])
    return {name: digest for name, digest in found.items() if re.fullmatch(r"(data|pictures)/[\w-]+\.(js|webp)", name)}


def _closed(script: str) -> str:
    """A script that cannot end its element: inside strings, where such text occurs, the backslash changes nothing."""
    return re.sub("</(?=script)", r"<\\/", script, flags=re.IGNORECASE).replace("<!--", r"<\!--")
