"""Oxford 102 Flowers (Nilsback and Zisserman, 2008)."""

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Archive, Source, read_mat, require_images, require_pieces
from magnet.data.listings import Listing
from magnet.errors import UserError

_PLACES = ("https://www.robots.ox.ac.uk/~vgg/data/flowers/102",)
SOURCE = Source(
    name="flowers",
    title="Oxford 102 Flowers",
    classes=102,
    images=8_189,
    layout="jpg/, setid.mat, imagelabels.mat",
    licence="none stated",
    url="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
    archives=(
        Archive.at(
            _PLACES, "102flowers.tgz", "2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246", "jpg"
        ),
        Archive.at(_PLACES, "setid.mat", "46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd"),
        Archive.at(_PLACES, "imagelabels.mat", "4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d"),
    ),
)

# The archive numbers its classes; these are their names in that order.
NAMES = """
pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily, moon orchid,
bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle, yellow iris,
globe-flower, purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire lily, pincushion flower,
fritillary, red ginger, grape hyacinth, corn poppy, prince of wales feathers, stemless gentian, artichoke,
sweet william, carnation, garden phlox, love in the mist, mexican aster, alpine sea holly, ruby-lipped cattleya,
cape flower, great masterwort, siam tulip, lenten rose, barbeton daisy, daffodil, sword lily, poinsettia,
bolero deep blue, wallflower, marigold, buttercup, oxeye daisy, common dandelion, petunia, wild pansy, primula,
sunflower, pelargonium, bishop of llandaff, gaura, geranium, orange dahlia, pink-yellow dahlia, cautleya spicata,
japanese anemone, black-eyed susan, silverbush, californian poppy, osteospermum, spring crocus, bearded iris,
windflower, tree poppy, gazania, azalea, water lily, rose, thorn apple, morning glory, passion flower, lotus,
toad lily, anthurium, frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen,
watercress, canna lily, hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow,
mexican petunia, bromelia, blanket flower, trumpet creeper, blackberry lily
"""
CLASSES = [name.strip() for name in NAMES.split(",")]


def list_flowers(folder: Path) -> Listing:
    """imagelabels.mat: the class of jpg/image_00001.jpg and so on; setid.mat: which of them are in which part."""
    require_pieces(SOURCE, folder)
    (labels,) = read_mat(folder / "imagelabels.mat", "labels")
    labels = np.atleast_1d(labels).astype(np.int64) - 1
    split = np.full(len(labels), -1, dtype=np.int8)
    for part, ids in enumerate(read_mat(folder / "setid.mat", "trnid", "valid", "tstid")):
        ids = np.atleast_1d(ids).astype(np.int64) - 1
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= len(labels):
            raise UserError(f"flowers: setid.mat names image {ids.max() + 1}, imagelabels.mat has {len(labels)}.")
        split[ids] = part
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= len(CLASSES):
        raise UserError(f"flowers: imagelabels.mat has labels outside 1..{len(CLASSES)}.")
    files = [folder / "jpg" / f"image_{i + 1:05d}.jpg" for i in range(len(labels))]
    kept = np.flatnonzero(split >= 0)
    require_images(SOURCE, folder, (files[i] for i in kept))
    listing = Listing("flowers", files, labels, CLASSES, [f"jpg/{file.name}" for file in files], split)
    return listing.keep(kept)
