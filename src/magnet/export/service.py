"""A model over HTTP: classify, embed and search, with limits, and errors as JSON.

Needs FastAPI and uvicorn (the extra ``serve``). FastAPI also makes the description of the service at ``/openapi.json``
and ``/docs``.
"""

import asyncio
import base64
import binascii
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import numpy as np
import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from PIL import Image
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from magnet import __version__
from magnet.data.images import MOST_PIXELS
from magnet.data.listings import open_image
from magnet.errors import UserError
from magnet.export.model import Model

MEBIBYTE = 2**20
MOST_INPUTS = 256  # in one request
MOST_COUNT = 1000  # nearest examples
MOST_WAITING = 8  # requests of the largest size whose bytes are held at once
MOST_CONNECTIONS = 512  # of which requests are answered: an open connection is an open file, often at most 1,024
GRACE, RATE = 20.0, 2**14  # seconds for a request to arrive or an answer to be read; and the bytes that give one more
Inputs = np.ndarray | list[Image.Image]


class Health(BaseModel):
    """What is served."""

    status: str
    version: str
    kind: str
    shape: list[int]
    classes: list[str]
    searchable: bool


class ClusterFound(BaseModel):
    """A cluster near an input."""

    cluster: int
    distance: float


class Answer(BaseModel):
    """The prediction for an input; ``label`` is null if it was refused."""

    label: str | None
    probability: float
    probabilities: dict[str, float]
    novelty: float
    clusters: list[ClusterFound]


class Classified(BaseModel):
    """An answer for each input."""

    answers: list[Answer]


class Embedded(BaseModel):
    """A representation for each input."""

    representations: list[list[float]]


class Neighbour(BaseModel):
    """A training example near an input; the distance is in sigma."""

    name: str
    label: str
    distance: float


class Searched(BaseModel):
    """The nearest training examples of each input."""

    nearest: list[list[Neighbour]]


def make_service(model: Model, *, most_bytes: int = 16 * MEBIBYTE) -> FastAPI:
    """The service of a model, for any ASGI server.

    Args:
        model: an opened run or bundle.
        most_bytes: of a request; a larger one is answered with 413.
    """
    service = FastAPI(
        title="magnet",
        version=__version__,
        description="A trained representation: labels, vectors and the nearest training examples of what is sent.",
    )
    service.add_exception_handler(UserError, _user_error)
    service.add_exception_handler(HTTPException, _http_error)
    service.add_exception_handler(RequestValidationError, _invalid)
    service.add_exception_handler(ClientDisconnect, _gone)
    service.add_exception_handler(Exception, _failed)
    # One request at a time: torch has the processor's threads to itself, and memory holds the images of one.
    turn = threading.Lock()
    kind, width = model.description.kind, model.description.network.shape[0]

    held = Held(MOST_WAITING * most_bytes)

    async def asked(request: Request, work: Callable[[Inputs], Any]) -> Any:
        with held.request() as take:
            body = await read_body(request, most_bytes, take)
            media = request.headers.get("content-type", "").split(";")[0].strip().lower()

            def compute() -> Any:
                with turn:
                    return work(sent_images(media, body) if kind == "images" else sent_vectors(media, body, width))

            return await run_in_threadpool(compute)

    described = {"requestBody": _body_description(kind, width)}

    @service.get("/health", response_model=Health)
    async def health() -> Any:
        """Whether the service is up, and what it serves."""
        return {
            "status": "ok",
            "version": __version__,
            "kind": kind,
            "shape": list(model.description.network.shape),
            "classes": model.classes,
            "searchable": model.references is not None,
        }

    @service.post("/classify", response_model=Classified, openapi_extra=described)
    async def classify(request: Request, refuse: bool = False) -> Any:
        """Labels and calibrated probabilities; with ``refuse``, inputs unlike anything known get no label."""
        return await asked(request, lambda inputs: {"answers": classified(model, inputs, refuse)})

    @service.post("/embed", response_model=Embedded, openapi_extra=described)
    async def embed(request: Request) -> Any:
        """Representations."""
        return await asked(request, lambda inputs: {"representations": model.embed(inputs).tolist()})

    @service.post("/search", response_model=Searched, openapi_extra=described)
    async def search(request: Request, count: int = Query(10, ge=1, le=MOST_COUNT)) -> Any:
        """The nearest training examples."""
        if model.references is None:
            raise HTTPException(409, "the model has no references to search: export it with --with-references")
        return await asked(
            request,
            lambda inputs: {
                "nearest": [
                    [{"name": row.name, "label": row.label, "distance": row.distance} for row in rows]
                    for rows in model.search(inputs, min(count, len(model.names)))
                ]
            },
        )

    return service


