"""The description of a model: everything but its tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from magnet.backbones import check_backbone
from magnet.data import Augmentation
from magnet.data.images import room
from magnet.errors import Bounds, Positive, UserError, checked

Width = Annotated[int, Bounds(0, 2**16, "of a layer")]
Side = Annotated[int, Bounds(1, 2**14, "pixels")]


@dataclass(frozen=True)
class NetworkPart:
    """What the network is, for `magnet.backbones.build`."""

    backbone: str
    shape: tuple[Annotated[int, Bounds(1, 2**24)], ...]  # of one input: (d,), or (3, size, size)
    dim: Width  # 0: the backbone's own
    hidden: Width  # of an mlp; 0: its own
    normalised: bool  # whether representations are brought to length one
    power: Annotated[float, Bounds(0, 100)] = 0.0  # of the features before a whitened last layer; 0: an ordinary one
    landmarks: Annotated[int, Bounds(0, 2**20)] = 0  # of the kernel features that it takes; 0: it has none
    unit_length: bool = False  # whether what is whitened is brought to one length


@dataclass(frozen=True)
class ViewsPart:
    """How views of images are made; vectors have none."""

    size: Side  # of a view
    rescale: Annotated[float, Bounds(0, 100)]
    flip: bool
    draws: Annotated[int, Bounds(1, 10_000)]  # test views whose representations are averaged; 1: the plain view alone
    seed: Annotated[int, Bounds(0, 2**63 - 1)]  # that draws them


@dataclass(frozen=True)
class VotesPart:
    """How clusters vote."""

    variance: Positive  # sigma^2
    scaling: Positive
    neighbours: Annotated[int, Bounds(1, 2**31)]  # L
    temperature: Annotated[float, Bounds(1e-3, 1e3)]
    novelty_threshold: Annotated[float, Bounds(0)] | None  # in sigma; None: nothing is refused
    calibrated_on: str  # which examples the last two come from
    clusters_per_class: Annotated[int, Bounds(1, 2**31)]  # K, for classes to come
    weighted: bool = False  # whether clusters vote with the weight of their members


@dataclass(frozen=True)
class Description:
    """The description of a model, as it is written to ``bundle.json``."""

    method: str
    classes: tuple[str, ...]
    network: NetworkPart
    views: ViewsPart
    votes: VotesPart

    @property
    def kind(self) -> Literal["vectors", "images"]:
        """What the model takes."""
        return "vectors" if len(self.network.shape) == 1 else "images"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Description":
        """The inverse of `dataclasses.asdict`; other entries of ``values`` are ignored."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        found: Description = checked(known, cls, "the description of the model")
        # A description must not make timm download weights.
        check_backbone(found.network.backbone)
        if not all(c.isalnum() or c in "/._-" for c in found.network.backbone):
            raise UserError(f"there is no backbone {found.network.backbone[:60]!r} that a model could be made of")
        if not 1 <= len(found.network.shape) <= 3 or not found.classes:
            raise UserError(f"the description of the model has shape {found.network.shape}, classes {found.classes}")
        return found


def preprocessing(description: Description, mean: tuple[float, ...], std: tuple[float, ...]) -> dict[str, Any]:
    """How to prepare an input, in words, for users of a model who do not have this package.

    An image is prepared as its plain view: ``resize`` gives the same crop window, ``exactly`` the same pixels too. The
    second is written out as code in docs/using-a-model.md.
    """
    if description.kind == "vectors":
        return {"input": "float32 (batch, d)", "d": description.network.shape[0], "normalisation": "in the model"}
    size, stored = description.views.size, room(description.views.size, description.views.rescale)
    side = Augmentation(size, description.views.rescale).short_side
    return {
        "input": f"float32 (batch, 3, {size}, {size}), RGB, values 0..1 (bytes divided by 255)",
        "stored_side": stored,
        "short_side": side,
        "size": size,
        "resize": f"turn upright by EXIF; resize the short side to {side}, with antialiasing; cut out the centre, "
        f"{size} x {size}",
        "exactly": f"decode a JPEG at the smallest of 1, 1/2, 1/4, 1/8 of its size with sides of {2 * stored} or more; "
        f"turn upright by EXIF; resize the short side to {stored} and keep the centre square, in one step, bilinear "
        f"with antialiasing, half a pixel off where the sides differ by an odd number (Pillow: resize with a box and "
        f"reducing_gap=3); then to {side} x {side}, bicubic (a = -0.75) without antialiasing, pixel centres at half "
        f"integers; clip to 0..1; cut out the centre, {size} x {size}",
        "value_range": [0.0, 1.0],
        "normalisation": {"done": "in the model", "mean": list(mean), "std": list(std)},
    }
