"""Files: written whole or not at all, checked when they are read, locked, and hashed.

Everything that this package stores is written and read through these functions. A write goes to a draft with an
unpredictable name beside the file, is flushed to the disk, and then replaces the file; a symbolic link is replaced and
never followed. Only regular files of bounded size are read. A record is a JSON object with the SHA-256 of its own
content. Tensors are in `magnet.tensors`.

What is read is checked against a type before it is used (`checked`): ranges, lengths, known names. Types are given by
Python's annotations: numbers, text, `Literal`, unions, lists, tuples, dictionaries, data classes, named tuples, typed
dictionaries, and `Annotated` with `Bounds` for a number with bounds. Floats must be finite. Nothing here imports torch.
"""

import dataclasses
import errno
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from magnet.errors import StorageError, UserError

DRAFT = ".part"  # how the names of drafts end
DIGEST = "sha256"  # of a record or of named tensors, beside what it was computed from
MOST_TEXT = 2**28  # bytes of a text file that is read whole
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}  # errors of file systems without locks
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SHUT = {errno.EROFS, errno.EACCES, errno.EPERM}


def as_path(path: Any) -> Path:
    """A path that is given as text or as a path; raises where it is neither."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise TypeError(f"a file or folder must be given as text or as a path; found {path!r:.60}")
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty draft beside ``path``, which replaces ``path`` when the block ends without an error.

    A reader of ``path`` always finds the old file or the new one, never half of one, also after a crash. If the block
    raises, the draft is removed and ``path`` is unchanged; errors of a full or read-only disk become a `StorageError`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with replacing(path) as draft:
    ...     _ = draft.write_text("whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(path)
    draft = _beside(path)
    with storing(path):
        file = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        try:
            mode = os.fstat(file).st_mode & 0o777
            os.close(file)
            yield draft
            _allow(draft, mode)  # safetensors, for one, makes files that only their owner can read
            whole = path.parent.name.endswith(DRAFT)  # inside the draft of a folder, which is flushed as a whole
            if not whole:
                _to_disk(draft)
            draft.replace(path)
            if not whole:
                _to_disk(path.parent)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `replacing`, for a folder: yields an empty folder, which replaces the old one when the block has ended."""
    path = Path(path)
    draft, old = _beside(path), _beside(path)
    with storing(path):
        draft.mkdir()
        try:
            mode = draft.stat().st_mode & 0o666
            yield draft
            for file in draft.rglob("*"):
                if file.is_file():
                    _allow(file, mode)
                _to_disk(file)
            _to_disk(draft)
            if path.exists():
                path.rename(old)
            draft.rename(path)
            _to_disk(path.parent)
        finally:
            if old.exists() and not path.exists():  # the last rename failed
                old.rename(path)
            for folder in (draft, old):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """As `replacing`, for a file that the user named: its folder is made, and errors become a `UserError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            yield draft
    except StorageError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error}") from error


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk into a `StorageError`, which says what to do."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError) or error.errno not in FULL | SHUT:
            raise
        if error.errno in SHUT:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}): give it a place that you may write to"
            ) from error
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): {_free(path)} free there. Make room and try again; what "
            "was there before is as it was"
        ) from error


def inside(folder: Path, name: str) -> Path:
    """The folder ``name`` in ``folder``, made if it does not exist; a symbolic link out of ``folder`` is refused."""
    place = folder / name
    if place.is_symlink() and not place.resolve().is_relative_to(folder.resolve()):
        raise StorageError(f"{place} is a link that leads out of {folder}: nothing is written there")
    with storing(place):
        place.mkdir(parents=True, exist_ok=True)
    return place


def discard(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that an interrupted removal does not leave a folder that looks whole."""
    trash = _beside(folder)
    folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes left in a folder. No process may be writing there."""
    for draft in folder.glob(f".*{DRAFT}"):
        shutil.rmtree(draft) if draft.is_dir() and not draft.is_symlink() else draft.unlink()


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse pipes, devices, sockets and folders: reading them may never end, or act on something."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{path} is a symbolic link that leads in a circle") from error
        raise
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
        raise UserError(f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """An ordinary file, open for reading."""
    check_regular(path)
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        yield file


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn every error of a reader into a `UserError` that names the file.

    Decoders of other packages raise many kinds of errors for damaged or malicious files.
    """
    try:
        yield
    except (UserError, BrokenPipeError):
        raise
    except MemoryError as error:
        raise UserError(f"{path}: does not fit into memory.") from error
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: cannot be read as {what} ({reason}).") from error