class Held:
    """The bytes of all requests that have no answer yet: at most ``most``."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0

    @contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """A request that takes bytes as they arrive; one that finds no room is answered with 503."""
        own = 0

        def take(count: int) -> None:
            nonlocal own
            if self.bytes + count > self.most:
                raise HTTPException(503, f"{self.bytes:,} bytes of other requests wait for an answer: try again later")
            self.bytes, own = self.bytes + count, own + count

        try:
            yield take
        finally:
            self.bytes -= own


class PatientProtocol(H11Protocol):
    """HTTP whose patience has an end: without it, clients that send or read almost nothing hold connections for ever.

    A request must arrive, and an answer be read, within ``GRACE`` seconds; ``RATE`` bytes of a request give one more.
    """

    _sending: asyncio.TimerHandle | None = None  # waits for the rest of a request
    _reading: asyncio.TimerHandle | None = None  # waits for the answer to be read
    _since, _received = 0.0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; wait for the rest, if there is more to come."""
        self._received += len(data)
        super().data_received(data)
        self._wait()

    def pause_writing(self) -> None:
        """Much of an answer is unread."""
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(GRACE, self.transport.abort)

    def resume_writing(self) -> None:
        """It was read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        for timer in filter(None, (self._sending, self._reading)):
            timer.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if waits and self._sending is None:
            self._since, self._sending = self.loop.time(), self.loop.call_later(GRACE, self._look)
        elif not waits and self._sending is not None:
            self._sending.cancel()
            self._sending, self._received = None, 0

    def _look(self) -> None:
        left = self._since + GRACE + self._received / RATE - self.loop.time()
        if left <= 0:
            self.transport.abort()
        else:
            self._sending = self.loop.call_later(left, self._look)


def make_server(service: FastAPI, **options: Any) -> uvicorn.Server:
    """A server of a service that slow clients cannot hold; ``options`` are those of `uvicorn.Config`."""
    config = uvicorn.Config(
        service,
        http=PatientProtocol,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=5,
        log_level="error",
        **options,
    )
    return uvicorn.Server(config)


def classified(model: Model, inputs: Inputs, refuse: bool) -> list[dict[str, Any]]:
    """The answers of a model, as plain values."""
    found = model.classify(inputs, refuse=refuse)
    return [
        {
            "label": found.labels[i],
            "probability": float(found.probabilities[i].max()),
            "probabilities": dict(zip(model.classes, found.probabilities[i].tolist(), strict=True)),
            "novelty": float(found.novelty[i]),
            "clusters": [
                {"cluster": cluster, "distance": distance}
                for cluster, distance in zip(found.clusters[i].tolist(), found.distances[i].tolist(), strict=True)
            ],
        }
        for i in range(len(found.labels))
    ]


async def read_body(request: Request, most: int, take: Callable[[int], None]) -> bytes:
    """The body of a request, given up as soon as it is too large; ``take`` is called with each number of bytes."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise HTTPException(413, f"the request has {int(length):,} bytes; at most {most:,} are taken")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise HTTPException(413, f"the request has more than {most:,} bytes, which is all that is taken")
        take(len(part))
        parts.append(part)
    if not size:
        raise HTTPException(400, "the request is empty: send an image, or JSON")
    return b"".join(parts)


def sent_vectors(media: str, body: bytes, width: int) -> np.ndarray:
    """Vectors float32 (n, width) from JSON: {"vectors": [[...], ...]}."""
    rows = _entries(media, body, "vectors")
    try:
        found = np.asarray(rows)
    except ValueError:  # of different lengths
        found = np.empty(0, object)
    if found.dtype.kind not in "iuf":  # text, from which numpy would read numbers too
        raise UserError(f"vectors must be lists of {width} numbers, all of the same length")
    table = found.astype(np.float32)
    if table.shape[1:] != (width,) or not np.isfinite(table).all():
        what = f"shape {table.shape}" if table.shape[1:] != (width,) else "NaN, infinity or more than float32 holds"
        raise UserError(f"vectors must be lists of {width} finite numbers; found {what}")
    return table


def sent_images(media: str, body: bytes) -> list[Image.Image]:
    """Images from the body itself, or from JSON: {"images": ["base64 of a file", ...]}."""
    files = []
    if media.startswith("image/") or media == "application/octet-stream":
        files.append(body)
    else:
        for number, text in enumerate(_entries(media, body, "images")):
            try:
                files.append(base64.b64decode(text, validate=True))
            except (TypeError, ValueError, binascii.Error):
                raise UserError(f"image {number} is no base64 text") from None
    images, pixels = [], 0
    for number, file in enumerate(files):
        images.append(_image(file, number, MOST_PIXELS - pixels))
        pixels += images[-1].width * images[-1].height
    return images


def _entries(media: str, body: bytes, name: str) -> list[Any]:
    if media != "application/json":
        raise HTTPException(415, f"found {media or 'no content type'}; expected application/json with {name!r}")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body cannot be read as JSON") from None
    entries = content.get(name) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise UserError(f"expected {{{name!r}: [...]}} with at least one entry")
    if len(entries) > MOST_INPUTS:
        raise HTTPException(413, f"{len(entries)} {name} in one request; at most {MOST_INPUTS} are taken")
    return entries


def _image(content: bytes, number: int, most: int) -> Image.Image:
    try:
        image = open_image(io.BytesIO(content))
        if image.width * image.height > most:
            size = f"{image.width} x {image.height}"
            raise HTTPException(
                413, f"with image {number}, of {size} pixels, the request has more than {MOST_PIXELS:,}"
            )
        image.load()
    except HTTPException:
        raise
    except Exception:  # Pillow's decoders raise whatever a damaged file makes them stumble over
        raise UserError(f"image {number} cannot be read as an image") from None
    return image


def _body_description(kind: str, width: int) -> dict[str, Any]:
    if kind == "vectors":
        vectors = {
            "type": "array",
            "items": {"type": "array", "items": {"type": "number"}, "minItems": width, "maxItems": width},
        }
        schema = {"type": "object", "properties": {"vectors": vectors}, "required": ["vectors"]}
        return {"required": True, "content": {"application/json": {"schema": schema}}}
    images = {"type": "array", "items": {"type": "string", "format": "byte"}, "maxItems": MOST_INPUTS}
    schema = {"type": "object", "properties": {"images": images}, "required": ["images"]}
    file = {"schema": {"type": "string", "format": "binary"}}
    return {"required": True, "content": {"image/*": file, "application/json": {"schema": schema}}}


def _user_error(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 422)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(word) for word in first["loc"])
    return JSONResponse({"error": f"{place}: {first['msg']}"}, 422)


def _gone(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": "the client left before its request had arrived"}, 400)  # nobody reads it


def _failed(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": "the service failed on this request"}, 500)
