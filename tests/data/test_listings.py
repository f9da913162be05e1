import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader

from magnet.data import dataset as dataset_module
from magnet.data import open_data
from magnet.errors import UserError


def test_every_subfolder_is_a_class(class_folders):
    data = open_data(str(class_folders))
    assert (data.name, data.kind, data.classes, len(data)) == ("animals", "images", ["cat", "dog"], 20)
    assert data.names[0] == "cat/0.png"
    assert torch.bincount(data.labels[data.indices("test")]).tolist() == [3, 3]
    assert (data[0].dtype, data[0].shape) == (torch.uint8, data.shape)


def test_hidden_files_other_files_and_empty_folders_are_ignored(class_folders, picture):
    picture(class_folders / ".hidden" / "0.png")
    picture(class_folders / "cat" / "._0.png")
    picture(class_folders / "loose.png")
    (class_folders / "cat" / "notes.txt").write_text("x")
    (class_folders / "fish").mkdir()
    data = open_data(str(class_folders))
    assert (len(data), data.classes) == (20, ["cat", "dog"])


def test_upper_case_extensions_unicode_names_and_deeper_folders_are_read(tmp_path, picture):
    for path in ("žirafa/ÖÄ 1.JPG", "žirafa/deeper/2.Jpeg", "猫/写真.PNG", "猫/b.tiff"):
        picture(tmp_path / path)
    data = open_data(str(tmp_path))
    assert data.classes == ["žirafa", "猫"]
    assert data.batch(range(4)).shape[0] == 4


def test_folders_named_train_and_test_are_the_split(tmp_path, picture):
    for part in ("train", "val", "test"):
        for name in ("a", "b"):
            picture(tmp_path / part / name / "0.png")
    data = open_data(str(tmp_path))
    assert data.classes == ["a", "b"]
    assert [len(data.indices(part)) for part in ("train", "validation", "test")] == [2, 2, 2]
    assert data.names[-1] == "val/b/0.png"


def test_classes_may_be_called_train_and_test(tmp_path, picture):
    for name in ("train", "test"):
        for i in range(4):
            picture(tmp_path / name / f"{i}.png")
    assert open_data(str(tmp_path)).classes == ["test", "train"]


def test_a_class_with_one_image_keeps_it_for_training(class_folders, picture):
    picture(class_folders / "unicorn" / "only.png")
    data = open_data(str(class_folders))
    assert data.split[data.names.index("unicorn/only.png")] == 0


def test_numbered_classes_are_sorted_by_number(tmp_path, picture):
    for name in ("10/0", "9/0", "9/1", "1/0"):
        picture(tmp_path / f"{name}.png")
    assert open_data(str(tmp_path)).classes == ["1", "9", "10"]


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(UserError, match="found no images in subfolders; expected one folder a class"):
        open_data(str(tmp_path))


def test_one_class_is_refused(tmp_path, picture):
    picture(tmp_path / "cat" / "0.png")
    with pytest.raises(UserError, match="found one class \\('cat'\\), expected examples of at least two"):
        open_data(str(tmp_path))


def test_opening_decodes_nothing(class_folders, monkeypatch):
    monkeypatch.setattr(dataset_module, "decode", lambda *_: pytest.fail("decoded"))
    open_data(str(class_folders)).with_image_size(32)


def test_the_image_size_leaves_room_for_the_augmentation(class_folders):
    data = open_data(str(class_folders))
    small = data.with_image_size(10)
    assert small.shape == (3, 13, 13)
    assert small.batch([0, 1]).shape == (2, 3, 13, 13)
    assert small.batch([]).shape == (0, 3, 13, 13)
    assert data.shape == (3, 292, 292)


def test_an_image_is_decoded_once_while_the_cache_has_room(class_folders, monkeypatch):
    decoded = []
    real = dataset_module.decode
    monkeypatch.setattr(dataset_module, "decode", lambda *a: decoded.append(a) or real(*a))
    data = open_data(str(class_folders), cache_bytes=5 * 3 * 13 * 13).with_image_size(10)
    first, again = data.batch(range(20)), data.batch(range(20))
    assert torch.equal(first, again)
    assert len(decoded) == 20 + 15
    data[0][:] = 0
    assert torch.equal(data[0], first[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_gives_the_same_images_with_any_number_of_workers(class_folders, workers):
    data = open_data(str(class_folders)).with_image_size(10)
    loader = DataLoader(data, batch_size=7, num_workers=workers)
    for _ in range(2):
        assert torch.equal(torch.cat(list(loader)), data.batch(range(20)))


def test_a_pickled_dataset_leaves_its_cache_behind(class_folders):
    data = open_data(str(class_folders)).with_image_size(100)
    data.batch(range(20))
    assert len(pickle.dumps(data)) < 10_000


def write_csv(folder, text, encoding="utf-8"):
    path = folder / "table.csv"
    path.write_text(text, encoding=encoding)
    return str(path)


def test_a_csv_names_images_relative_to_itself(class_folders):
    text = 'path,label\ncat/0.png,"cat, big"\ndog/0.png,dog\ndog/1.png,dog\n'
    data = open_data(write_csv(class_folders, text))
    assert data.classes == ["cat, big", "dog"]
    assert data.names == ["cat/0.png", "dog/0.png", "dog/1.png"]
    assert data[0].shape == data.shape


def test_the_split_column_of_a_csv_is_kept_and_columns_may_come_in_any_order(class_folders):
    rows = ["dog,0.png,train", "dog,1.png,validation", "cat,2.png,VAL", "cat,3.png,test", "cat,4.png,train"]
    text = "Label, Path, Split\n" + "".join(f"{r.replace(',', f',{r[:3]}/', 1)}\n" for r in rows)
    data = open_data(write_csv(class_folders, text, encoding="utf-8-sig"))
    assert data.split.tolist() == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,class\na,b\n", "found the columns class, file; expected numbers beside the labels, or a column path"),
        ("", "found no names of columns; a CSV has them in its first line"),
        ("path,label\n", "found no examples"),
        ("path,label\ncat/0.png,\n", "line 2: path 'cat/0.png', label ''; both are needed"),
        ("path,label,split\ncat/0.png,a,dev\n", "split holds 'dev' \\(row 1\\)"),
        ("path,label\n" + "".join(f"x{i}.png,a\n" for i in range(5)) + "cat/0.png,a\n", "5 of 6 images do not exist"),
    ],
)
def test_a_csv_that_does_not_fit_is_refused_with_what_was_found(class_folders, text, message):
    with pytest.raises(UserError, match=message):
        open_data(write_csv(class_folders, text))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "nowhere does not exist; expected a folder of class folders"),
        ("nowhere.csv", "nowhere.csv does not exist"),
        ("nowhere.npz", "nowhere.npz does not exist"),
        ("puppies:somewhere", "no benchmark set is called 'puppies'. There are: pets, flowers"),
        ("pest:somewhere", r"no benchmark set is called 'pest': did you mean pets\?"),
        ("pets:", "write pets:FOLDER"),
        (os.path.basename(__file__), "is a file of another kind"),
    ],
)
def test_what_cannot_be_opened_is_said_in_one_line(spec, message, monkeypatch):
    monkeypatch.chdir(os.path.dirname(__file__))
    with pytest.raises(UserError, match=message) as error:
        open_data(spec)
    assert "\n" not in str(error.value)


def test_importing_the_data_package_leaves_the_heavy_libraries_alone():
    code = "import sys, magnet.data, magnet.data.fetch; print({'sklearn', 'scipy', 'pooch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
