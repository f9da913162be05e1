"""The named sets: what they are, and where their official files are to be had."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Archive:
    """An official file: where it is, its checksum as "algorithm:hex", and the pieces of the layout it holds."""

    urls: tuple[str, ...]
    known_hash: str | None
    holds: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.urls[0].rsplit("/", 1)[-1].split("?")[0]


@dataclass(frozen=True)
class Source:
    """A named set, for people and for `fetch`. ``url`` is its home page."""

    name: str
    title: str
    classes: int
    images: int
    layout: str
    licence: str
    url: str
    archives: tuple[Archive, ...] = ()
    ask: str = ""  # how to get it where it cannot be fetched


_VGG = "https://www.robots.ox.ac.uk/~vgg/data"
_PETS = ("https://thor.robots.ox.ac.uk/~vgg/data/pets", f"{_VGG}/pets/data")
_DOGS = "http://vision.stanford.edu/aditya86/ImageNetDogs"
_FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)


def _files(places: tuple[str, ...], name: str, known_hash: str, *holds: str) -> Archive:
    return Archive(tuple(f"{place}/{name}" for place in places), known_hash, holds or (name,))


_LISTED = (
    Source(
        "digits",
        "Handwritten digits, 64-dimensional vectors",
        10,
        1_797,
        "written without a folder",
        "CC BY 4.0",
        "https://scikit-learn.org/stable/datasets/toy_dataset.html",
        ask="it comes with scikit-learn; use it as --data digits.",
    ),
    Source(
        "pets",
        "Oxford-IIIT Pet",
        37,
        7_349,
        "images/, annotations/trainval.txt, annotations/test.txt",
        "CC BY-SA 4.0; the photographs remain their owners'",
        f"{_VGG}/pets/",
        (
            _files(_PETS, "images.tar.gz", "md5:5c4f3ee8e5d25df40f4fd59a7f44e54c", "images"),
            _files(
                _PETS,
                "annotations.tar.gz",
                "md5:95a8c909bbe2e81eed6a22bccdf3f68f",
                "annotations/trainval.txt",
                "annotations/test.txt",
            ),
        ),
    ),
    Source(
        "flowers",
        "Oxford 102 Flowers",
        102,
        8_189,
        "jpg/, setid.mat, imagelabels.mat",
        "none stated",
        f"{_VGG}/flowers/102/",
        (
            _files((f"{_VGG}/flowers/102",), "102flowers.tgz", "md5:52808999861908f626f3c1f4e79d11fa", "jpg"),
            _files((f"{_VGG}/flowers/102",), "setid.mat", "md5:a5357ecc9cb78c4bef273ce3793fc85c"),
            _files((f"{_VGG}/flowers/102",), "imagelabels.mat", "md5:e0620be6f572b9609742df49c70aed4d"),
        ),
    ),
    Source(
        "dogs",
        "Stanford Dogs",
        120,
        20_580,
        "Images/, train_list.mat, test_list.mat",
        "none stated; images of ImageNet, research only",
        f"{_DOGS}/",
        (
            # The site states no checksums; these are those that TensorFlow Datasets has on record.
            _files(
                (_DOGS,),
                "images.tar",
                "sha256:a443fc2f9a851aa1a7b8e4fa4af94b8459fce2c9f5a2f4dd4669cf9673a4ec58",
                "Images",
            ),
            _files(
                (_DOGS,),
                "lists.tar",
                "sha256:34b47cacd9a98b5d150e084f24d29391c084c55272295ec65c85651bc35f4d6c",
                "train_list.mat",
                "test_list.mat",
            ),
        ),
    ),
    Source(
        "cub",
        "Caltech-UCSD Birds-200-2011",
        200,
        11_788,
        "CUB_200_2011/: images/, images.txt, image_class_labels.txt, train_test_split.txt, classes.txt, attributes/",
        "none stated; non-commercial research",
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        (
            _files(
                ("https://data.caltech.edu/records/65de6-vp158/files",),
                "CUB_200_2011.tgz",
                "md5:97eceeb196236b17998738112f37df78",
                "images",
                "images.txt",
                "image_class_labels.txt",
                "train_test_split.txt",
                "classes.txt",
            ),
        ),
    ),
    Source(
        "fashion-mnist",
        "Fashion-MNIST",
        10,
        70_000,
        "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, and the same of t10k",
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        (
            _files(_FASHION, "train-images-idx3-ubyte.gz", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            _files(_FASHION, "train-labels-idx1-ubyte.gz", "md5:25c81989df183df01b3e8a0aad5dffbe"),
            _files(_FASHION, "t10k-images-idx3-ubyte.gz", "md5:bef4ecab320f06d8554ea6380940ec79"),
            _files(_FASHION, "t10k-labels-idx1-ubyte.gz", "md5:bb300cfdad3c16e7a12a480ee83cd310"),
        ),
    ),
    Source(
        "imagenet-attributes",
        "ImageNet Attributes (90 classes of ImageNet with the Object Attributes annotations)",
        90,
        116_236,
        "the class folders of ImageNet's training set (n01693334/, ... also under train/), attrann.mat; where it is "
        "there, val/ as the test part (class folders, or flat with ILSVRC2012_devkit_t12/)",
        "ImageNet's terms: non-commercial research",
        "https://image-net.org/download.php",
        ask=(
            "ImageNet may not be passed on: ask for ILSVRC2012_img_train.tar and for the attribute annotations "
            "(attrann.mat) with an account at https://image-net.org/download.php, and put attrann.mat beside the "
            "class folders."
        ),
    ),
)

SOURCES: dict[str, Source] = {source.name: source for source in _LISTED}


def describe() -> list[dict[str, str | int]]:
    """One row a named set, for a table: name, title, classes, images, layout, licence, url."""
    keys = ("name", "title", "classes", "images", "layout", "licence", "url")
    return [{key: getattr(source, key) for key in keys} for source in SOURCES.values()]
