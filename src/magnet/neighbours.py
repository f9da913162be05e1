"""Squared distances, and exact nearest rows in bounded memory: blocks of distances, merged by a running top-k.

Here too: the checks of representations and ids that the core functions are given. Each error names what was found and
what was expected.
"""

import operator
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from magnet.errors import RangeError

CHUNK_ELEMENTS = 2**22  # distances held at a time: 16 MB of float32, which caches hold and larger blocks leave
WIDTH = 2**14  # references in a block, at least: the wider, the less is left to merge
# Below so many units in the last place of |q|^2 (0.2 % in float32), |q|^2 + |r|^2 - 2 q.r has lost digits that matter.
BLURRED = 2**14
# The largest entry of representations lies between these, so that neither squares and their sums nor the variance of
# clusters 10,000 times narrower overflow or vanish. All computations are in one of these two types.
SIZES = {torch.float32: (1e-12, 1e15), torch.float64: (1e-100, 1e120)}
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LARGEST = 1e12  # of a factor: products with distances stay within single precision


def squared_distances(a: Tensor, b: Tensor | None = None) -> Tensor:
    """|a_i - b_j|^2: (n, m) from (n, d) and (m, d), or between the rows of a; double where the device has it.

    In single precision |a|^2 + |b|^2 - 2 a.b has no digit left where a and b are a thousand times nearer to each other
    than to the origin.

    >>> squared_distances(torch.tensor([[0.0], [1.0]]), torch.tensor([[4.0], [5.0]]))
    tensor([[16., 25.],
            [ 9., 16.]], dtype=torch.float64)
    """
    wide = torch.float64 if a.device.type != "mps" else torch.float32
    a = a.to(wide)
    if b is None:
        products = a @ a.T
        norms = products.diagonal()
        return torch.sub(norms.unsqueeze(1) + norms, products, alpha=2)
    b = b.to(wide)
    return torch.sub(a.square().sum(dim=1).unsqueeze(1) + b.square().sum(dim=1), a @ b.T, alpha=2)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision as float32; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def nearest(
    queries: Tensor, references: Tensor, count: int, report: Callable[[int, int], None] | None = None
) -> tuple[Tensor, Tensor]:
    """The ``count`` nearest references of each query, nearest first.

    Args:
        queries: (n, d).
        references: (m, d), on any device; blocks of it are moved to the device of the queries.
        count: neighbours wanted; at most m are given.
        report: told how many queries are done, of how many.

    Returns:
        Squared distances (n, k) and ids into the references (n, k), with k = min(count, m).

    Examples:
        >>> nearest(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [4.0]]), 2)
        (tensor([[0.0100, 0.8100]]), tensor([[1, 0]]))
    """
    parts, done = [], 0
    for chunk in split_rows(queries, len(references)):
        parts.append(nearest_of_chunk(chunk, references, count))
        done += len(chunk)
        if report is not None:
            report(done, len(queries))
    return torch.cat([d for d, _ in parts]), torch.cat([i for _, i in parts])


