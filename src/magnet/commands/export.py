"""magnet export."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magnet.commands.terminal import RunFolder, given_options, progress, read_options, say_notes
from magnet.errors import UserError
from magnet.files import check_file, read_json
from magnet.training.config import BUNDLE, CONFIG, check_bundle, check_model

if TYPE_CHECKING:
    from magnet.export import Model
    from magnet.runs.run import Run

HELP = """Write a run as one ONNX file, or as a folder that works without the run and its data.

The ONNX file takes vectors, or images in 0..1, and gives the representation, calibrated class probabilities and the
nearest cluster; class names and the preprocessing are in its metadata. It is checked against PyTorch on examples of the
run's data before it is there. The folder is for `magnet classify`, `magnet search` and magnet.load(): safetensors and
JSON, nothing of which is executed. RUN may be such a folder too. The error that is printed
is that of `magnet evaluate` for the same view: the plain view of images for a file, the mean of the test views for a
folder.

examples:
  magnet export runs/photos --to photos.onnx
  magnet export runs/photos --to photos-model/
  magnet export runs/photos --to photos-model/ --no-with-references
  magnet export runs/photos --to photos-model/ --hub
"""
REPOSITORY = re.compile(r"(?!.*(--|\.\.))[\w-][\w.-]*/[\w.-]*[\w-]", re.ASCII)  # as the Hub has them


@dataclass(frozen=True)
class Export:
    """The options of `magnet export`."""

    run: RunFolder
    to: Path
    """A file that ends in .onnx, or a folder."""
    with_references: bool = True
    """The folder holds the representations of the training set, for search; if nothing is said, up to 50,000."""
    hub: bool = False
    """The folder is one for the Hugging Face Hub: it has a config.json and a model card too."""
    push: str = ""
    """Push the folder to the Hub as USER/NAME, under the account that is logged in there; implies --hub."""
    force: bool = False
    """Replace an export that is there already."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> None:
    """Export, and say what was written."""
    options = read_options(Export, "export", HELP, arguments)
    onnx = options.to.suffix.lower() == ".onnx"
    said = "with_references" in given_options(arguments)
    if onnx and said:
        raise UserError("--with-references is for folders: an ONNX file has no references")
    hub = options.hub or bool(options.push)
    if onnx and hub:
        raise UserError("--hub and --push are for folders: --to must not end in .onnx")
    if hub and find_spec("huggingface_hub") is None:
        raise UserError("--hub needs huggingface_hub: pip install 'magnet-loss[hub]'")
    if options.push and not REPOSITORY.fullmatch(options.push):
        raise UserError(f"--push {options.push}: expected USER/NAME, of letters, digits, '-', '_' and '.'")
    check_model(options.run)
    (check_file if onnx else check_bundle)(options.to, force=options.force)

    from magnet.export.bundle import describe_error

    with progress("embedding") as report:
        source = open_source(options.run, report)
        say_notes(source.notes)
        result = write_onnx(source, options) if onnx else write_bundle(source, options, said)
    if options.push:
        from magnet.export.hub import push_folder

        result["pushed"] = push_folder(options.to, options.push)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    size = f"{options.to} ({result['bytes'] / 1e6:.1f} MB)"
    if onnx:
        kind = "examples of the run's data" if result["real"] else "random inputs, the run's data being out of reach"
        same = "all" if result["labels"] == result["examples"] else result["labels"]
        print(
            f"{size} agrees with PyTorch on {result['examples']} {kind}: representations to "
            f"{result['representation']:.1e}, probabilities to {result['probabilities']:.1e}, {same} labels the same"
        )
    else:
        search = f"{result['references']} references" if result["references"] else "no references, so no search"
        print(f"{size} holds {result['clusters']} clusters and {search}")
    print(describe_error(result["measured"]))
    if options.push:
        print(f"pushed to {result['pushed']}")


def open_source(folder: Path, report: Any) -> "Run | Model":
    """The run, with its data if that can be opened; or the model of a bundle."""
    from magnet.export import load
    from magnet.runs.run import Run

    if not (folder / CONFIG).is_file():
        return load(folder)
    with suppress(UserError):  # the data may be missing; any other error is raised again below
        return Run(folder, device="cpu", report=report)
    return Run(folder, device="cpu", need_data=False, report=report)


def write_onnx(source: "Run | Model", options: Export) -> dict[str, Any]:
    """Write the file; returns its size and its difference from PyTorch."""
    from magnet.export import export_onnx

    found = export_onnx(source, options.to, force=options.force)._asdict()
    return {"file": str(options.to), "bytes": found.pop("size"), **found}


def write_bundle(source: "Run | Model", options: Export, said: bool) -> dict[str, Any]:
    """Write the folder; returns what is in it."""
    from magnet.export.bundle import export_bundle, load

    wanted = options.with_references if said else None
    write = export_bundle
    if options.hub or options.push:
        from magnet.export.hub import write_hub_folder as write
    folder = write(source, options.to, with_references=wanted, force=options.force)
    model = load(folder, device="cpu")
    about = read_json(folder / BUNDLE)
    return {
        "folder": str(folder),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "clusters": len(model.index),
        "references": 0 if model.references is None else len(model.references),
        "measured": about["measured"],
    }
