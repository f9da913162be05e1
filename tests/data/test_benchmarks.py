import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from magnet.data import SOURCES, open_data
from magnet.data.benchmarks import READERS
from magnet.data.benchmarks.imagenet_attributes import WNIDS
from magnet.errors import UserError


def cells(values):
    """A MATLAB cell column, as the official lists have it."""
    column = np.empty((len(values), 1), dtype=object)
    column[:, 0] = values
    return column


def opened(name, folder, **options):
    data = open_data(f"{name}:{folder}", **options).with_image_size(8)
    assert data.name == name
    assert data.batch(range(len(data))).shape == (len(data), 3, 11, 11)
    return data


@pytest.fixture
def pets(tmp_path, picture):
    (tmp_path / "annotations").mkdir()
    for part, first in (("trainval", 1), ("test", 101)):
        lines = []
        for label, name in ((1, "Abyssinian"), (2, "american_bulldog")):
            for i in range(first, first + 3):
                picture(tmp_path / "images" / f"{name}_{i}.jpg")
                lines.append(f"{name}_{i} {label} 1 1\n")
        (tmp_path / "annotations" / f"{part}.txt").write_text("".join(lines))
    picture(tmp_path / "images" / "not_listed_1.jpg")
    return tmp_path


def test_pets_are_read_with_the_official_split(pets):
    data = opened("pets", pets)
    assert data.classes == ["Abyssinian", "american_bulldog"]
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert data.split.tolist() == [0] * 6 + [2] * 6
    assert data.names[3] == "images/american_bulldog_1.jpg"


def test_pets_take_their_validation_part_from_trainval(pets):
    data = opened("pets", pets, validation=1 / 3)
    assert [len(data.indices(part)) for part in ("train", "validation", "test")] == [4, 2, 6]


def test_missing_images_are_named_with_the_way_to_get_them(pets):
    for file in sorted((pets / "images").glob("A*"))[:5]:
        file.unlink()
    with pytest.raises(UserError) as error:
        open_data(f"pets:{pets}")
    lines = str(error.value).splitlines()
    assert lines[1] == "  images/Abyssinian_1.jpg"
    assert lines[4] == "  and 2 more of 12 images"
    assert f"magnet data fetch pets --to {pets}" in lines[5]


@pytest.mark.parametrize("name", [name for name in READERS if name != "imagenet-attributes"])
def test_every_missing_piece_is_reported_with_its_archive(tmp_path, name):
    with pytest.raises(UserError) as error:
        open_data(f"{name}:{tmp_path}")
    for archive in SOURCES[name].archives:
        for piece in archive.holds:
            assert f"{piece}  (in {archive.file}, {archive.urls[0]})" in str(error.value)
    assert f"magnet data fetch {name} --to {tmp_path}" in str(error.value)


def test_a_benchmark_folder_that_does_not_exist_says_how_to_fetch_it(tmp_path):
    with pytest.raises(UserError, match="magnet data fetch dogs --to"):
        open_data(f"dogs:{tmp_path / 'none'}")


def test_flowers_are_read_with_their_three_parts(tmp_path, picture):
    for i in range(1, 10):
        picture(tmp_path / "jpg" / f"image_{i:05d}.jpg")
    savemat(tmp_path / "imagelabels.mat", {"labels": np.array([[77, 77, 77, 1, 1, 1, 77, 1, 1]], np.uint8)})
    parts = {"trnid": np.array([[1, 4]]), "valid": np.array([[2, 5]]), "tstid": np.array([[9, 3, 6, 7]])}
    savemat(tmp_path / "setid.mat", parts)
    data = opened("flowers", tmp_path, validation=0.5)
    assert data.classes == ["pink primrose", "passion flower"]
    assert data.names == [f"jpg/image_{i:05d}.jpg" for i in (1, 2, 3, 4, 5, 6, 7, 9)]
    assert data.labels.tolist() == [1, 1, 1, 0, 0, 0, 1, 0]
    assert data.split.tolist() == [0, 1, 2, 0, 1, 2, 2, 2]


def test_dogs_are_read_from_the_cells_of_their_lists(tmp_path, picture):
    breeds = ("n02085620-Chihuahua", "n02113186-Cardigan")
    for part, numbers in (("train", (1, 2)), ("test", (3,))):
        names = [f"{breed}/{breed[:9]}_{i}.jpg" for breed in breeds for i in numbers]
        for name in names:
            picture(tmp_path / "Images" / name)
        labels = np.repeat([[1.0], [2.0]], len(numbers), axis=0)
        savemat(
            tmp_path / f"{part}_list.mat",
            {"file_list": cells(names), "annotation_list": cells(names), "labels": labels},
        )
    data = opened("dogs", tmp_path)
    assert data.classes == ["Chihuahua", "Cardigan"]
    assert data.labels.tolist() == [0, 0, 1, 1, 0, 1]
    assert data.split.tolist() == [0, 0, 0, 0, 2, 2]
    assert data.names[0] == "Images/n02085620-Chihuahua/n02085620_1.jpg"


