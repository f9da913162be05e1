"""Arrays as text in the data of the page."""

import base64

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


def encode_positions(maps: list[Positions]) -> list[tuple[Encoded, Encoded]]:
    """Maps in 16 bits a coordinate, all in one square with a margin, so that they can be compared."""
    everything = np.concatenate([part for pair in maps for part in pair])
    low, high = everything.min(axis=0), everything.max(axis=0)
    side = max(1.1 * float((high - low).max()), 1e-9)
    corner = (low + high - side) / 2

    def squeeze(part: np.ndarray) -> Encoded:
        return encode(np.rint((part - corner) / side * 65535).clip(0, 65535), "u2")

    return [(squeeze(examples), squeeze(centres)) for examples, centres in maps]
