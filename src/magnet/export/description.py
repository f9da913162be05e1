"""All of a model that is not a tensor."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from magnet.data import Augmentation
from magnet.data.images import room
from magnet.errors import UserError


@dataclass(frozen=True)
class NetworkPart:
    """What the network is, for `magnet.backbones.build`."""

    backbone: str
    shape: tuple[int, ...]  # of one input: (d,), or (3, size, size)
    dim: int  # 0: the backbone's own
    hidden: int  # of an mlp; 0: its own
    normalised: bool  # whether representations are brought to length one
    power: float = 0.0  # of the features before a whitened last layer; 0: the last layer is an ordinary one


@dataclass(frozen=True)
class ViewsPart:
    """How images are looked at; nothing of it concerns vectors."""

    size: int  # side of a view
    rescale: float
    flip: bool
    draws: int  # test views whose representations are averaged; 1: the plain view alone
    seed: int  # that draws them


@dataclass(frozen=True)
class VotesPart:
    """How clusters vote."""

    variance: float  # sigma^2
    scaling: float
    neighbours: int  # L
    temperature: float
    novelty_threshold: float | None  # in sigma; None: nothing is refused
    calibrated_on: str  # which examples the last two come from
    clusters_per_class: int  # K, for classes to come
    weighted: bool = False  # whether clusters vote with the weight of their members


@dataclass(frozen=True)
class Description:
    """A model in words and numbers, as it stands in ``bundle.json``."""

    method: str
    classes: tuple[str, ...]
    network: NetworkPart
    views: ViewsPart
    votes: VotesPart

    @property
    def kind(self) -> Literal["vectors", "images"]:
        """What the model takes."""
        return "vectors" if len(self.network.shape) == 1 else "images"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Description":
        """The inverse of `to_dict`."""
        try:
            network = dict(values["network"])
            network["shape"] = tuple(int(side) for side in network["shape"])
            classes = values["classes"]
            if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
                raise TypeError("classes are not a list of names")
            return cls(
                method=str(values["method"]),
                classes=tuple(classes),
                network=NetworkPart(**network),
                views=ViewsPart(**values["views"]),
                votes=VotesPart(**values["votes"]),
            )
        except KeyError as error:
            raise UserError(f"the description of the model lacks {error}") from error
        except (TypeError, ValueError) as error:
            raise UserError(f"the description of the model cannot be understood ({error})") from error


def preprocessing(description: Description, mean: tuple[float, ...], std: tuple[float, ...]) -> dict[str, Any]:
    """How an input is made, in words, for whoever has a photo and the model but not this package.

    Of an image it is the plain view: ``resize`` gives the same window, ``exactly`` the same pixels as well. The second
    is written out as code in docs/using-a-model.md.
    """
    if description.kind == "vectors":
        return {"input": "float32 (batch, d)", "d": description.network.shape[0], "normalisation": "in the model"}
    size, stored = description.views.size, room(description.views.size)
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