def memory() -> int:
    """The memory of this machine in bytes; a terabyte if that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**40


def read_text(path: str | os.PathLike[str], most: int = MOST_TEXT) -> str:
    """The content of a UTF-8 text file of at most ``most`` bytes."""
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path} is larger than {most:,} bytes: too large to be what was expected there")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} cannot be read ({error}): the file is broken or cut short") from error


def read_json(path: str | os.PathLike[str], kind: Any = Any) -> Any:
    """The content of a JSON file, checked to be of type ``kind`` (`magnet.files.checked`).

    Raises a `UserError`, which is a `ValueError`, if the file is broken, cut short, or of another type.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "best.json"
    >>> _ = path.write_text('{"step": 12}')
    >>> read_json(path, dict[str, int])
    {'step': 12}
    """
    try:
        value = json.loads(read_text(path))
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}): the file is broken or cut short") from error
    return checked(value, kind, str(path))


def write_record(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Write plain values as JSON with their digest, whole or not at all."""
    with replacing(path) as draft:
        text = json.dumps({**values, DIGEST: record_digest(values)}, indent=1)
        draft.write_text(text, encoding="utf-8")


def read_record(path: str | os.PathLike[str], kind: Any) -> Any:
    """Read what `write_record` wrote, as a value of type ``kind``; raises a `UserError` if any character has changed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "values.json"
    >>> write_record(path, {"a": 0.1})
    >>> read_record(path, dict[str, float])
    {'a': 0.1}
    """
    values = read_json(path, dict[str, Any])
    if values.pop(DIGEST, None) != record_digest(values):
        raise UserError(f"{path} is damaged: its content does not have the checksum that was written with it")
    return checked(values, kind, str(path))


def record_digest(values: Mapping[str, Any]) -> str:
    """The SHA-256 of plain values, independent of the order of their names."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@contextmanager
def lock(path: str | os.PathLike[str], busy: Callable[[], None]) -> Iterator[None]:
    """Hold a lock on the file ``path``, which is made if it does not exist, and stays.

    The system frees the lock when the process that holds it ends for any reason; a worker that outlives its killed
    parent does not keep it. On a file system without locks, the block runs without one.

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
        with storing(Path(path)):
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


def check_file(path: Path, *, force: bool, kinds: tuple[str, ...] = ()) -> None:
    """Refuse to write a file whose name does not end in one of ``kinds`` (none: any will do), or over an existing one
    without ``force``.
    """
    if kinds and path.suffix.lower() not in kinds:
        raise UserError(f"{path} must end in {' or '.join(kinds)}")
    if path.is_dir() or (path.exists() and not force):
        raise UserError(f"{path} exists already: choose another place, or --force to replace it")


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, which are read in pieces."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _beside(path: Path) -> Path:
    """A new hidden name in the same folder, so that renaming stays within one file system."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")


def _allow(path: Path, mode: int) -> None:
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)


def _to_disk(path: Path) -> None:
    """Flush the content of a file, or the names in a folder, to the disk."""
    if path.is_dir() and os.name == "nt":  # where folders cannot be opened
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.EACCES):  # file systems without fsync
            raise
    finally:
        os.close(file)


def _free(path: Path) -> str:
    place = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
    return f"{shutil.disk_usage(place).free / 2**20:,.1f} MB"


@dataclass(frozen=True)
class Bounds:
    """The numbers from ``least`` to ``most``; ``above`` leaves the least one out, ``below`` the greatest.

    ``also`` is one more allowed number; ``why`` explains the bounds in messages.

    >>> Bounds(0, 1, below=True).describe()
    'at least 0 and below 1'
    """

    least: float = -math.inf
    most: float = math.inf
    why: str = ""
    above: bool = False
    below: bool = False
    also: float = math.nan

    def __contains__(self, value: float) -> bool:
        if value == self.also:
            return True
        low = value > self.least if self.above else value >= self.least
        return bool(low and (value < self.most if self.below else value <= self.most))

    def describe(self) -> str:
        """The range in words."""
        words = ["positive" if self.above and not self.least else f"at least {self.least:g}"] * (self.least > -math.inf)
        words += [f"{'below' if self.below else 'at most'} {self.most:g}"] * (self.most < math.inf)
        more = f", or {self.also:g}" if self.also == self.also else ""
        return " and ".join(words) + more + (f" ({self.why})" if self.why else "")


COUNT = Bounds(0, 2**53)  # whole numbers that JSON keeps exactly
POSITIVE = Bounds(0, 1e300, above=True)
Count = Annotated[int, COUNT]
Positive = Annotated[float, POSITIVE]


def checked(value: Any, kind: Any, where: str) -> Any:
    """The value, converted to type ``kind``: dictionaries become data classes and named tuples, text becomes paths.

    Args:
        value: what was read.
        kind: the type that it should have; Any allows everything.
        where: the name of the value in the message of the `UserError` that is raised if it does not fit.

    >>> checked({"a": 1}, dict[str, float], "weights")
    {'a': 1.0}
    >>> checked("1", int, "epochs")
    Traceback (most recent call last):
    ...
    magnet.errors.UserError: epochs is '1', expected a whole number
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = checked(value, arguments[0], where)
        for bounds in arguments[1:]:
            if isinstance(bounds, Bounds) and found is not None and found not in bounds:
                raise UserError(f"{where} is {_short(value)}, expected {bounds.describe()}")
        return found
    if origin in (Union, types.UnionType):
        return _one_of(value, arguments, where)
    if origin is Literal:
        if any(value == known and type(value) is type(known) for known in arguments):
            return value
        raise _unfit(value, f"one of {', '.join(map(repr, arguments))}", where)
    if origin in (list, tuple, dict):
        return _container(value, origin, arguments, where)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields") or is_typeddict(kind)):
        return _fields(value, kind, where)
    return _plain(value, kind, where)


