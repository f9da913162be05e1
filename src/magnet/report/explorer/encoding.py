"""Arrays as text in the data of the page."""

import base64
from collections.abc import Callable

import numpy as np

from magnet.report.layout import Positions

ARRAYS = {"u1": "Uint8Array", "u2": "Uint16Array", "i4": "Int32Array", "f4": "Float32Array"}
Encoded = dict[str, str]


def encode(array: np.ndarray, kind: str) -> Encoded:
    """Any array, flattened, as one of the kinds in ARRAYS."""
    data = np.ascontiguousarray(array).astype(f"<{kind}").tobytes()
    return {"type": ARRAYS[kind], "base64": base64.b64encode(data).decode("ascii")}


def encode_ids(array: np.ndarray, count: int) -> Encoded:
    """Ids below ``count`` in as few bytes as they take."""
    return encode(array, "u2" if count <= 2**16 else "i4")


def encode_bits(flags: np.ndarray) -> Encoded:
    """Booleans (n,), eight a byte, the first in the highest bit."""
    return encode(np.packbits(flags), "u1")


def square_around(maps: list[Positions]) -> Callable[[np.ndarray], np.ndarray]:
    """From positions (n, 2) on any of the maps into one square of 0..65535 with a margin, so that maps compare."""
    everything = np.concatenate([part for pair in maps for part in pair])
    low, high = everything.min(axis=0), everything.max(axis=0)
    side = max(1.1 * float((high - low).max()), 1e-9)
    corner = (low + high - side) / 2

    return lambda part: np.rint((part - corner) / side * 65535).clip(0, 65535)


def encode_positions(maps: list[Positions]) -> list[tuple[Encoded, Encoded]]:
    """Maps in 16 bits a coordinate, examples and centres of each."""
    squeeze = square_around(maps)
    return [(encode(squeeze(examples), "u2"), encode(squeeze(centres), "u2")) for examples, centres in maps]
