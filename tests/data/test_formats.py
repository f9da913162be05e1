"""Data as people have it: every format gives the same examples, and the same errors, as the .npz or the folder."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import magnet
from magnet.data import Dataset, open_data
from magnet.data.sources import find_source, kind_of
from magnet.data.tables import list_frame
from magnet.errors import UserError

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DIGITS, LABELS = load_digits(return_X_y=True)
X, Y = DIGITS[:600].astype(np.float32), LABELS[:600]
SPLIT = np.where(np.arange(600) % 3, 0, 2)
WORDS = np.array(["train", "validation", "test"])[SPLIT]


def frame(label="label"):
    table = pandas.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    return table.assign(**{label: [f"digit {y}" for y in Y], "split": WORDS})


def write_csv(folder):
    frame().to_csv(folder / "x.csv")  # with the row numbers of pandas, which are no feature
    return folder / "x.csv"


def write_semicolons(folder):
    frame().to_csv(folder / "x.csv", sep=";", index=False)
    return folder / "x.csv"


def write_tabs(folder):
    frame().to_csv(folder / "x.tsv", sep="\t", index=False)
    return folder / "x.tsv"


def write_parquet(folder):
    frame().to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


def write_lists(folder):
    table = pyarrow.table({"embedding": list(X), "target": Y, "test": SPLIT == 2})
    parquet.write_table(table, folder / "lists.parquet")
    return folder / "lists.parquet"


def write_data_target(folder):
    np.savez(folder / "bunch.npz", data=X, target=Y, target_names=np.arange(10).astype(str), split=SPLIT)
    return folder / "bunch.npz"


def write_polars(folder):
    polars = pytest.importorskip("polars")
    polars.from_pandas(frame()).write_parquet(folder / "polars.parquet")
    return folder / "polars.parquet"


def write_shards(folder):
    for word, rows in (("train", SPLIT == 0), ("test", SPLIT == 2)):
        (folder / "hub" / "data").mkdir(parents=True, exist_ok=True)
        table = pyarrow.table({"x": list(X[rows]), "label": Y[rows]})
        parquet.write_table(table, folder / "hub" / "data" / f"{word}-00000-of-00001.parquet")
    return folder / "hub"


def write_datasets(folder):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"vector": datasets.Sequence(datasets.Value("float32")), "label": datasets.ClassLabel(names=list("abcdefghij"))}
    )
    parts = {
        word: datasets.Dataset.from_dict({"vector": X[rows], "label": Y[rows]}, features=features)
        for word, rows in (("train", SPLIT == 0), ("test", SPLIT == 2))
    }
    datasets.DatasetDict(parts).save_to_disk(folder / "saved")
    return folder / "saved"


VECTORS = [
    write_csv, write_semicolons, write_tabs, write_parquet, write_lists, write_data_target, write_polars, write_shards,
    write_datasets,
]  # fmt: skip


@pytest.fixture(scope="module")
def vector_run(tmp_path_factory):
    """A short run on the .npz, and its error on the test part."""
    folder = tmp_path_factory.mktemp("run")
    np.savez(folder / "x.npz", X=X, y=Y, split=SPLIT)
    run = magnet.train(folder / "x.npz", folder / "run", steps=20, start="random", silent=True)
    return run, magnet.evaluate(run)["knc"]["error"]


@pytest.mark.parametrize("write", VECTORS)
def test_vectors_in_every_format_have_the_error_of_the_npz(write, tmp_path, vector_run):
    path = write(tmp_path)
    data = open_data(str(path))
    run, error = vector_run
    assert kind_of(str(path)) == data.kind == "vectors"
    assert len(data.classes) == 10
    order = np.argsort(SPLIT, kind="stable") if path.is_dir() else np.arange(600)
    np.testing.assert_array_equal(data.batch(data.indices("all")).numpy(), X[order])
    assert data.labels.tolist() == Y[order].tolist()
    data.classes = run.classes  # the formats call the digits differently
    found = magnet.evaluate(run, data)
    assert (found["n"], found["knc"]["error"]) == (200, error)


def test_an_npy_takes_its_labels_from_a_file_beside_it(tmp_path, vector_run):
    np.save(tmp_path / "X_train.npy", X)
    path = str(tmp_path / "X_train.npy")
    with pytest.raises(UserError, match=r"found no labels beside it, such as y_train\.npy .* --label FILE"):
        open_data(path)
    np.save(tmp_path / "features.npy", X)
    with pytest.raises(UserError, match=r"beside it, such as label\.npy or labels\.txt"):
        open_data(str(tmp_path / "features.npy"))
    np.save(tmp_path / "y_train.npy", Y)
    (tmp_path / "words.txt").write_text("".join(f"{y}\n" for y in Y))
    for label in ("", "words.txt", str(tmp_path / "words.txt")):
        data = open_data(path, label=label)
        np.testing.assert_array_equal(data.vectors, X)
        assert data.labels.tolist() == Y.tolist()
    with pytest.raises(UserError, match=r"--label gone\.npy is no file that exists; .* an \.npy, or a \.txt"):
        open_data(path, label="gone.npy")


def test_frames_of_pandas_and_polars_give_the_same_run(tmp_path):
    polars = pytest.importorskip("polars")
    frames = {"pandas": frame("kind"), "polars": polars.from_pandas(frame("kind"))}
    short = {"label": "kind", "steps": 20, "start": "random", "silent": True}
    runs = {name: magnet.train(table, tmp_path / name, **short) for name, table in frames.items()}
    errors = {magnet.evaluate(run)["knc"]["error"] for run in runs.values()}
    assert len(errors) == 1
    assert runs["polars"].data.feature_names[3] == "pixel 3"
    for table in (frames["polars"], pyarrow.Table.from_pandas(frames["pandas"])):
        assert magnet.evaluate(runs["pandas"], table)["knc"]["error"] in errors


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_without_the_column_of_labels_says_which_columns_there_are(kind):
    table = frame("kind of digit")
    if kind == "polars":
        table = pytest.importorskip("polars").from_pandas(table)
    with pytest.raises(UserError, match=r"there is no column 'lable' for --label.* It has the columns '"):
        list_frame(table, label="lable")
    with pytest.raises(UserError, match=r"found no column of labels among .*; name one as --label NAME"):
        list_frame(table)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_may_hold_its_vectors_in_one_column(kind):
    if kind == "polars":
        table = pytest.importorskip("polars").DataFrame({"embedding": X.tolist(), "label": Y})
    else:
        table = pandas.DataFrame({"embedding": list(X), "label": Y})
    np.testing.assert_array_equal(list_frame(table).content, X)
    with pytest.raises(UserError, match=r"the lists in embedding have shapes \(1,\), \(2,\); expected one length"):
        list_frame(pandas.DataFrame({"embedding": [[1.0], [1.0, 2.0]], "label": [0, 1]}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"label": pandas.array(["a", None] * 6, dtype="string")},
            "label: row 2 of 12 is empty; all rows need a label",
        ),
        ({"label": [0.5, 1.0] * 6}, "label holds 0.5, expected class ids .* or class names"),
        ({"label": [b"a", b"b"] * 6}, r"label holds bytes \(row 1\), expected class ids or class names"),
        ({"label": pandas.Timestamp(0)}, "label is datetime64.*, expected class ids"),
    ],
)
def test_labels_of_another_kind_are_refused_by_the_name_of_their_column(change, message, tmp_path):
    table = frame()[:12].assign(**change)
    with pytest.raises(UserError, match=f"frame: {message}"):
        list_frame(table)
    if "string" not in str(table.label.dtype):
        table.to_parquet(tmp_path / "x.parquet")
        with pytest.raises(UserError, match=rf"x\.parquet: {message}"):
            open_data(str(tmp_path / "x.parquet"))


def test_two_columns_of_one_name_are_refused_in_frames_and_tables(tmp_path):
    table = pyarrow.table([pyarrow.array(Y)] * 3, names=["a", "label", "label"])
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(UserError, match="two columns are called 'label'"):
        open_data(str(tmp_path / "x.parquet"))
    with pytest.raises(UserError, match="frame: two columns are called 'label'"):
        list_frame(pandas.concat([frame(), frame()[["label"]]], axis=1))


def test_files_of_a_table_that_do_not_belong_together_are_named(tmp_path):
    write_shards(tmp_path)
    odd = tmp_path / "hub" / "data" / "more.parquet"
    parquet.write_table(pyarrow.table({"x": list(X), "label": Y}), odd)
    with pytest.raises(UserError, match=r"more\.parquet is of no part, but others are"):
        open_data(str(tmp_path / "hub"))
    parquet.write_table(pyarrow.table({"z": list(X), "label": Y}), odd.rename(odd.with_name("val.parquet")))
    with pytest.raises(UserError, match=r"val\.parquet: has no column 'x', which train-00000.* has"):
        open_data(str(tmp_path / "hub"))
    parquet.write_table(pyarrow.table({"x": list(X[:0]), "label": Y[:0]}), tmp_path / "x.parquet")
    with pytest.raises(UserError, match="has columns, but no rows"):
        open_data(str(tmp_path / "x.parquet"))


@pytest.mark.parametrize("content", ["[]", "{}", '{"_data_files": [1]}', '{"splits": 5}'])
@pytest.mark.parametrize("name", ["state.json", "dataset_dict.json"])
def test_a_damaged_description_of_a_saved_data_set_is_refused_in_words(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=rf"{name} names no (splits|files of data); save it again with save_to_disk"):
        open_data(str(tmp_path))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classes": np.array(["a"] * 10)}, "two classes are called 'a'"),
        ({"classes": np.array("a")}, r"classes has shape \(\), expected a list of names"),
        ({"y": Y[:, None]}, r"y has shape \(600, 1\), but X has 600 rows; expected shape \(600,\)"),
        ({"y": Y.astype(object)}, r"y\.npy cannot be read: it holds Python objects.*values\.astype\(str\)"),
        ({"y": None, "labels": Y, "target": Y}, "labels and target may all be the labels; say which"),
    ],
)
def test_an_npz_says_what_is_wrong_with_its_labels(given, message, tmp_path):
    arrays = {"X": X, "y": Y} | given
    np.savez(tmp_path / "x.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(UserError, match=message):
        open_data(str(tmp_path / "x.npz"))


def test_a_lazy_frame_is_collected():
    polars = pytest.importorskip("polars")
    listing = list_frame(polars.from_pandas(frame("kind")).lazy(), label="kind")
    np.testing.assert_array_equal(listing.content, X)


def test_the_estimator_takes_frames_of_polars():
    polars = pytest.importorskip("polars")
    names = [f"pixel {i}" for i in range(64)]
    table, words = polars.DataFrame(X, schema=names), polars.Series([f"digit {y}" for y in Y])
    model = magnet.NearestClustersClassifier(n_clusters=2, random_state=0).fit(table, words)
    plain = magnet.NearestClustersClassifier(n_clusters=2, random_state=0).fit(X, words.to_numpy())
    assert model.feature_names_in_.tolist() == names
    assert (model.predict(table) == plain.predict(X)).all()


def sparse_file(folder):
    scipy = pytest.importorskip("scipy.sparse")
    scipy.save_npz(folder / "sparse.npz", scipy.csr_matrix(X))
    return str(folder / "sparse.npz")


def test_sparse_matrices_get_a_clear_answer(tmp_path):
    scipy = pytest.importorskip("scipy.sparse")
    with pytest.raises(UserError, match=r"holds a sparse matrix; vectors must be dense: X\.toarray\(\).*TruncatedSVD"):
        open_data(sparse_file(tmp_path))
    with pytest.raises(UserError, match=r"X is a sparse matrix of shape \(600, 64\).*TruncatedSVD"):
        magnet.train((scipy.csr_matrix(X), Y))
    with pytest.raises(TypeError, match="dense data is required"):
        magnet.MagnetClassifier().fit(scipy.csr_matrix(X), Y)


@pytest.mark.parametrize("write", [write_csv, write_parquet, write_shards, write_datasets, write_data_target])
def test_a_label_column_that_is_not_there_is_said_with_the_columns_there_are(write, tmp_path):
    path = str(write(tmp_path))
    with pytest.raises(UserError, match=r"there is no column 'lable' for --label.* It has the columns '") as error:
        open_data(path, label="lable")
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="no column 'fin' for --judge"):
        open_data(path, judge="fin")


def test_a_table_without_labels_says_how_to_name_them(tmp_path):
    frame("kind of digit").to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(UserError, match=r"found no column of labels among .* \(66 in all\); name one as --label NAME"):
        open_data(str(tmp_path / "x.csv"))
    assert len(open_data(str(tmp_path / "x.csv"), label="kind of digit").classes) == 10


def test_columns_that_are_no_numbers_are_left_out_and_named(tmp_path):
    frame().assign(colour="red", target=Y).to_csv(tmp_path / "x.csv", index=False)
    data = open_data(str(tmp_path / "x.csv"))
    assert data.shape == (64,)  # nor is `target`, which may be the labels in other words
    assert data.notes == ["columns left out, because they are not numbers: colour"]


def test_a_spreadsheet_may_write_commas_for_decimals_and_words_for_truth(tmp_path):
    table = pandas.DataFrame({"whole": range(4), "part": [0.5, -1.25, 3.0, 1e-3], "flag": [True, False] * 2})
    table["label"] = ["no, really", "yes"] * 2
    for sep in ";\t":
        table.to_csv(tmp_path / "x.csv", index=False, sep=sep, decimal=",")
        data = open_data(str(tmp_path / "x.csv"))
        assert data.notes == []
        np.testing.assert_array_equal(data.vectors, table[["whole", "part", "flag"]].to_numpy(np.float32))
        assert data.classes == ["no, really", "yes"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_a_table_whose_numbers_float32_would_lose_is_refused_with_the_column(kind, tmp_path):
    def read(values):
        table = pandas.DataFrame({"a": [1.0, 2.0], "seconds": values, "label": ["x", "y"]})
        if kind == "frame":
            return list_frame(table)
        getattr(table, f"to_{kind}")(tmp_path / f"x.{kind}", index=False)
        return find_source(str(tmp_path / f"x.{kind}"))()

    with pytest.raises(UserError, match="1 of 2 columns of X, as seconds, from 1700000000 to 1700000001, are lost"):
        read([1.7e9, 1.7e9 + 1])
    with pytest.raises(UserError, match=r"X holds 1e\+39, beyond the range of float32"):
        read([1.0, 1e39])
    with pytest.raises(UserError, match=r"in 1 of 2 columns \(seconds\); remove or repair them"):
        read([1.0, np.inf])
    assert read([1.0, 0.1]).content.dtype == np.float32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,0\n3,4,1\n", "the first line holds numbers; expected the names of the columns"),
        ("a,b,label\n1,2,x\n3,y\n", "line 3: 2 cells, but there are 3 columns"),
        ("a,b,label\n1,2,x\n3,oops,y\n", "line 3: b is 'oops', expected a number"),
        ("a,b,label\n1,2,x\n3,,y\n", "1 of 2 rows of X hold NaN"),
        ("a,b,label\n", "has no rows below the names of its columns"),
        ("a,b,label\n1,2,x\n3,4,\n", r"x\.csv: label: row 2 of 2 is empty"),
        ("a,a,label\n1,2,x\n", "two columns are called 'a'"),
        ("\na,label\n1,x\n", "found no names of columns; a CSV has them in its first line"),
        ("a b label\n1 2 x\n", "found one column alone, 'a b label'; .* with commas, semicolons or tabs between them"),
        ('a,label\n1,"x\n2,x\n3,y\n', "x\\.csv, line 4: unexpected end of data; is a quotation mark left open"),
        ("a,label\n1,x\n2,y\n", r"each of the 2 examples has a label of its own \(x, y\).* --label NAME"),
        ("a,path,label\n1,gone.png,x\n", "1 of 1 images do not exist.* For vectors, call the column path name instead"),
        ("a,target,class\n1,2,x\n", "target and class may all be the labels; say which: --label target"),
    ],
)
def test_a_csv_of_vectors_that_does_not_fit_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        open_data(str(tmp_path / "x.csv"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two classes of ten pictures each, in class folders."""
    folder, rng = tmp_path_factory.mktemp("photos") / "photos", np.random.default_rng(0)
    for number, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for i in range(10):
            pixels = rng.integers(0, 120, (18, 24, 3)) + 120 * number
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.png")
    return folder


