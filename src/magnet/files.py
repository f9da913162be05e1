"""Files: written whole or not at all, checked when they are read, locked, and hashed.

Everything that this package stores is written and read through these functions. A write goes to a draft with an
unpredictable name beside the file, is flushed to the disk, and then replaces the file; a symbolic link is replaced and
never followed. Only regular files of bounded size are read. A record is a JSON object with the SHA-256 of its own
content.

Named tensors are in safetensors files with a digest. A layout states what a file must hold: for each name the type of
the numbers and the shape, such as ``"float J d"``. The same letter stands for the same size in all tensors of a file.
Floats must be finite. Nothing that is read is executed. torch is imported where tensors are read or written alone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from magnet.errors import StorageError, UserError, checked, first_few, one_line

if TYPE_CHECKING:
    from torch import Tensor

DRAFT = ".part"  # how the names of drafts end
DIGEST = "sha256"  # of a record or of named tensors, beside what it was computed from
MOST_TEXT = 2**28  # bytes of a text file that is read whole
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}  # errors of file systems without locks
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SHUT = {errno.EROFS, errno.EACCES, errno.EPERM}
FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
KINDS = {"float": FLOATS, "int": WHOLE, "bool": ("bool",), "byte": ("uint8",)}  # of the numbers in a layout
OPTIONAL = "?"  # before the kind: the tensor may be absent

Layout = Mapping[str, "str | Tensor"]  # a tensor stands for its own type and shape


def as_path(path: Any) -> Path:
    """A path that is given as text or as a path; raises where it is neither."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise TypeError(f"a file or folder must be given as text or as a path; found {path!r:.60}")
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str], needed: int = 0) -> Iterator[Path]:
    """Yield the path of an empty draft beside ``path``, which replaces ``path`` when the block ends without an error.

    A reader of ``path`` always finds the old file or the new one, never half of one, also after a crash. If the block
    raises, the draft is removed and ``path`` is unchanged; errors of a full or read-only disk become a `StorageError`,
    which says how many bytes are ``needed``, if that is given.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with replacing(path) as draft:
    ...     _ = draft.write_text("whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(path)
    draft = _beside(path)
    with storing(path, needed):
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
        except StorageError as error:  # of a file in the draft
            raise StorageError(str(error).replace(str(draft), str(path))) from error
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
def storing(path: Path, needed: int = 0) -> Iterator[None]:
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
            f"{path} cannot be written ({error.strerror}): {_room(path, needed)}. Make room and try again; what was "
            "there before is as it was"
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
        raise UserError(f"{path}: cannot be read as {what} ({one_line(error)}).") from error


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
    text = json.dumps({**values, DIGEST: record_digest(values)}, indent=1)
    with replacing(path, len(text)) as draft:
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

    if os.path.islink(path):
        raise StorageError(f"{path} is a symbolic link, which a lock never is: remove it")

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
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file")
    if path.exists() and not force:
        raise UserError(f"{path} exists already: choose another place, or --force to replace it")


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, which are read in pieces."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


class Stored(NamedTuple):
    """The content of a file."""

    tensors: dict[str, Tensor]
    about: dict[str, str]  # the text beside them
    digest: str


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None
) -> str:
    """Write tensors, with text about them, whole or not at all; returns the digest that is written with them.

    >>> import tempfile, torch
    >>> path = tempfile.mkdtemp() + "/points.safetensors"
    >>> _ = write_tensors(path, {"points": torch.zeros(3, 2)})
    >>> read_tensors(path, {"points": "float n 2"}).tensors["points"].shape
    torch.Size([3, 2])
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    digest = tensors_digest(ready, about or {})
    needed = sum(tensor.nbytes for tensor in ready.values())
    with replacing(path, needed) as draft:
        try:
            save_file(_apart(ready), draft, {**(about or {}), DIGEST: digest})
        except SafetensorError as error:  # raised if the disk is full
            reason = str(error).removeprefix("Error while serializing: ")
            raise StorageError(
                f"{path} cannot be written ({reason}): {_room(Path(path), needed)}. Make room and try again; what was "
                "there before is as it was"
            ) from error
    return digest


