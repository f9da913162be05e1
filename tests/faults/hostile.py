"""Files made to mislead: arrays, archives, images, tables, settings, runs, bundles and estimators."""

import io
import json
import os
import random
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import yaml
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from faults.damage import damage
from faults.outcomes import Outcome, call, command
from magnet.data import open_data
from magnet.errors import UserError, checked
from magnet.training.config import TrainConfig
from magnet.training.folder import Manifest

DAMAGE = ("cut", "flip", "garbage", "zeros")


def _npy(header: str, content: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version == (1, 0) else "<I", len(text)) + text + content


def _header(shape: str, dtype: str = "<f4") -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"


def _npz(path: Path, compression: int = zipfile.ZIP_STORED, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def _array(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


GOOD_X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
GOOD_Y = np.arange(12) % 3


def _png(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is large."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def _vectors(**changes: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        np.savez(folder / "x.npz", **{"X": GOOD_X, "y": GOOD_Y, **changes})
        return folder / "x.npz"

    return make


def _raw(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def _members(compression: int = zipfile.ZIP_STORED, **members: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        _npz(folder / "x.npz", compression, **{"X": _array(GOOD_X), "y": _array(GOOD_Y), **members})
        return folder / "x.npz"

    return make


def _photos(spoil: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        for c in range(2):
            (folder / "p" / f"c{c}").mkdir(parents=True)
            for i in range(3):
                Image.fromarray(np.full((9, 9, 3), 40 * i, np.uint8)).save(folder / "p" / f"c{c}" / f"{i}.png")
        spoil(folder / "p" / "c0")
        return folder / "p"

    return make


def _loop(folder: Path) -> None:
    (folder / "again").symlink_to(folder.parent)
    (folder / "self.png").symlink_to(folder / "self.png")


# Each makes data that must be refused in words, or opened as it is.
DATA: dict[str, Callable[[Path], Path]] = {
    "a shape of terabytes": _members(X=_npy(_header("(1000000000, 1000000)"), b"\0" * 64)),
    "a shape below zero": _members(X=_npy(_header("(-1, 3)"), b"\0" * 64)),
    "a shape whose product overflows": _members(X=_npy(_header("(4294967296, 4294967296, 4)"), b"\0" * 64)),
    "a large shape, stored": _members(X=_npy(_header("(1000000, 3)"), b"\0" * (2**20 + 64))),
    "a shape that is text": _members(X=_npy(_header("'ab'"), b"\0" * 64)),
    "a header that is code": _members(X=_npy("__import__('os').system('false')", b"\0" * 64)),
    "a header without an end": _members(X=_npy("{'descr': '<f4', 'shape': (", b"\0" * 64)),
    "a deep header": _members(X=_npy("(" * 3000, b"")),
    "objects": _vectors(y=np.array([{}] * 12, object)),
    "a compressed bomb": _members(zipfile.ZIP_DEFLATED, X=_npy(_header("(100000, 100)"), b"\0" * 40_000_000)),
    "another version": _members(X=_npy(_header("(12, 3)"), b"\0" * 144, (9, 9))),
    "no numpy file": _members(X=b"hello"),
    "an empty member": _members(X=b""),
    "not a zip": _raw("x.npz", b"PK\x03\x04 and nothing more"),
    "labels of 1e30": _vectors(y=np.array([1e30, 2e30] * 6)),
    "labels of infinity": _vectors(y=np.array([np.inf, 1.0] * 6)),
    "labels of NaN": _vectors(y=np.array([np.nan, 1.0] * 6)),
    "labels of fractions": _vectors(y=np.linspace(0, 1, 12)),
    "complex vectors": _vectors(X=GOOD_X.astype(complex)),
    "dates": _vectors(X=np.arange(36).reshape(12, 3).astype("datetime64[s]")),
    "vectors of NaN": _vectors(X=np.full((12, 3), np.nan)),
    "vectors of 1e300": _vectors(X=np.full((12, 3), 1e300)),
    "vectors of 1e-300": _vectors(X=GOOD_X.astype(float) * 1e-300),
    "vectors around 1e9": _vectors(X=GOOD_X.astype(float) + 1e9),
    "int64 near 2^60": _vectors(X=(2**60 + np.arange(36).reshape(12, 3))),
    "no rows": _vectors(X=GOOD_X[:0], y=GOOD_Y[:0]),
    "no columns": _vectors(X=GOOD_X[:, :0]),
    "a split of letters": _vectors(split=np.array(list("abcdefghijkl"))),
    "everything is a test": _vectors(test=np.ones(12, bool)),
    "names with control characters": _vectors(name=np.array([f"\x1b[2J{i}\x07" for i in range(12)])),
    "classes with control characters": _vectors(y=np.array(["\x1b]0;x\x07", "b", "c"] * 4)),
    "npy of terabytes": _raw("x.npy", _npy(_header("(1000000000, 1000000)"), b"\0" * 64)),
    "npy cut short": _raw("x.npy", _array(GOOD_X)[:-20]),
    "a CSV without an end": _raw("x.csv", b"path,label\n" + b"a" * (2**24 + 10)),
    "a CSV of many columns": _raw("x.csv", b"label," + b",".join(b"c%d" % i for i in range(200_000)) + b"\n"),
    "a CSV of the same columns": _raw("x.csv", b"label," + b",".join([b"c"] * 100_000) + b"\n"),
    "a CSV of bytes": _raw("x.csv", bytes(range(256)) * 20),
    "a CSV with zero bytes": _raw("x.csv", b"path,label\n\0,\0\n"),
    "a CSV of uneven rows": _raw("x.csv", b"a,b,label\n1,2\n1,2,3,4\n"),
    "a CSV of a path outside": _raw("x.csv", b"path,label\n/dev/zero,a\n/dev/zero,b\n"),
    "an empty CSV": _raw("x.csv", b""),
    "an empty parquet": _raw("x.parquet", b""),
    "a parquet of noise": _raw("x.parquet", b"PAR1" + bytes(99) + b"PAR1"),
    "a tar of noise": _raw("x.tar", bytes(range(256)) * 40),
    "an empty tar": _raw("x.tar", b"\0" * 10240),
    "a pipe among images": _photos(lambda folder: os.mkfifo(folder / "pipe.png")),
    "a device among images": _photos(lambda folder: (folder / "zero.png").symlink_to("/dev/zero")),
    "a loop of links": _photos(_loop),
    "an image of a terapixel": _photos(lambda folder: (folder / "big.png").write_bytes(_png(2**20, 2**20))),
    "an image of 100 megapixels": _photos(lambda folder: (folder / "big.png").write_bytes(_png(10_000, 10_000))),
    "an image cut short": _photos(lambda folder: (folder / "0.png").write_bytes((folder / "0.png").read_bytes()[:45])),
    "an image of noise": _photos(lambda folder: (folder / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))),
    "names that are not UTF-8": _photos(lambda folder: (folder / "0.png").rename(folder / os.fsdecode(b"\xff.png"))),
    "a class that is not UTF-8": _photos(lambda folder: folder.rename(folder.parent / os.fsdecode(b"c\xff"))),
}  # fmt: skip

DEEP = "[" * 50_000
SETTINGS: dict[str, str] = {
    "deep": f"data: {DEEP}",
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ndata: *c\n",
    "a date of the 40th": "data: 2020-05-40\n",
    "python": "data: !!python/object/apply:os.system ['false']\n",
    "a list": "[1, 2]\n",
    "nothing": "",
    "bytes": "data: !!binary aGk=\n",
    "unknown": "data: digits\ncolour: red\n",
    "wrong types": "data: 3\nepochs: many\n",
    "too large": "data: digits\nepochs: 1" + "0" * 400 + "\n",
    "not finite": "data: digits\nlearning_rate: .nan\n",
    "cut short": 'data: "dig',
    "tabs": "data:\t- \t{\n",
    "keys that are lists": "? [a, b]\n: c\n",
}


def hostile_data(folder: Path, *, train: bool = True) -> Iterator[tuple[str, Outcome]]:
    """Every case of DATA and SETTINGS, looked at, and trained on if wanted."""
    for number, (name, make) in enumerate(DATA.items()):
        place = folder / str(number)
        place.mkdir(parents=True)
        spec = make(place)
        yield f"data look: {name}", command("data", "look", spec)
        if not train:
            continue
        words = ["--steps", 1, "--preset", "paper/default", "--quiet", "--no-evaluate", "--out", place / "run"]
        small = ["--image-size", 16, "--workers", 0, "--backbone", "convnet"] if "p" in spec.parts[-1:] else []
        yield f"train: {name}", command("train", "--data", spec, *words, *small)
        if spec.suffix in (".npz", ".npy", ".csv", ".parquet"):
            shutil.rmtree(place / "run", ignore_errors=True)
    for name, text in SETTINGS.items():
        (folder / "settings.yaml").write_text(text)
        out = folder / "never"
        yield f"settings: {name}", command("train", "--config", folder / "settings.yaml", "--out", out, "--steps", 0)
        shutil.rmtree(out, ignore_errors=True)
        (folder / "a-run").mkdir(exist_ok=True)
        (folder / "a-run" / "config.yaml").write_text(text)
        yield f"a run of settings: {name}", command("evaluate", folder / "a-run")


def damaged_inputs(folder: Path, cases: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Data of all kinds with seeded damage, opened."""
    from magnet.data import open_data

    chance = random.Random(seed)
    (folder / "good").mkdir(parents=True)
    sources = [_vectors()(folder / "good")]
    with zipfile.ZipFile(folder / "good" / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", _array(np.tile(GOOD_X, (50, 1))))
        archive.writestr("y.npy", _array(np.tile(GOOD_Y, 50)))
    (folder / "good" / "t.csv").write_text("a,b,label\n" + "".join(f"{i},{i * i},{i % 3}\n" for i in range(20)))
    sources += [folder / "good" / "z.npz", folder / "good" / "t.csv"]
    for kind in ("png", "jpg", "bmp", "gif", "tif", "webp"):
        file = folder / "good" / f"i.{kind}"
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 20, 3), np.uint8)).save(file)
        sources.append(file)
    from magnet.data.images import decode

    for _ in range(cases):
        source = chance.choice(sources)
        broken = folder / f"broken{source.suffix}"
        shutil.copy(source, broken)
        kind = chance.choice(DAMAGE)
        for _ in range(chance.choice((1, 1, 3, 20))):
            damage(broken, kind, chance)
            if not broken.stat().st_size:
                break
        vectors = source.suffix in (".npz", ".csv")
        open_it = (lambda b=broken: open_data(str(b)).batch([0])) if vectors else (lambda b=broken: decode(b, 8))
        yield f"{kind} {source.name}", call(open_it, (UserError,))


def fuzzed_inputs(folder: Path, cases: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Tables, arrays, settings and records that hypothesis makes, read; so many cases of them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = st.text(st.characters(exclude_categories=()), max_size=8)
    cell = st.one_of(text, st.sampled_from(["1", "-2.5", "nan", "1e400", '"', ";", "0x1", "label", "path", "x"]))
    table = st.lists(st.lists(cell, max_size=4), max_size=6).map(lambda rows: "\n".join(",".join(row) for row in rows))
    dtype = st.one_of(arrays.scalar_dtypes(), arrays.unicode_string_dtypes(max_len=4))
    array = arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    stored = st.dictionaries(st.sampled_from(["X", "y", "split", "test", "name", "classes", "attributes"]), array)
    value = st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text),
        lambda some: st.one_of(st.lists(some, max_size=3), st.dictionaries(text, some, max_size=3)),
        max_leaves=5,
    )
    names = st.sampled_from(["data", "epochs", "learning_rate", "method", "hidden", "out", "seed", "label", "preset"])
    found: list[tuple[str, Outcome]] = []

    def record(what: str, made: Any, work: Callable[[], Any]) -> None:
        found.append((f"{what}: {made!r:.300}", call(work, (UserError,))))

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=cases, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(
        st.one_of(
            st.tuples(st.just("table"), table),
            st.tuples(st.just("arrays"), stored),
            st.tuples(st.just("settings"), st.dictionaries(names, value, max_size=3)),
            st.tuples(st.just("record"), value),
        )
    )
    def tried(case: tuple[str, Any]) -> None:
        what, made = case
        if what == "table":
            (folder / "t.csv").write_bytes(made.encode(errors="surrogatepass"))
            record(what, made, lambda: open_data(str(folder / "t.csv")).batch([0]))
        elif what == "arrays":
            np.savez(folder / "a.npz", **made)
            record(what, made, lambda: open_data(str(folder / "a.npz")).batch([0]))
        elif what == "settings":
            (folder / "s.yaml").write_text(yaml.safe_dump(made), encoding="utf-8", errors="surrogatepass")
            record(what, made, lambda: TrainConfig.load(folder / "s.yaml").check())
        else:
            record(what, made, lambda: checked(made, Manifest, "a record"))

    tried()
    yield from found[:cases]


NONSENSE = (
    None, True, -1, 0, 1e308, float("nan"), "", "x" * 99, [], {}, [[[]]], 10**30, "../../etc/passwd", "\0", -1e-320,
    1e-45, 2**31, 2**53 + 1, -(2**63), float("-inf"), 0.5, "1", "<U9999999", "object", [0], [None], {"pairs": [[1, 2]]},
    "\x1b[2J", "mlp", "timm/resnet18@pretrained",
)  # fmt: skip


def spoilt_json(text: str, chance: random.Random) -> str:
    """A JSON object in which one value has become something else."""
    values = json.loads(text)
    place = values
    while True:
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.8:
            place = place[key]
            continue
        place[key] = chance.choice(NONSENSE)
        return json.dumps(values)