def files_of(photos):
    return [(file, name) for name in ("cat", "dog") for file in sorted((photos / name).glob("*.png"))]


def write_bytes(photos, folder):
    rows = [(file.read_bytes(), name) for file, name in files_of(photos)]
    table = pyarrow.table({"image": [content for content, _ in rows], "label": [name for _, name in rows]})
    parquet.write_table(table, folder / "images.parquet")
    return folder / "images.parquet"


def write_paths(photos, folder):
    rows = files_of(photos)
    table = pyarrow.table({"path": [str(file) for file, _ in rows], "label": [name for _, name in rows]})
    parquet.write_table(table, folder / "paths.parquet")
    return folder / "paths.parquet"


def write_records(photos, folder):
    """As `Dataset.to_parquet` writes the images of a folder: by their paths alone."""
    rows = [({"bytes": None, "path": str(file)}, name) for file, name in files_of(photos)]
    record = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    images = pyarrow.array([image for image, _ in rows], record)
    parquet.write_table(pyarrow.table({"image": images, "label": [name for _, name in rows]}), folder / "r.parquet")
    return folder / "r.parquet"


def write_image_dataset(photos, folder):
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features({"image": datasets.Image(), "label": label})
    rows = [{"image": {"bytes": file.read_bytes(), "path": None}, "label": name} for file, name in files_of(photos)]
    datasets.Dataset.from_list(rows, features=features).save_to_disk(folder / "saved")
    return folder / "saved"


