"""Reading .npz files: without pickle, and memory-mapped where a member is stored uncompressed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from magnet.errors import UserError

MAP_FROM_BYTES = 2**20
LOCAL_HEADER_BYTES = 30


def read_npz(path: Path, keys: tuple[str, ...], required: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Those of the arrays ``keys`` that the file has; the ``required`` ones it must have."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if not set(required) <= members.keys():
                raise UserError(f"{path}: holds {sorted(members)}, expected at least {', '.join(required)}.")
            return {key: _read(path, archive, members[key]) for key in keys if key in members}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(f"{path}: cannot be read as an .npz file ({error}).") from error


def _read(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    try:
        if member.compress_type == zipfile.ZIP_STORED and member.file_size >= MAP_FROM_BYTES:
            mapped = _map(path, member)
            if mapped is not None:
                return mapped
        with archive.open(member) as stream:
            return npy.read_array(stream, allow_pickle=False)
    except ValueError as error:
        # Objects in an .npy are pickles, and reading a pickle runs code of whoever wrote the file.
        raise UserError(f"{path}: {member.filename} cannot be read ({error}).") from error


def _map(path: Path, member: zipfile.ZipInfo) -> np.ndarray | None:
    """The member's array mapped in place, or None when its header is of a kind that must be read."""
    with path.open("rb") as file:
        file.seek(_data_offset(file, member))
        version = npy.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(file)
        else:
            return None
        if dtype.hasobject:
            return None
        return np.memmap(path, dtype, "r", offset=file.tell(), shape=shape, order="F" if fortran else "C")


def _data_offset(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    # The local header repeats the name and may have more extra bytes than the directory says: read its own.
    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER_BYTES)
    if len(header) < LOCAL_HEADER_BYTES or header[:4] != b"PK\x03\x04":
        raise UserError(f"{member.filename}: damaged zip header.")
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + LOCAL_HEADER_BYTES + name + extra