def split_rows(queries: Tensor, references: int) -> Iterator[Tensor]:
    """Queries in chunks: enough of them to be worth a walk through the references, few enough for the memory."""
    yield from queries.split(max(1, min(4096, 16 * CHUNK_ELEMENTS // min(max(references, 1), WIDTH))))


def nearest_of_chunk(
    queries: Tensor,
    references: Tensor,
    count: int,
    labels: Tensor | None = None,
    reference_labels: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """As `nearest`, for a chunk; with labels, references of the query's own label are at infinity."""
    queries = at_least_float32(queries)
    with torch.no_grad():
        distances, ids = _search(queries, references, min(count, len(references)), labels, reference_labels)
    if torch.is_grad_enabled() and (queries.requires_grad or references.requires_grad):
        exact = (queries[:, None] - references[ids.to(references.device)].to(queries)).square().sum(dim=2)
        distances = torch.where(distances.isinf(), distances, exact)
    return distances, ids


def _search(
    queries: Tensor, references: Tensor, count: int, labels: Tensor | None, reference_labels: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`nearest_of_chunk` by products; where products lose digits, again in double precision or by differences."""
    width = min(CHUNK_ELEMENTS, max(WIDTH, 64 * count, CHUNK_ELEMENTS // max(len(queries), 1)))
    rows = max(1, CHUNK_ELEMENTS // min(width, max(len(references), 1)))
    # Distances are taken from the mean of the queries: the expanded squares lose digits far from the origin.
    origin = queries.mean(dim=0)
    centred = queries - origin
    # |q - r|^2 - |q|^2 is one product of (-2 q, 1) and (r, |r|^2).
    parts = torch.cat([-2 * centred, centred.new_ones(len(centred), 1)], dim=1).split(rows)
    # Every block is written to the same memory: fresh pages cost more than the product.
    space = centred.new_empty(min(rows, len(queries)) * min(width, len(references)))
    best: list[tuple[Tensor, Tensor] | None] = [None] * len(parts)
    for start in range(0, len(references), width):
        r = references[start : start + width].to(centred) - origin
        r = torch.cat([r, r.square().sum(dim=1, keepdim=True)], dim=1)
        for i, q in enumerate(parts):
            with torch.autocast(q.device.type, enabled=False):
                distances = torch.mm(q, r.T, out=space[: len(q) * len(r)].view(len(q), len(r)))
            if labels is not None and reference_labels is not None:
                own = equal_pairs(labels[i * rows : (i + 1) * rows], reference_labels[start : start + width])
                distances[own] = torch.inf
            values, ids = smallest(distances, min(count, len(r)))
            best[i] = _merged(best[i], (values, ids + start), count)
    values = torch.cat([part[0] for part in best if part is not None])
    ids = torch.cat([part[1] for part in best if part is not None])
    norms = centred.square().sum(dim=1, keepdim=True)
    values = (values + norms).clamp_min_(0)
    blurred = values < BLURRED * torch.finfo(values.dtype).eps * norms
    if count and values.dtype != torch.float64 and values.device.type != "mps":
        # If even the last one is blurred, there may be nearer references that were not found.
        some = blurred[:, -1].nonzero().squeeze(1)
        if len(some):
            own_labels = None if labels is None else labels[some]
            wide, ids[some] = _search(queries[some].double(), references, count, own_labels, reference_labels)
            values[some], blurred[some] = wide.to(values.dtype), False
    if bool(blurred.any()):
        values[blurred] = _differences(queries, references, blurred.nonzero()[:, 0], ids[blurred])
        some = blurred.any(dim=1).nonzero().squeeze(1)
        values[some], order = values[some].sort(dim=1, stable=True)
        ids[some] = ids[some].gather(1, order)
    return values, ids


def _differences(queries: Tensor, references: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """The squared distances (p,) of p pairs of a query and a reference, given by their ids."""
    pairs = torch.stack([q, r]).split(max(1, CHUNK_ELEMENTS // queries.shape[1]), dim=1)
    return torch.cat(
        [(queries[q] - references[r.to(references.device)].to(queries)).square_().sum(dim=1) for q, r in pairs]
    )


def smallest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` smallest of each row (n, m), in rising order, and where they stand: (n, count) twice.

    The columns are dealt to groups. An element among the smallest is in one of the ``count`` groups with the smallest
    minima, and minima are cheap: only the elements of those groups are sorted.
    """
    size = int((x.shape[1] / max(count, 1)) ** 0.5 / 2)  # of a group
    if size < 2:
        found = x.topk(count, dim=1, largest=False)
        return found.values, found.indices
    groups = x.shape[1] // size
    minima = x[:, : groups * size].unflatten(1, (size, groups)).amin(dim=1)
    chosen = minima.topk(count, dim=1, largest=False, sorted=False).indices
    places = chosen[:, None] + torch.arange(size, device=x.device)[:, None] * groups  # (n, size, count)
    rest = torch.arange(groups * size, x.shape[1], device=x.device).expand(len(x), -1)
    places = torch.cat([places.flatten(1), rest], dim=1)
    values, at = x.gather(1, places).topk(count, dim=1, largest=False)
    return values, places.gather(1, at)


def equal_pairs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Where ``a[i] == b[j]``: all i (p,) and j (p,), in time that grows with n log m + p instead of n m."""
    ordered, order = b.sort(stable=True)
    first = torch.searchsorted(ordered, a)
    counts = torch.searchsorted(ordered, a, right=True) - first
    ends = counts.cumsum(0)
    i = torch.arange(len(a), device=a.device).repeat_interleave(counts)
    j = torch.arange(len(i), device=a.device) - (ends - counts - first).repeat_interleave(counts)
    return i, order[j]


def _merged(best: tuple[Tensor, Tensor] | None, more: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
    """The smallest of two lists of (values, ids), nearest first."""
    if best is None:
        return more
    values, ids = torch.cat([best[0], more[0]], dim=1), torch.cat([best[1], more[1]], dim=1)
    values, keep = values.topk(min(count, values.shape[1]), dim=1, largest=False)
    return values, ids.gather(1, keep)


def check_representations(
    representations: Tensor, what: str = "representations", *, finite: bool = True, whole: bool = False
) -> None:
    """Raise unless ``representations`` is a floating (n, d) tensor with n, d >= 1.

    Args:
        representations: what was given.
        what: their name in the message.
        finite: look at the entries too: all must be finite, and not so large that their squares overflow.
        whole: these are all the points of a space, not some among others: then they must not all be so small that
            their squares vanish, either. Zeros are fine: they are one point.
    """
    if not isinstance(representations, Tensor):
        raise TypeError(f"{what} must be a torch.Tensor of shape (n, d); found {type(representations).__name__}")
    _check_held(representations, what)
    if representations.ndim != 2 or 0 in representations.shape:
        raise ValueError(f"{what} must have shape (n, d) with n, d >= 1; found {tuple(representations.shape)}")
    if representations.dtype not in FLOATS:
        raise TypeError(f"{what} must be floating point; found {representations.dtype}: convert with .float()")
    if finite:
        _check_entries(representations, what, whole)


def check_ids(ids: Tensor, length: int | None, what: str, per: str = "representations") -> Tensor:
    """Integers (n,) (labels, clusters, neighbourhoods), one for each of ``length`` things; raises where they are not.

    Those of less than four bytes come back as int64: torch takes an index of uint8 for a mask.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{what} must be a torch.Tensor of integers; found {type(ids).__name__}")
    _check_held(ids, what)
    if ids.dtype not in WHOLE:
        raise TypeError(f"{what} must be integers; found {ids.dtype}: map your labels to ids 0..C-1 first")
    if ids.ndim != 1 or len(ids) != (len(ids) if length is None else length):
        size = "n" if length is None else length
        raise ValueError(f"{what} must have shape ({size},), one for each of the {per}; found {tuple(ids.shape)}")
    return ids if ids.dtype in WHOLE[3:] else ids.long()


def _check_held(tensor: Tensor, what: str) -> None:
    """Raise unless the tensor has its numbers, each in a place of its own shape."""
    if tensor.is_nested or tensor.layout != torch.strided:
        kind = "a nested tensor" if tensor.is_nested else str(tensor.layout)
        raise TypeError(f"{what} must be dense; found {kind}: convert with .to_dense()")
    if tensor.device.type == "meta":
        raise ValueError(f"{what} must hold numbers; found a tensor on the meta device, which has none")


def as_array(values: Any, what: str) -> Any:
    """A tensor as an array, without its gradient; anything else as it is. Raises where the tensor holds no numbers."""
    if not isinstance(values, Tensor):
        return values
    _check_held(values, what)
    values = values.detach().cpu()
    if values.dtype in FLOATS + WHOLE or values.dtype == torch.bool:
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    raise TypeError(f"{what} must be numbers; found a tensor of {values.dtype}")


def check_variance(variance: Tensor | float | None) -> None:
    """Raise unless ``variance`` is None or one positive number."""
    if variance is None:
        return
    if isinstance(variance, Tensor):
        _check_held(variance, "variance")
        if variance.numel() != 1:
            raise ValueError(f"variance must be one number; found a tensor of shape {tuple(variance.shape)}")
        if variance.dtype not in FLOATS + WHOLE:
            raise TypeError(f"variance must be a number; found {variance.dtype}")
    if reads_are_free(variance):
        check_positive(variance, "variance", 1e300)


def check_positive(value: Tensor | float, what: str, most: float = LARGEST) -> None:
    """Raise unless ``value`` is one number > 0, and not above ``most``."""
    found = check_number(value, what)
    if not found > 0:
        raise ValueError(f"{what} must be positive; found {value}")
    if found > most:
        raise ValueError(f"{what} must be positive and at most {most:g}; found {value}")


def check_number(value: Any, what: str, least: float = -torch.inf, most: float = torch.inf) -> float:
    """One real number from ``least`` to ``most`` as a float; raises where it is none. Without bounds it may be NaN."""
    if isinstance(value, Tensor) and value.numel() == 1 and value.device.type != "meta" and not value.is_complex():
        value = value.item()
    if not isinstance(value, (float, int, Real)):
        raise TypeError(f"{what} must be a number; found {_shown(value)}")
    try:
        found = float(value)
    except OverflowError:  # a whole number of more than 300 digits
        found = -torch.inf if operator.lt(value, 0) else torch.inf
    if (least > -torch.inf or most < torch.inf) and not least <= found <= most:
        bounds = f">= {least:g}" if most == torch.inf else f"between {least:g} and {most:g}"
        raise ValueError(f"{what} must be {bounds}; found {_shown(value)}")
    return found


def check_whole(value: Any, what: str, least: int, most: int = 2**62) -> int:
    """One whole number from ``least`` to ``most``; raises where it is none.

    >>> check_whole(2.5, "clusters_per_batch", 2)
    Traceback (most recent call last):
    TypeError: clusters_per_batch must be a whole number; found 2.5
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be a whole number; found {_shown(value)}") from None
    if found < least:
        raise ValueError(f"{what} must be >= {least}; found {_shown(found)}")
    if found > most:
        raise ValueError(f"{what} must be <= {most}; found {_shown(found)}")
    return found


def _shown(value: Any) -> str:
    """A value as a message shows it: numbers and text as they are, in one short line, all else by its type."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {value.dtype}"
    if not isinstance(value, str | int | float | complex | None):
        return type(value).__name__
    try:
        text = repr(value)
    except ValueError:  # Python prints no whole number of more than 4,300 digits
        return "a very large number"
    return text if len(text) <= 40 else text[:37] + "..."


def reads_are_free(value: Tensor | float) -> bool:
    """Whether looking at the value costs neither a device synchronisation nor a break in a compiled graph."""
    return not torch.compiler.is_compiling() and (not isinstance(value, Tensor) or value.device.type == "cpu")


def _check_entries(values: Tensor, what: str, whole: bool) -> None:
    if torch.compiler.is_compiling():
        return
    size = max(abs(float(end)) for end in values.detach().aminmax())  # one pass, no temporary of n x d
    smallest, largest = SIZES[torch.float64 if values.dtype == torch.float64 else torch.float32]
    if size <= largest and not (whole and 0 < size < smallest):
        return
    bad = int((~torch.isfinite(values)).any(dim=1).sum())
    if bad:
        raise RangeError(
            f"{what} must be finite; found NaN or infinity in {bad} of {len(values)} rows: "
            "look for a learning rate that is too high, or for missing values in the data"
        )
    wide = "" if largest > 1e100 else ", or give float64"
    if size > largest:
        raise RangeError(
            f"{what} must not exceed {largest:g}, or squared distances overflow; found {size:.3g}: "
            f"look for a learning rate that is too high, divide them by a constant{wide}"
        )
    raise RangeError(
        f"{what} must not all be below {smallest:g}, or squared distances vanish; found {size:.3g} at most: "
        f"look for inputs that are all the same, multiply them by a constant{wide}"
    )