def _plain(value: Any, kind: Any, where: str) -> Any:
    if kind is Any:
        return value
    if kind is None or kind is type(None):
        if value is None:
            return None
        raise _unfit(value, "nothing", where)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(value):
                return float(value)
        except OverflowError:
            pass
        raise _unfit(value, "a finite number", where)
    if kind is Path and isinstance(value, str) and "\0" not in value:
        return Path(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}
    raise _unfit(value, names.get(kind, getattr(kind, "__name__", str(kind))), where)


def _one_of(value: Any, kinds: tuple[Any, ...], where: str) -> Any:
    reasons = []
    for kind in sorted(kinds, key=lambda kind: kind is float):  # whole numbers stay whole where both are allowed
        try:
            return checked(value, kind, where)
        except UserError as error:
            if kind is not type(None):
                reasons.append(str(error))
    raise UserError(reasons[0])


def _container(value: Any, origin: Any, arguments: tuple[Any, ...], where: str) -> Any:
    if origin is dict:
        if not isinstance(value, Mapping) or not all(isinstance(key, arguments[0]) for key in value):
            raise _unfit(value, "named values", where)
        return {key: checked(entry, arguments[1], f"{where}[{_short(key)}]") for key, entry in value.items()}
    if not isinstance(value, list | tuple):
        raise _unfit(value, "a list", where)
    if origin is tuple and arguments[-1] is not ...:
        if len(value) != len(arguments):
            raise _unfit(value, f"a list of {len(arguments)}", where)
        kinds = zip(value, arguments, strict=True)
        return tuple(checked(entry, kind, f"{where}[{i}]") for i, (entry, kind) in enumerate(kinds))
    return origin(checked(entry, arguments[0], f"{where}[{i}]") for i, entry in enumerate(value))


def _fields(value: Any, kind: Any, where: str) -> Any:
    """A data class, named tuple or typed dictionary, without unknown names and with all required ones."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _unfit(value, "named values", where)
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        missing = (dataclasses.MISSING, dataclasses.MISSING)
        needed = {f.name for f in dataclasses.fields(kind) if (f.default, f.default_factory) == missing}
        known = {f.name for f in dataclasses.fields(kind)}
    elif is_typeddict(kind):
        needed, known = set(kind.__required_keys__), set(hints)
    else:
        needed, known = set(kind._fields) - set(kind._field_defaults), set(kind._fields)
    unknown, absent = sorted(set(value) - known), sorted(needed - set(value))
    if unknown:
        raise UserError(f"{where} has {_short(unknown[0])}, which is not known here")
    if absent:
        raise UserError(f"{where} has no {absent[0]!r}")
    found = {name: checked(entry, hints[name], f"{where}: {name}") for name, entry in value.items()}
    return found if is_typeddict(kind) else kind(**found)


def _unfit(value: Any, expected: str, where: str) -> UserError:
    return UserError(f"{where} is {_short(value)}, expected {expected}")


def _short(value: Any) -> str:
    """A value as a message shows it: in one line, not longer than forty characters."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."
