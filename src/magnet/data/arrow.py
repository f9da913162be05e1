"""Parquet files, and folders that Hugging Face's `datasets` saved: vectors or images in columns, read with pyarrow.

No code of `datasets` is needed, and none that a folder names is run.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from magnet.data.arrays import MAP_FROM_BYTES, watched
from magnet.data.columns import Roles, assign, check_names
from magnet.data.listings import PARTS, EncodedImage, Listing, Numbered
from magnet.data.tables import finish, folder_of, list_columns, list_content, list_images, stack_numbers, vector_column
from magnet.errors import UserError
from magnet.files import read_json, reading

SAVED, SAVED_PARTS = "state.json", "dataset_dict.json"  # what `save_to_disk` writes: one part, or several


@dataclass(frozen=True)
class ImageCell(EncodedImage):
    """An image file in a cell of a table."""

    column: Any  # pyarrow's array of bytes
    row: int
    where: str

    def read(self) -> bytes:
        """The bytes of the image file."""
        return bytes(self.column[self.row].as_py() or b"")

    def __str__(self) -> str:
        return f"{self.where}, row {self.row + 1}"


@dataclass(frozen=True)
class Shard:
    """A file of a table and the part that all of its rows are in, or None."""

    file: Path
    part: int | None

    def schema(self) -> Any:
        """Names and types of its columns, without reading them."""
        pyarrow = import_pyarrow()
        with reading(self.file, "a table"):
            if self.file.suffix.lower() == ".parquet":
                return pyarrow.parquet.read_schema(self.file)
            with pyarrow.memory_map(str(self.file)) as stream:
                return pyarrow.ipc.open_stream(stream).schema

    def read(self, columns: Sequence[str]) -> Any:
        """Some of its columns; a large Arrow file is memory-mapped."""
        pyarrow = import_pyarrow()
        with reading(self.file, "a table"):
            if self.file.suffix.lower() == ".parquet":
                return pyarrow.parquet.ParquetFile(self.file).read(list(columns))
            large = self.file.stat().st_size >= MAP_FROM_BYTES
            stream = pyarrow.memory_map(str(watched(self.file))) if large else pyarrow.OSFile(str(self.file))
            return pyarrow.ipc.open_stream(stream).read_all().select(list(columns))


def import_pyarrow() -> Any:
    """The package pyarrow, with its reader of Parquet."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise UserError("Parquet and Arrow files need pyarrow: pip install 'magnet-loss[tables]'.") from error
    return pyarrow


def find_shards(path: Path) -> list[Shard]:
    """The files of a table: a Parquet file, a folder of them, or what `save_to_disk` wrote; [] for another folder.

    The files of a folder, or of its folder ``data``, are in the part that their names begin with: train-0.parquet.
    """
    if path.is_file():
        return [Shard(path, None)]
    if (path / SAVED_PARTS).is_file():
        saved = read_json(path / SAVED_PARTS)
        names = saved.get("splits") if isinstance(saved, dict) else None
        if not names or not isinstance(names, list):
            raise UserError(f"{path}: {SAVED_PARTS} names no splits; save it again with save_to_disk.")
        return [shard for name in names for shard in _saved(path / str(name), _part(str(name), path))]
    if (path / SAVED).is_file():
        return _saved(path, None)
    files = sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet"))
    parts = [PARTS.get(file.stem.split("-")[0].split(".")[0].lower()) for file in files]
    if None in parts:
        if any(part is not None for part in parts):
            odd = files[parts.index(None)].name
            raise UserError(f"{path}: {odd} is of no part, but others are: begin all names with train, val or test.")
        return [Shard(file, None) for file in files]
    return sorted(
        (Shard(file, part) for file, part in zip(files, parts, strict=True)), key=lambda shard: shard.part or 0
    )


def _saved(folder: Path, part: int | None) -> list[Shard]:
    state = read_json(folder / SAVED)
    try:
        names = [Path(str(entry["filename"])).name for entry in state["_data_files"]]
    except (KeyError, TypeError):
        names = []
    if not names:
        raise UserError(f"{folder}: {SAVED} names no files of data; save it again with save_to_disk.")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder}: {SAVED} names {missing[0]}, which is not there.")
    return [Shard(folder / name, part) for name in names]


def _part(name: str, where: Path) -> int:
    if name.lower() not in PARTS:
        raise UserError(f"{where}: has a part called {name!r}; expected train, validation and test.")
    return PARTS[name.lower()]


def kind_of_table(shards: Sequence[Shard]) -> str:
    """ "images" or "vectors"."""
    schema = shards[0].schema()
    roles = assign(schema.names, "", label=None)
    images = _image_column(schema, roles) or _names_files(schema, roles)
    return "images" if images else "vectors"


def table_columns(shards: Sequence[Shard]) -> list[str]:
    """The names of the columns."""
    return check_names([str(name) for name in shards[0].schema().names], str(shards[0].file))


