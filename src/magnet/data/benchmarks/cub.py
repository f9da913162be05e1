"""Caltech-UCSD Birds-200-2011 (Wah et al., 2011)."""

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Archive, Source, read_lines, require_images, require_pieces
from magnet.data.listings import Attributes, Listing
from magnet.errors import UserError

SOURCE = Source(
    name="cub",
    title="Caltech-UCSD Birds-200-2011",
    classes=200,
    images=11_788,
    layout="CUB_200_2011/: images/, images.txt, image_class_labels.txt, train_test_split.txt, classes.txt, attributes/",
    licence="none stated; non-commercial research",
    url="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    archives=(
        Archive.at(
            ("https://data.caltech.edu/records/65de6-vp158/files",),
            "CUB_200_2011.tgz",
            "0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
            "images",
            "images.txt",
            "image_class_labels.txt",
            "train_test_split.txt",
            "classes.txt",
        ),
    ),
)

NOT_VISIBLE = 1  # the certainty with which an annotator says that the part cannot be seen


def list_cub(folder: Path) -> Listing:
    """Text tables keyed by image id; ``folder`` is CUB_200_2011 or the folder that holds it."""
    base = folder / "CUB_200_2011" if (folder / "CUB_200_2011").is_dir() else folder
    require_pieces(SOURCE, base)
    ids, names = zip(*read_lines("cub", base / "images.txt", 2), strict=True)
    class_ids, classes = zip(*read_lines("cub", base / "classes.txt", 2), strict=True)
    label_of = dict(read_lines("cub", base / "image_class_labels.txt", 2))
    in_train = dict(read_lines("cub", base / "train_test_split.txt", 2))
    position = {class_id: i for i, class_id in enumerate(class_ids)}
    try:
        labels = np.array([position[label_of[i]] for i in ids], dtype=np.int64)
        split = np.array([0 if in_train[i] == "1" else 2 for i in ids], dtype=np.int8)
    except KeyError as error:
        raise UserError(f"cub: the tables in {base} do not agree: id {error} is missing in one of them.") from None
    files = [base / "images" / name for name in names]
    require_images(SOURCE, base, files)
    return Listing(
        name="cub",
        content=files,
        labels=labels,
        classes=list(classes),
        names=[f"images/{name}" for name in names],
        split=split,
        attributes=_attributes(base, np.array(ids, dtype=np.int64), labels),
    )


def _attributes(base: Path, ids: np.ndarray, labels: np.ndarray) -> Attributes | None:
    """The attributes of each image where the files have them, else those of its class, else None."""
    # The official archive puts the names beside CUB_200_2011, not into it.
    places = (base / "attributes" / "attributes.txt", base / "attributes.txt", base.parent / "attributes.txt")
    listed = next((place for place in places if place.is_file()), None)
    by_image = base / "attributes" / "image_attribute_labels.txt"
    by_class = base / "attributes" / "class_attribute_labels_continuous.txt"
    if listed is None or not (by_image.is_file() or by_class.is_file()):
        return None
    names = [name for _, name in read_lines("cub", listed, 2)]
    if not by_image.is_file():
        return Attributes.from_classes(np.loadtxt(by_class, ndmin=2), names, labels)
    # image, attribute, present, certainty, seconds; some lines have stray fields after these.
    table = np.loadtxt(by_image, dtype=np.int32, usecols=(0, 1, 2, 3), ndmin=2)
    row_of = np.full(int(max(ids.max(), table[:, 0].max())) + 1, -1)
    row_of[ids] = np.arange(len(ids))
    table = table[(row_of[table[:, 0]] >= 0) & (table[:, 3] != NOT_VISIBLE)]
    if len(table) and (table[:, 1].min() < 1 or table[:, 1].max() > len(names)):
        raise UserError(f"cub: {by_image} has attribute {table[:, 1].max()}, {listed} names {len(names)}.")
    values = np.full((len(ids), len(names)), np.nan, dtype=np.float32)
    values[row_of[table[:, 0]], table[:, 1] - 1] = table[:, 2]
    return Attributes(names, values, "image")
