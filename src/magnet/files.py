"""Files written whole or not at all, with the permissions that the user's umask gives; read, locked, and digested."""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from magnet.errors import UserError

DRAFT = ".part"  # how the names of drafts end
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}  # what file systems say that have no locks


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty file beside ``path`` to write to; it takes the place of ``path`` once the block has ended well.

    Whoever reads ``path`` meanwhile, or after a crash, finds the old file or the new one, never half of one. Where the
    block raises, the draft is removed and ``path`` is left as it was.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with replacing(path) as draft:
    ...     _ = draft.write_text("whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(path)
    draft = _beside(path)
    file = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        mode = os.fstat(file).st_mode & 0o777
        os.close(file)
        yield draft
        _allow(draft, mode)  # safetensors, for one, makes files that only their owner can read
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """`replacing` for a folder: gives an empty one to fill, and removes the old one when the new one is in place."""
    path = Path(path)
    draft, old = _beside(path), _beside(path)
    draft.mkdir()
    try:
        mode = draft.stat().st_mode & 0o666
        yield draft
        for file in draft.rglob("*"):
            if file.is_file():
                _allow(file, mode)
        if path.exists():
            path.rename(old)
        draft.rename(path)
    finally:
        if old.exists() and not path.exists():  # the last rename failed
            old.rename(path)
        for folder in (draft, old):
            shutil.rmtree(folder, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes left in a folder. No process may be writing there."""
    for draft in folder.glob(f".*{DRAFT}"):
        shutil.rmtree(draft) if draft.is_dir() else draft.unlink()


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds. A `UserError`, which is a `ValueError`, where it is broken or cut short.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "best.json"
    >>> _ = path.write_text('{"checkpoint": "step-00000012"}')
    >>> read_json(path)
    {'checkpoint': 'step-00000012'}
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}): the file is broken or cut short") from error


@contextmanager
def lock(path: str | os.PathLike[str], busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on the file ``path``, which is made if need be and stays.

    The system frees the lock when the process that holds it ends, however it ends; a worker that outlives its killed
    parent does not keep it. On a file system without locks the block runs without one.

    Args:
        path: the file; its folder must exist.
        busy: called if another process holds the lock. It raises an error, or returns to wait until the lock is free.

    >>> import tempfile
    >>> with lock(Path(tempfile.mkdtemp()) / ".lock", lambda: print("another process is training here")):
    ...     print("training")
    training
    """
    from filelock import FileLock, Timeout  # here, since a quarter of a second is long for a command's --help

    held = FileLock(path, fallback_to_soft=False)  # the soft lock, a mere file, would outlive a killed process
    try:
        try:
            held.acquire(blocking=False)
        except Timeout:
            busy()
            held.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    try:
        yield
    finally:
        held.release()


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, which are read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _beside(path: Path) -> Path:
    """A new hidden name in the same folder, so that renaming stays within one file system."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")


def _allow(path: Path, mode: int) -> None:
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)