def list_shards(path: Path, shards: Sequence[Shard], label: str = "", judge: str = "") -> Listing:
    """The examples of a table: images where a column holds or names image files, else vectors."""
    schema, where = shards[0].schema(), str(path)
    roles = assign(list(schema.names), where, label=label, judge=judge)
    image = _image_column(schema, roles)
    vector = None if image else _vector_column(schema, roles, where)
    files = image is None and _names_files(schema, roles)
    chosen = image or vector or (roles.file if files else None)
    wanted = [roles.label, roles.judge, roles.split, roles.test, roles.name, *([chosen] if chosen else roles.others)]
    columns = [name for name in dict.fromkeys(wanted) if name is not None]
    for shard in shards[1:]:
        absent = [name for name in columns if name not in shard.schema().names]
        if absent:
            raise UserError(f"{shard.file}: has no column {absent[0]!r}, which {shards[0].file.name} has.")
    pyarrow = import_pyarrow()
    try:
        table = pyarrow.concat_tables([shard.read(columns) for shard in shards], promote_options="default")
    except pyarrow.ArrowException as error:
        raise UserError(f"{where}: its files do not fit together ({error}).") from error
    if not table.num_rows:
        raise UserError(f"{where}: has columns, but no rows.")
    split = None
    if all(shard.part is not None for shard in shards):
        split = np.concatenate([np.full(shard.read(columns[:1]).num_rows, shard.part, np.int8) for shard in shards])
    found = {name: _values(table.column(name), name, where) for name in columns if name not in (image, vector)}
    classes = _class_names(schema)
    if image is not None:
        listing = _list_cells(table.column(image), found, roles, path, classes)
    elif files:
        listing = list_images(found, roles, path, classes)
    elif vector is not None:
        arrays = {"X": _vectors(table.column(vector), vector, where)}
        listing = finish(arrays, found, roles, path.stem, where, [], classes)
    else:
        listing = list_columns(found, roles, path.stem, where, classes)
    if split is not None:
        listing.split = split
    return listing


def read_table(path: Path) -> tuple[np.ndarray, list[str]]:
    """The vectors of a Parquet file (n, d), and the names of its rows where it has some; no labels are needed."""
    (shard,) = find_shards(path)
    schema, where = shard.schema(), str(path)
    roles = assign(list(schema.names), where, label=None)
    vector = _vector_column(schema, roles, where)
    table = shard.read([name for name in (roles.name, *([vector] if vector else roles.others)) if name is not None])
    names = [] if roles.name is None else [str(name) for name in table.column(roles.name).to_pylist()]
    if vector is not None:
        return _vectors(table.column(vector), vector, where), names
    columns = {name: _values(table.column(name), name, where) for name in roles.others}
    return stack_numbers(columns, roles, where)[0], names


def _list_cells(column: Any, found: dict[str, Any], roles: Roles, path: Path, classes: dict[str, list[str]]) -> Listing:
    """Images in the cells of a column: bytes, or a record of bytes and path, of which one is there."""
    pyarrow = import_pyarrow()
    files = [""] * len(column)
    if pyarrow.types.is_struct(column.type):
        if column.type.get_field_index("path") >= 0:
            files = [str(file or "") for file in pyarrow.compute.struct_field(column, "path").to_pylist()]
        column = pyarrow.compute.struct_field(column, "bytes")
    content: list[Path | EncodedImage] = [ImageCell(column, row, str(path)) for row in range(len(column))]
    empty = np.flatnonzero(column.is_null().to_numpy()).tolist()
    for row in empty:
        file = folder_of(path) / files[row]
        if not file.is_file():
            raise UserError(
                f"{path}: {len(empty)} of {len(column)} images have no bytes in the table, and row {row + 1} names "
                f"{files[row] or 'no file'}, which is not there."
            )
        content[row] = file
    names = Numbered(len(content)) if roles.name is None else [str(name) for name in found[roles.name]]
    return list_content(path.stem, content, names, found, roles, str(path), classes)


def _values(column: Any, name: str, where: str) -> np.ndarray:
    """A column as an array: numbers, or objects that are text."""
    if column.null_count:
        row = next(row for row, value in enumerate(column) if not value.is_valid) + 1
        empty = f"{column.null_count} of {len(column)} rows are empty there"
        raise UserError(f"{where}: row {row} has no {name}; {empty}: fill or leave out these rows, or the column.")
    pyarrow = import_pyarrow()
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.to_numpy())


def _vectors(column: Any, name: str, where: str) -> np.ndarray:
    """A column of lists of numbers as an array (N, d)."""
    pyarrow = import_pyarrow()
    lengths = pyarrow.compute.unique(pyarrow.compute.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise UserError(f"{where}: the lists in {name} have lengths {lengths[:4]}; vectors must all be of one length.")
    flat = pyarrow.compute.list_flatten(column).to_numpy()
    return np.asarray(flat).reshape(len(column), int(lengths[0]))


def _image_column(schema: Any, roles: Roles) -> str | None:
    """The column that holds image files: bytes, or a record with bytes as `datasets` has it."""
    types = import_pyarrow().types
    for field in schema:
        if field.name not in (*roles.others, roles.file):
            continue
        record = types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
        if record or types.is_binary(field.type) or types.is_large_binary(field.type):
            return str(field.name)
    return None


def _names_files(schema: Any, roles: Roles) -> bool:
    """Whether the examples are image files: a column has a usual name for paths, and none holds vectors or numbers."""
    types = import_pyarrow().types
    others = [schema.field(name).type for name in roles.others]
    return roles.file is not None and not any(types.is_nested(kind) or _is_number(kind) for kind in others)


def _is_number(kind: Any) -> bool:
    types = import_pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _vector_column(schema: Any, roles: Roles, where: str) -> str | None:
    """The column that holds lists of numbers; None where numbers have columns of their own."""
    types = import_pyarrow().types
    lists = [
        str(field.name)
        for field in schema
        if types.is_list(field.type) or types.is_large_list(field.type) or types.is_fixed_size_list(field.type)
    ]
    return vector_column([name for name in lists if name in roles.others], where)


def _class_names(schema: Any) -> dict[str, list[str]]:
    """The names of numbered classes, by column, as `datasets` writes them into a table."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        named = {name: about["names"] for name, about in features.items() if about.get("_type") == "ClassLabel"}
        return {str(name): [str(value) for value in names] for name, names in named.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