@pytest.fixture
def cub(tmp_path, picture):
    base = tmp_path / "CUB_200_2011"
    names = [
        "001.Black_footed_Albatross/a.jpg",
        "001.Black_footed_Albatross/b.jpg",
        "002.Laysan/c.jpg",
        "002.Laysan/d.jpg",
    ]
    for name in names:
        picture(base / "images" / name)
    tables = {
        "images": names,
        "image_class_labels": [1, 1, 2, 2],
        "train_test_split": [1, 0, 1, 0],
        "classes": ["001.Black_footed_Albatross", "002.Laysan"],
    }
    for table, values in tables.items():
        (base / f"{table}.txt").write_text("".join(f"{i} {value}\n" for i, value in enumerate(values, 1)))
    return tmp_path


def test_cub_is_read_from_its_folder_or_the_one_above(cub):
    for folder in (cub, cub / "CUB_200_2011"):
        data = opened("cub", folder)
        assert data.classes == ["001.Black_footed_Albatross", "002.Laysan"]
        assert data.labels.tolist() == [0, 0, 1, 1]
        assert data.split.tolist() == [0, 2, 0, 2]
        assert data.attributes is None


def test_cub_attributes_are_those_of_each_image_and_unknown_where_not_visible(cub):
    (cub / "attributes.txt").write_text("1 has_bill_shape::dagger\n2 has_wing_color::blue\n")
    (cub / "CUB_200_2011" / "attributes").mkdir()
    lines = ["1 1 1 4 2.5", "1 2 0 3 1.0", "2 1 0 1 0.5", "2 2 1 2 0.1 9", "4 1 1 4 3.0"]
    table = cub / "CUB_200_2011" / "attributes" / "image_attribute_labels.txt"
    table.write_text("\n".join(lines) + "\n")
    found = opened("cub", cub).attributes
    assert (found.level, found.names) == ("image", ["has_bill_shape::dagger", "has_wing_color::blue"])
    nan = np.nan
    np.testing.assert_array_equal(found.values, [[1, 0], [nan, 1], [nan, nan], [1, nan]])


def test_cub_falls_back_to_the_attributes_of_classes(cub):
    folder = cub / "CUB_200_2011" / "attributes"
    folder.mkdir()
    (folder / "attributes.txt").write_text("1 a\n2 b\n")
    (folder / "class_attribute_labels_continuous.txt").write_text("0.0 75.5\n50.0 49.0\n")
    found = opened("cub", cub).attributes
    assert found.level == "class"
    np.testing.assert_array_equal(found.values, [[0, 1], [0, 1], [1, 0], [1, 0]])


def test_cub_tables_that_disagree_are_refused(cub):
    (cub / "CUB_200_2011" / "train_test_split.txt").write_text("1 1\n2 0\n")
    with pytest.raises(UserError, match="id '3' is missing"):
        open_data(f"cub:{cub}")


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_fashion_mnist_is_read_as_rgb_images_of_its_own_size(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 6), ("t10k", 4)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", rng.integers(0, 256, (count, 28, 28), np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", (np.arange(count) % 2 * 9).astype(np.uint8))
    data = open_data(f"fashion-mnist:{tmp_path}")
    assert (data.kind, data.shape, data[0].shape) == ("images", (3, 37, 37), (3, 37, 37))
    assert data.classes == ["T-shirt/top", "Ankle boot"]
    assert data.split.tolist() == [0] * 6 + [2] * 4
    assert opened("fashion-mnist", tmp_path)[0].float().std() > 0


def test_a_cut_off_idx_file_is_named(tmp_path):
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + bytes(12) + b"x"))
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte\.gz: holds 1 bytes"):
        open_data(f"fashion-mnist:{tmp_path}")


def test_the_installed_fashion_mnist_is_complete():
    folder = Path("/usr/share/datasets/fashion-mnist")
    if not folder.is_dir():
        pytest.skip("Debian's dataset-fashion-mnist is not installed")
    data = open_data(f"fashion-mnist:{folder}")
    assert [len(data.indices(part)) for part in ("train", "test")] == [60_000, 10_000]
    assert data.labels.bincount().tolist() == [7_000] * 10


