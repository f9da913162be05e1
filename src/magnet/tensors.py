"""Named tensors on disk: safetensors files with a digest, checked against a layout when they are read.

A layout states what a file must hold: for each name the type of the numbers and the shape, such as ``"float J d"``. The
same letter stands for the same size in all tensors of a file. Floats must be finite. Nothing that is read is executed.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from magnet.errors import StorageError, UserError
from magnet.files import DIGEST, check_regular, replacing

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
KINDS = {"float": FLOATS, "int": WHOLE, "bool": (torch.bool,), "byte": (torch.uint8,)}
OPTIONAL = "?"  # before the kind: the tensor may be absent

Layout = Mapping[str, str | Tensor]  # a tensor stands for its own type and shape


class Stored(NamedTuple):
    """The content of a file."""

    tensors: dict[str, Tensor]
    about: dict[str, str]  # the text beside them
    digest: str


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None
) -> str:
    """Write tensors, with text about them, whole or not at all; returns the digest that is written with them.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/points.safetensors"
    >>> _ = write_tensors(path, {"points": torch.zeros(3, 2)})
    >>> read_tensors(path, {"points": "float n 2"}).tensors["points"].shape
    torch.Size([3, 2])
    """
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    digest = tensors_digest(ready, about or {})
    with replacing(path) as draft:
        try:
            save_file(_apart(ready), draft, {**(about or {}), DIGEST: digest})
        except SafetensorError as error:  # raised if the disk is full
            raise StorageError(f"{path} cannot be written ({error}): make room and try again") from error
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
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            about = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} cannot be read as {what} ({reason}): it is broken or cut short") from error
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

    >>> check_layout({"x": torch.zeros(3, 2), "y": torch.zeros(3)}, {"x": "float n d", "y": "float n"}, "points")
    {'n': 3, 'd': 2}
    """
    found = dict(sizes or {})
    needed = {name for name, wanted in layout.items() if isinstance(wanted, Tensor) or not wanted.startswith(OPTIONAL)}
    absent, unknown = sorted(needed - tensors.keys()), sorted(tensors.keys() - layout.keys())
    if absent or unknown:
        missing = f"lacks {absent[0]!r}" if absent else f"has {unknown[0]!r}, which is not known here"
        raise UserError(f"{where} {missing}: expected {', '.join(list(layout)[:6])}{', ...' * (len(layout) > 6)}")
    for name, tensor in tensors.items():
        wanted = layout[name]
        if not isinstance(tensor, Tensor):
            raise UserError(f"{where}: {name} is {type(tensor).__name__}, expected a tensor")
        if isinstance(wanted, Tensor):
            fits = tensor.dtype == wanted.dtype and tensor.shape == wanted.shape
            expected = f"{_name(wanted.dtype)} {tuple(wanted.shape)}"
        else:
            fits = _fits(tensor, wanted.removeprefix(OPTIONAL), found)
            expected = f"{wanted.removeprefix(OPTIONAL)}" + (f" with {found}" if found else "")
        if not fits:
            raise UserError(
                f"{where}: {name} is {_name(tensor.dtype)} of shape {tuple(tensor.shape)}, expected {expected}"
            )
        if tensor.is_floating_point() and not is_finite(tensor):
            raise UserError(f"{where}: {name} holds NaN or infinity")
    return found


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; in one pass, without a temporary of the same size."""
    return not tensor.numel() or all(bool(end.isfinite()) for end in tensor.detach().aminmax())


def tensors_digest(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    """The SHA-256 of named tensors and of the text about them, in the order of their names."""
    found = hashlib.sha256()
    for name, text in sorted(about.items()):
        found.update(f"{name}\0{text}\0".encode(errors="surrogatepass"))
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name}\0{tensor.dtype} {tuple(tensor.shape)}\0".encode(errors="surrogatepass"))
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _fits(tensor: Tensor, wanted: str, sizes: dict[str, int]) -> bool:
    kind, *shape = wanted.split()
    if tensor.dtype not in KINDS[kind] or tensor.ndim != len(shape):
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


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