def write_metadata(photos, folder):
    lines = [{"file_name": f"{name}-{file.name}", "label": name} for file, name in files_of(photos)]
    for line, (file, _) in zip(lines, files_of(photos), strict=True):
        (folder / line["file_name"]).write_bytes(file.read_bytes())
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def write_metadata_csv(photos, folder):
    lines = [f"{file.parent.name}{file.name},{name}" for file, name in files_of(photos)]
    for file, _ in files_of(photos):
        (folder / f"{file.parent.name}{file.name}").write_bytes(file.read_bytes())
    (folder / "metadata.csv").write_text("\n".join(["file_name,label", *lines]))
    return folder


def write_tar(photos, folder, kind="cls"):
    with tarfile.open(folder / "shard-000.tar", "w") as archive:
        for number, (file, name) in enumerate(files_of(photos)):
            about = json.dumps({"label": name} if kind == "json" else {"size": 3})
            members = {"json": about.encode(), kind: about.encode() if kind == "json" else name.encode()}
            for extension, content in {"png": file.read_bytes(), **members}.items():
                info = tarfile.TarInfo(f"{number:04d}.{extension}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return folder


def write_json_tar(photos, folder):
    return write_tar(photos, folder, "json") / "shard-000.tar"


IMAGES = [
    write_bytes, write_paths, write_records, write_image_dataset, write_metadata, write_metadata_csv, write_tar,
    write_json_tar,
]  # fmt: skip


@pytest.mark.parametrize("write", IMAGES)
def test_images_in_every_format_are_those_of_the_folder(write, photos, tmp_path):
    path = str(write(photos, tmp_path))
    plain, data = (open_data(str(each)).with_image_size(10) for each in (photos, path))
    assert kind_of(path) == data.kind == "images"
    assert data.classes == ["cat", "dog"]
    assert data.labels.tolist() == plain.labels.tolist()
    assert torch.equal(data.batch(range(20)), plain.batch(range(20)))
    assert data.split.tolist() == plain.split.tolist()
    assert data.digest == open_data(path).digest
    assert open_data(path, hash_images=True).digest.known_by == "file bytes"
    with pytest.raises(UserError, match=r"lable"):
        open_data(path, label="lable")


def test_tables_beside_the_images_of_each_part_are_read_together(photos, tmp_path):
    for word, numbers in (("train", range(7)), ("test", range(7, 10))):
        (tmp_path / word).mkdir()
        lines = [(f"{name}{i}.png", name) for name in ("cat", "dog") for i in numbers]
        for file, name in lines:
            (tmp_path / word / file).write_bytes((photos / name / file.removeprefix(name)).read_bytes())
        rows = ["file_name,label", *(f"{file},{name}" for file, name in lines)]
        (tmp_path / word / "metadata.csv").write_text("\n".join(rows))
    data = open_data(str(tmp_path)).with_image_size(10)
    assert data.split.tolist() == [0] * 14 + [2] * 6
    assert data.names[-1] == "test/dog9.png"
    plain = open_data(str(photos)).with_image_size(10)
    assert torch.equal(data.batch([0, 13, 19]), plain.batch([0, 16, 19]))
    (tmp_path / "test" / "metadata.csv").write_text("file_name,kind\ncat7.png,cat\n")
    with pytest.raises(UserError, match=r"metadata\.csv: found no column label among file_name, kind"):
        open_data(str(tmp_path))
    (tmp_path / "test" / "metadata.csv").unlink()
    (tmp_path / "test" / "metadata.jsonl").write_text('{"file_name": "cat7.png"}')
    with pytest.raises(UserError, match=r"metadata\.jsonl: found no column label among file_name"):
        open_data(str(tmp_path))


@pytest.mark.parametrize(
    ("label", "message"),
    [(None, "label: row 20 of 20 is empty"), ({"a": 1}, r"label holds dict \(row 20\)"), ("\xe9", "as UTF-8 text")],
)
def test_metadata_with_a_label_of_another_kind_are_refused(label, message, photos, tmp_path):
    path = write_metadata(photos, tmp_path) / "metadata.jsonl"
    line = json.dumps({"file_name": "dog-9.png", "label": label}, ensure_ascii=False)
    path.write_bytes(b"\n".join([*path.read_bytes().splitlines()[:-1], line.encode("latin1")]))
    with pytest.raises(UserError, match=message):
        open_data(str(tmp_path))


def test_a_column_test_is_the_part_of_images_too(photos, tmp_path):
    rows = [f"{file},{name},{int(i % 4 == 0)}" for i, (file, name) in enumerate(files_of(photos))]
    (tmp_path / "images.csv").write_text("\n".join(["path,label,test", *rows]))
    assert open_data(str(tmp_path / "images.csv")).indices("test").tolist() == [0, 4, 8, 12, 16]


def test_images_without_bytes_or_a_file_are_named(photos, tmp_path):
    path = write_records(photos, tmp_path)
    table = parquet.read_table(path).to_pylist()
    table[6]["image"]["path"] = "gone.png"
    parquet.write_table(pyarrow.Table.from_pylist(table, parquet.read_schema(path)), path)
    with pytest.raises(UserError, match=r"20 of 20 images have no bytes.*row 7 names gone\.png, which is not there"):
        open_data(str(path))


def test_an_image_that_cannot_be_read_is_named_by_its_row(photos, tmp_path):
    rows = [file.read_bytes() for file, _ in files_of(photos)]
    rows[3] = b"broken"
    parquet.write_table(pyarrow.table({"image": rows, "label": ["a", "b"] * 10}), tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"x\.parquet, row 4: cannot be read as an image"):
        open_data(str(tmp_path / "x.parquet"))[3]
    assert len(open_data(str(tmp_path / "x.parquet"), on_bad_image="skip")) == 19


class Pictures(torch.utils.data.Dataset):
    """A torch data set of images."""

    def __init__(self, form):
        self.form = form

    def __len__(self):
        return 24

    def __getitem__(self, index):
        pixels = np.random.default_rng(index).integers(0, 120, (16, 20, 3)) + 120 * (index % 2)
        pixels = pixels.astype(np.uint8)
        forms = {
            "pillow": Image.fromarray(pixels),
            "array": pixels,
            "tensor": torch.tensor(pixels).permute(2, 0, 1),
            "floats": torch.tensor(pixels).permute(2, 0, 1) / 255,
            "normalised": torch.tensor(pixels).permute(2, 0, 1) / 60 - 2,
        }
        return forms[self.form], index % 2


def test_a_torch_data_set_of_images_is_trained_on(tmp_path):
    short = {"steps": 4, "image_size": 12, "workers": 0, "test_draws": 1, "silent": True, "clusters_per_class": 2}
    run = magnet.train(Pictures("pillow"), tmp_path / "run", **short)
    assert (run.data.kind, run.config.preset, run.config.backbone) == ("images", "images", "convnet")
    errors = {form: magnet.evaluate(run, Pictures(form))["knc"]["error"] for form in ("array", "tensor", "floats")}
    assert set(errors.values()) == {magnet.evaluate(run)["knc"]["error"]}
    with pytest.raises(UserError, match=r"holds values from -2 to .*leave out Normalize"):
        magnet.train(Pictures("normalised"))


def test_two_levels_of_labels_come_from_columns_folders_and_names(tmp_path, photos):
    coarse = np.where(Y < 5, "low", "high")
    np.savez(tmp_path / "x.npz", X=X, coarse=coarse, fine=Y)
    frame().assign(coarse=coarse).to_csv(tmp_path / "x.csv")
    for name, fine in (("x.npz", "fine"), ("x.csv", "label")):
        data = open_data(str(tmp_path / name), label="coarse", judge=fine)
        assert (data.classes, len(data.fine_classes), data.shape) == (["high", "low"], 10, (64,))
        assert data.fine_labels.tolist() == Y.tolist()
    for kind, names in {"cat": ("tabby", "siam"), "dog": ("pug", "beagle")}.items():
        for i, name in enumerate(names * 4):
            (tmp_path / "nested" / kind / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(tmp_path / "nested" / kind / name / f"{i}.png")
    data = open_data(str(tmp_path / "nested"), label="coarse", judge="fine")
    assert (data.classes, data.fine_classes) == (["cat", "dog"], ["cat/siam", "cat/tabby", "dog/beagle", "dog/pug"])
    assert len(open_data(str(tmp_path / "nested"), label="fine").classes) == 4
    with pytest.raises(UserError, match="one level of labels only"):
        open_data(str(photos), label="coarse")
    with pytest.raises(UserError, match="has no columns: labels are coarse or fine; found 'breed'"):
        open_data(str(photos), label="breed")


def write_cifar(folder, count=(20, 10)):
    """CIFAR-100's binary files, of a few images: the coarse label, the fine label, red, green, blue."""
    rng = np.random.default_rng(0)
    for part, size in zip(("train", "test"), count, strict=True):
        fine = np.arange(size) % 10
        records = np.column_stack([fine // 5, fine, rng.integers(0, 256, (size, 3072))])
        records.astype(np.uint8).tofile(folder / f"{part}.bin")
    (folder / "fine_label_names.txt").write_text("".join(f"fine {i}\n" for i in range(100)))
    (folder / "coarse_label_names.txt").write_text("".join(f"coarse {i}\n" for i in range(20)))


def test_cifar100_is_read_from_its_binary_files_with_both_levels(tmp_path):
    write_cifar(tmp_path)
    data = open_data(f"cifar100:{tmp_path}", label="coarse", judge="fine")
    assert (data.kind, len(data), len(data.indices("test")), data.image_size) == ("images", 30, 10, 32)
    assert data.classes == ["coarse 0", "coarse 1"]
    assert data.fine_labels[:12].tolist() == [*range(10), 0, 1]
    raw = np.fromfile(tmp_path / "train.bin", np.uint8)[2:3074].reshape(3, 32, 32)
    square = data.with_image_size(24)[0]  # stored at 32 pixels, as they are
    assert square.shape == (3, 32, 32)
    np.testing.assert_array_equal(square.numpy(), raw)
    (tmp_path / "test.bin").write_bytes(b"cut short")
    with pytest.raises(UserError, match="has 9 bytes, expected records of 3,074: it is cut short"):
        open_data(f"cifar100:{tmp_path}")


def test_arrays_in_memory_may_have_labels_of_python():
    data = Dataset.from_arrays(np.eye(4), np.array(["a", "b", "a", "b"], object))
    assert data.classes == ["a", "b"]
    labels = np.empty(2, object)
    labels[:] = ["a", (1, 2)]
    with pytest.raises(UserError, match=r"y holds tuple \(row 2\)"):
        Dataset.from_arrays(np.eye(2), labels)
