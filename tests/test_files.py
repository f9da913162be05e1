"""Files are written whole or not at all, with the permissions that the user's umask gives."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import magnet
from magnet.errors import StorageError, UserError
from magnet.export import export_bundle
from magnet.files import read_json, remove_drafts, replacing, replacing_folder, write_record
from magnet.runs.run import Run
from training.short_runs import run, write_vectors


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o027])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_run_works_in_a_folder_whose_name_is_not_utf8(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes names of UTF-8 alone")
    run(folder / "run", write_vectors(folder / "x.npz"), epochs=1)
    assert magnet.evaluate(folder / "run")["n"] == 27
    export_bundle(Run(folder / "run"), folder / "bundle")
    assert magnet.load(folder / "bundle").search(np.zeros((1, 6)), count=1)


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with suppress(KeyboardInterrupt), replacing(path) as draft:
        draft.write_text("ha")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    with replacing(tmp_path / "file") as one, replacing(tmp_path / "file") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "file").read_text() == "one"  # the outer block ends last


def test_a_folder_is_replaced_only_by_a_whole_one(tmp_path):
    path = tmp_path / "folder"
    with replacing_folder(path) as draft:
        (draft / "old").touch()
    with suppress(ValueError), replacing_folder(path) as draft:
        (draft / "half").touch()
        raise ValueError
    assert [file.name for file in path.iterdir()] == ["old"]
    with replacing_folder(path) as draft:
        (draft / "new").touch()
    assert [file.name for file in path.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_replaced_stays(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(OSError), replacing_folder(path) as draft:
        draft.rmdir()  # so that it cannot take the place
    assert [file.name for file in path.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_can_be_removed(tmp_path):
    killed = [replacing_folder(tmp_path / "folder"), replacing(tmp_path / "file")]
    assert all(draft.__enter__().exists() for draft in killed)
    (tmp_path / "other.part").touch()
    remove_drafts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other.part"]


def test_every_file_of_a_run_and_of_its_exports_has_the_permissions_of_the_umask(umask, tmp_path):
    folder = run(tmp_path / "run", write_vectors(tmp_path / "x.npz"), validation=0.2, keep_refreshes=2)
    opened = Run(folder)
    assert opened.calibration.examples  # writes the cache
    export_bundle(opened, tmp_path / "bundle")
    with np.load(tmp_path / "x.npz") as file:
        magnet.MagnetClassifier(max_iter=1).fit(file["X"], file["y"]).save(tmp_path / "estimator.safetensors")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert {str(path): oct(permissions(path)) for path in files if permissions(path) != 0o666 & ~umask} == {}
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {permissions(path) for path in folders} == {0o777 & ~umask}


def test_json_that_was_cut_short_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "values.json"
    for content in (b'{"a": ', b"\xff\xfe", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"values\.json cannot be read .*: the file is broken or cut short"):
            read_json(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "nowhere.json")


def test_a_full_disk_is_said_with_the_place_and_the_space_that_is_needed(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    expected = (
        r"folder.values\.json cannot be written \(No space left on device\): 3 kB are needed, and [\d,]+ kB are free"
    )
    with pytest.raises(StorageError, match=expected), replacing_folder(tmp_path / "folder") as draft:
        write_record(draft / "values.json", {"a": "x" * 3000})
    assert list(tmp_path.iterdir()) == []
