"""ImageNet Attributes: 90 classes of ImageNet (appendix C of the paper) with annotated attributes of some images.

The annotations are the Object Attributes of Russakovsky and Fei-Fei (2010): 25 attributes of about 25 images a class,
all of them training images of ImageNet. ImageNet's validation images of the 90 classes are the test part where they
are there; without them a test part is drawn from the training images.
"""

import os
from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Source, incomplete, read_mat
from magnet.data.listings import Attributes, Listing, is_image
from magnet.errors import UserError

SOURCE = Source(
    name="imagenet-attributes",
    title="ImageNet Attributes (90 classes of ImageNet with the Object Attributes annotations)",
    classes=90,
    images=116_236,
    layout="the class folders of ImageNet's training set (n01693334/, ... also under train/), attrann.mat; where it is "
    "there, val/ as the test part (class folders, or flat with ILSVRC2012_devkit_t12/)",
    licence="ImageNet's terms: non-commercial research",
    url="https://image-net.org/download.php",
    ask=(
        "ImageNet may not be passed on: ask for ILSVRC2012_img_train.tar and for the attribute annotations "
        "(attrann.mat) with an account at https://image-net.org/download.php, and put attrann.mat beside the "
        "class folders."
    ),
)

LISTED = """
n01693334 n01773549 n01773797 n01796340 n01872401 n01873310 n01882714 n01883070 n02071294 n02074367
n02088238 n02088364 n02088466 n02088632 n02090379 n02091134 n02091635 n02092002 n02096294 n02100583
n02100735 n02101556 n02102480 n02104029 n02104365 n02105056 n02105162 n02105251 n02105505 n02106030
n02109047 n02109525 n02110806 n02110958 n02112350 n02115913 n02119789 n02123045 n02123394 n02124075
n02125311 n02128925 n02129165 n02130308 n02326432 n02342885 n02361337 n02391049 n02410509 n02422106
n02422699 n02423022 n02441942 n02442845 n02443114 n02443484 n02444819 n02445715 n02447366 n02480495
n02480855 n02481823 n02483708 n02484975 n02486261 n02486410 n02487347 n02488291 n02488702 n02500267
n02509815 n02536864 n02802426 n02808440 n02910353 n03249569 n03325584 n03721384 n03977966 n03982430
n04118776 n04228054 n04447861 n07615774 n07745940 n07873807 n07875152 n07880968 n11939491 n12267677
"""
WNIDS = LISTED.split()


def list_imagenet_attributes(folder: Path) -> Listing:
    """The class folders of ImageNet's training set, in ``folder`` or ``folder/train``, attrann.mat, any ``val/``."""
    train = folder / "train" if (folder / "train").is_dir() else folder
    annotations = next((place / "attrann.mat" for place in (folder, train) if (place / "attrann.mat").is_file()), None)
    missing = [f"{wnid}/" for wnid in WNIDS if not (train / wnid).is_dir()]
    if missing or annotations is None:
        more = [f"and {len(missing) - 3} more of {len(WNIDS)} class folders"] if len(missing) > 3 else []
        absent = ["attrann.mat"] if annotations is None else []
        raise incomplete(SOURCE, folder, absent + missing[:3] + more)
    listed = _sorted_by_class(train)
    names = [f"{file.parent.name}/{file.name}" for file, _ in listed]
    split = None
    tested = _validation_images(folder)
    if tested:
        split = np.repeat(np.array([0, 2], dtype=np.int8), [len(listed), len(tested)])
        names += [file.relative_to(folder).as_posix() for file, _ in tested]
        listed += tested
    files = [file for file, _ in listed]
    return Listing(
        name="imagenet-attributes",
        content=files,
        labels=np.array([label for _, label in listed], dtype=np.int64),
        classes=WNIDS,
        names=names,
        split=split,
        attributes=_attributes(annotations, [file.stem for file in files]),
    )


def _sorted_by_class(folder: Path) -> list[tuple[Path, int]]:
    """The images in the class folders that are there, and their classes."""
    return [
        (folder / wnid / name, label)
        for label, wnid in enumerate(WNIDS)
        if (folder / wnid).is_dir()
        for name in sorted(os.listdir(folder / wnid))
        if is_image(name)
    ]


def _validation_images(folder: Path) -> list[tuple[Path, int]]:
    """ImageNet's validation images of the 90 classes: sorted into class folders, or flat as the archive has them.

    The archive's images are numbered, and their classes are in the development kit: line i of the ground truth is the
    ILSVRC2012_ID of image i, and meta.mat says which class that is.
    """
    place, kit = folder / "val", folder / "ILSVRC2012_devkit_t12" / "data"
    images = sorted(name for name in os.listdir(place) if is_image(name)) if place.is_dir() else []
    if not images:
        return _sorted_by_class(place)
    truth, meta = kit / "ILSVRC2012_validation_ground_truth.txt", kit / "meta.mat"
    missing = [str(file.relative_to(folder)) for file in (truth, meta) if not file.is_file()]
    if missing:
        raise UserError(
            f"imagenet-attributes: {place} holds {len(images)} images without class folders, and the development kit "
            f"that tells their classes is not there; missing: {', '.join(missing)}. "
            f"Unpack ILSVRC2012_devkit_t12.tar.gz in {folder}, or sort the images into class folders."
        )
    (synsets,) = read_mat(meta, "synsets")
    wnid_of = {int(synset["ILSVRC2012_ID"]): str(synset["WNID"]) for synset in np.atleast_1d(synsets)}
    ids = [int(line) for line in truth.read_text(encoding="utf-8").split()]
    label_of = {wnid: label for label, wnid in enumerate(WNIDS)}
    found = []
    for name in images:
        number = name.rpartition("_")[2].partition(".")[0]
        if not number.isdigit() or not 1 <= int(number) <= len(ids):
            raise UserError(
                f"imagenet-attributes: {place / name} is not one of the {len(ids)} images that {truth} numbers; "
                "expected names such as ILSVRC2012_val_00000001.JPEG."
            )
        wnid = wnid_of.get(ids[int(number) - 1], "")
        if wnid in label_of:
            found.append((place / name, label_of[wnid]))
    return found


def _attributes(file: Path, stems: list[str]) -> Attributes:
    """attrann: images (names without extension), labels (images, attributes) of 1 yes, -1 no, 0 ambiguous."""
    (annotated,) = read_mat(file, "attrann")
    try:
        names = [str(name) for name in np.atleast_1d(annotated["attributes"])]
        images = [str(name) for name in np.atleast_1d(annotated["images"])]
        given = np.atleast_2d(annotated["labels"])
    except (KeyError, TypeError, IndexError):
        raise UserError(f"{file}: attrann has not the fields images, attributes and labels.") from None
    if given.shape != (len(images), len(names)):
        raise UserError(f"{file}: labels are {given.shape}, expected {len(images)} images x {len(names)} attributes.")
    row_of = {stem: row for row, stem in enumerate(stems)}
    values = np.full((len(stems), len(names)), np.nan, dtype=np.float32)
    for image, labels in zip(images, given, strict=True):
        if image in row_of:
            values[row_of[image]] = np.where(labels == 0, np.nan, labels > 0)
    return Attributes(names, values, "image")
