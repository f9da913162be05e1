"""Whether a folder is a run, or a model that was exported. Nothing here imports torch: a typo is said at once."""

from pathlib import Path

from magnet.errors import UserError
from magnet.training.config import CONFIG

BUNDLE = "bundle.json"  # in a folder that `magnet export` wrote


def check_run(folder: Path) -> None:
    """Refuse what is not the folder of a run."""
    if not folder.is_dir():
        found = "that is a file" if folder.exists() else "no such folder"
        raise UserError(f"there is no run at {folder}: {found}")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} is not a run: it has no {CONFIG}. Train one with `magnet train --out {folder}`")


def check_model(folder: Path) -> None:
    """Refuse what is neither the folder of a run nor one that was exported."""
    if folder.is_file():
        hint = "; an ONNX file is for onnxruntime" if folder.suffix.lower() == ".onnx" else ""
        raise UserError(f"{folder} is a file: give the folder of a run or of a bundle{hint}")
    if folder.is_dir() and not (folder / CONFIG).is_file() and not (folder / BUNDLE).is_file():
        raise UserError(
            f"{folder} is not a run and not a bundle: it has neither {CONFIG} nor {BUNDLE}. "
            f"Train one with `magnet train --out {folder}`"
        )
    if not (folder / BUNDLE).is_file():
        check_run(folder)


def check_file(path: Path, *, force: bool, kinds: tuple[str, ...] = ()) -> None:
    """Refuse to write a file of another kind than ``kinds`` (endings such as ".npz"; none: any), or over one that is
    there already.
    """
    if kinds and path.suffix.lower() not in kinds:
        raise UserError(f"{path} must end in {' or '.join(kinds)}")
    if path.is_dir() or (path.exists() and not force):
        raise UserError(f"{path} exists already: choose another place, or --force to replace it")


def check_bundle(folder: Path, *, force: bool) -> None:
    """Refuse to write over a folder: a bundle is replaced with ``force``, anything else never."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    bundle = (folder / BUNDLE).is_file()
    if folder.exists() and not (force and bundle):
        hint = ", or --force to replace it" if bundle else ""
        raise UserError(f"{folder} exists already: choose another place{hint}")
