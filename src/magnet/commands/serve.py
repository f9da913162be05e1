"""magnet serve."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from magnet.commands.terminal import RunFolder, progress, read_options, say_notes
from magnet.errors import UserError, check_at_least
from magnet.files import memory
from magnet.training.config import check_model

HELP = """A small HTTP service of a run, or of a folder written by `magnet export`: /classify, /embed, /search, /health.

Images are sent as they are (Content-Type: image/jpeg) or as JSON {"images": ["base64", ...]}, vectors as JSON
{"vectors": [[...], ...]}. What the service takes and gives is described at /docs. It listens on this machine alone
unless --host says otherwise; it has no passwords: put it behind something that has.

examples:
  magnet serve runs/photos
  curl -H 'Content-Type: image/jpeg' --data-binary @cat.jpg http://127.0.0.1:8000/classify
  curl -H 'Content-Type: application/json' -d '{"vectors": [[0.1, 0.2]]}' http://127.0.0.1:8000/embed
"""


@dataclass(frozen=True)
class Serve:
    """The options of `magnet serve`."""

    run: RunFolder
    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0: all of them."""
    port: int = 8000
    """The port to listen on; 0: one that is free."""
    megabytes: int = 16
    """The largest request that is taken."""


def main(arguments: Sequence[str]) -> None:
    """Open the model and serve it until interrupted."""
    options = read_options(Serve, "serve", HELP, arguments)
    if not 0 <= options.port < 65536:
        raise UserError(f"--port must be between 0 and 65535; found {options.port}")
    check_at_least("megabytes", options.megabytes, 1, memory() // 2**20)
    check_model(options.run)
    try:
        import fastapi
        import uvicorn
    except ImportError as error:
        raise UserError("magnet serve needs FastAPI and uvicorn: pip install 'magnet-loss[serve]'") from error
    del fastapi, uvicorn
    listener = listen(options.host, options.port)

    from magnet.export import load
    from magnet.export.service import MEBIBYTE, make_server, make_service
    from magnet.training.folder import merging_note

    say_notes([merging_note(options.run)])
    with progress("embedding") as report:
        model = load(options.run, report=report)
    service = make_service(model, most_bytes=options.megabytes * MEBIBYTE)
    host, port = options.host, listener.getsockname()[1]
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(f"serving {options.run} at http://{where} (its description: /docs); Ctrl-C ends it", flush=True)
    make_server(service).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0: one that is free."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, TypeError, ValueError) as error:  # the last two of names that are none
        reason = str(getattr(error, "strerror", None) or error).split(" (while")[0]
        raise UserError(f"cannot listen at {host}, port {port} ({reason}): give another --host or --port") from error