@pytest.fixture
def imagenet(tmp_path, picture):
    for wnid in WNIDS:
        for i in (1, 2, 3, 4):
            picture(tmp_path / "train" / wnid / f"{wnid}_{i}.JPEG", size=(4, 4))
    picture(tmp_path / "train" / "n99999999" / "n99999999_1.JPEG")
    images = [f"{WNIDS[0]}_2", f"{WNIDS[89]}_1", "n99999999_1", f"{WNIDS[1]}_77"]
    labels = np.array([[1, -1, 0], [-1, -1, 1], [1, 1, 1], [1, 1, 1]], np.int16)
    attrann = {"images": cells(images), "attributes": cells(["black", "furry", "round"]).T, "labels": labels}
    savemat(tmp_path / "attrann.mat", {"attrann": attrann})
    return tmp_path


def test_imagenet_attributes_are_the_90_classes_with_the_annotated_images(imagenet):
    data = opened("imagenet-attributes", imagenet)
    assert (len(data), data.classes) == (360, WNIDS)
    assert len(data.indices("test")) == 108
    found = data.attributes
    assert found.names == ["black", "furry", "round"]
    np.testing.assert_array_equal(found.values[data.names.index(f"{WNIDS[0]}/{WNIDS[0]}_2.JPEG")], [1, 0, np.nan])
    np.testing.assert_array_equal(found.values[data.names.index(f"{WNIDS[89]}/{WNIDS[89]}_1.JPEG")], [0, 0, 1])
    assert np.isnan(found.values).all(axis=1).sum() == 358


def test_imagenets_validation_images_are_the_test_part_where_they_are_there(imagenet, picture):
    for wnid in (WNIDS[0], WNIDS[89], "n99999999"):  # sorted into class folders, some of them
        picture(imagenet / "val" / wnid / "ILSVRC2012_val_00000001.JPEG", size=(4, 4))
    data = opened("imagenet-attributes", imagenet)
    test = data.indices("test").tolist()
    assert len(data.indices("train")) == 360
    assert [data.names[i] for i in test] == [f"val/{WNIDS[i]}/ILSVRC2012_val_00000001.JPEG" for i in (0, 89)]
    assert data.labels[test].tolist() == [0, 89]
    assert np.isnan(data.attributes.values[test]).all()


def test_imagenets_validation_images_are_read_as_the_archives_have_them(imagenet, picture):
    for number in (1, 2, 3):
        picture(imagenet / "val" / f"ILSVRC2012_val_{number:08d}.JPEG", size=(4, 4))
    with pytest.raises(UserError, match=r"missing: ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"):
        open_data(f"imagenet-attributes:{imagenet}")
    kit = imagenet / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n3\n1\n")
    synsets = np.zeros((3, 1), dtype=[("ILSVRC2012_ID", object), ("WNID", object)])
    for row, wnid in enumerate((WNIDS[5], WNIDS[7], "n99999999")):
        synsets[row, 0] = (row + 1, wnid)
    savemat(kit / "meta.mat", {"synsets": synsets})
    data = opened("imagenet-attributes", imagenet)
    test = data.indices("test").tolist()
    assert [data.names[i] for i in test] == ["val/ILSVRC2012_val_00000001.JPEG", "val/ILSVRC2012_val_00000003.JPEG"]
    assert data.labels[test].tolist() == [7, 5]
    picture(imagenet / "val" / "ILSVRC2012_val_00000004.JPEG", size=(4, 4))
    with pytest.raises(UserError, match="is not one of the 3 images"):
        open_data(f"imagenet-attributes:{imagenet}")


def test_attributes_stay_with_their_images_when_others_are_skipped(imagenet):
    (imagenet / "train" / WNIDS[0] / f"{WNIDS[0]}_1.JPEG").write_text("bad")
    data = open_data(f"imagenet-attributes:{imagenet}", on_bad_image="skip")
    assert len(data) == 359
    assert data.attributes.values[data.names.index(f"{WNIDS[0]}/{WNIDS[0]}_2.JPEG"), 0] == 1


def test_missing_imagenet_classes_are_named_with_where_to_ask(tmp_path):
    with pytest.raises(UserError, match=r"attrann\.mat\n  n01693334/") as error:
        open_data(f"imagenet-attributes:{tmp_path}")
    assert "https://image-net.org" in str(error.value)


def test_the_paper_lists_90_different_classes():
    assert len(set(WNIDS)) == 90


def test_every_named_set_is_described():
    assert SOURCES.keys() == {"digits", *READERS}
    assert all(source.licence and source.url and source.layout for source in SOURCES.values())