def read_tensors(
    path: str | os.PathLike[str],
    layout: Layout | None,
    *,
    form: str = "",
    what: str = "tensors",
    sealed: bool = True,
) -> Stored:
    """Read what `write_tensors` wrote; raises a `UserError` if a bit has changed or the layout does not fit.

    Args:
        path: the file.
        layout: what it must hold; None: any tensors, which the caller checks.
        form: the value that ``format`` must have in the text of the file; "": any.
        what: what the file should hold, for messages.
        sealed: False: the file was written by other software, and needs no digest.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with opened(path) as open_file, safe_open(_in_utf8(path, open_file), framework="pt") as file:
            about = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise UserError(f"{path} cannot be read as {what} ({one_line(error)}): it is broken or cut short") from error
    digest = about.pop(DIGEST, "")
    if form and about.get("format") != form:
        raise UserError(f"{path} is not {what}: its format is {about.get('format')!r}, not {form!r}")
    if layout is not None:
        check_layout(tensors, layout, str(path))
    if sealed and digest != tensors_digest(tensors, about):
        raise UserError(f"{path} is damaged: its content does not have the checksum that was written with it")
    return Stored(tensors, about, digest)


def check_layout(
    tensors: Mapping[str, Any], layout: Layout, where: str, sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Raise a `UserError` unless the tensors are those of a layout; returns the sizes that it names.

    >>> import torch
    >>> check_layout({"x": torch.zeros(3, 2), "y": torch.zeros(3)}, {"x": "float n d", "y": "float n"}, "points")
    {'n': 3, 'd': 2}
    """
    from torch import Tensor

    found = dict(sizes or {})
    needed = {name for name, wanted in layout.items() if not isinstance(wanted, str) or not wanted.startswith(OPTIONAL)}
    absent, unknown = sorted(needed - tensors.keys()), sorted(tensors.keys() - layout.keys())
    if absent or unknown:
        missing = f"lacks {absent[0]!r}" if absent else f"has {unknown[0]!r}, which is not known here"
        raise UserError(f"{where} {missing}: expected {first_few(list(layout), 6)}")
    for name, tensor in tensors.items():
        wanted = layout[name]
        if not isinstance(tensor, Tensor):
            raise UserError(f"{where}: {name} is {type(tensor).__name__}, expected a tensor")
        if not isinstance(wanted, str):
            fits = tensor.dtype == wanted.dtype and tensor.shape == wanted.shape
            expected = f"{_name(wanted)} {tuple(wanted.shape)}"
        else:
            fits = _fits(tensor, wanted.removeprefix(OPTIONAL), found)
            expected = f"{wanted.removeprefix(OPTIONAL)}" + (f" with {found}" if found else "")
        if not fits:
            raise UserError(f"{where}: {name} is {_name(tensor)} of shape {tuple(tensor.shape)}, expected {expected}")
        if tensor.is_floating_point() and not is_finite(tensor):
            raise UserError(f"{where}: {name} holds NaN or infinity")
    return found


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; in one pass, without a temporary of the same size."""
    return not tensor.numel() or all(bool(end.isfinite()) for end in tensor.detach().aminmax())


def tensors_digest(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    """The SHA-256 of named tensors and of the text about them, in the order of their names."""
    import torch

    found = hashlib.sha256()
    for name, text in sorted(about.items()):
        found.update(f"{name}\0{text}\0".encode(errors="surrogatepass"))
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name}\0{tensor.dtype} {tuple(tensor.shape)}\0".encode(errors="surrogatepass"))
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _in_utf8(path: str | os.PathLike[str], file: BinaryIO) -> str | os.PathLike[str]:
    """The path of an open file; of one whose name is not UTF-8, which safetensors does not take, another one."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return f"/dev/fd/{file.fileno()}"
    return path


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


def _room(path: Path, needed: int) -> str:
    """The space on the disk of a path in words, and what is needed, if that is known."""
    place = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
    free = f"{shutil.disk_usage(place).free / 2**10:,.0f} kB are free there"
    return f"{needed / 2**10:,.0f} kB are needed, and {free}" if needed else free


def _fits(tensor: Tensor, wanted: str, sizes: dict[str, int]) -> bool:
    kind, *shape = wanted.split()
    if _name(tensor) not in KINDS[kind] or tensor.ndim != len(shape):
        return False
    named = (
        int(size) if size.isdecimal() else sizes.setdefault(size, found)
        for size, found in zip(shape, tensor.shape, strict=True)
    )
    return tuple(named) == tuple(tensor.shape)


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, copied where they share memory, which safetensors refuses to write twice."""
    seen: set[int] = set()
    ready = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        ready[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return ready


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
