"""Models on disk: opened from a run, or written to and read from a bundle, a portable folder of safetensors and JSON.

Nothing that is read is executed.
"""

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

import magnet
from magnet.backbones import Backbone, WhitenedEmbedding, build
from magnet.errors import UserError, checked, one_line, percent
from magnet.export.description import Description, NetworkPart, ViewsPart, VotesPart, preprocessing
from magnet.export.model import Model
from magnet.files import (
    as_path,
    check_layout,
    file_digest,
    read_json,
    read_record,
    read_tensors,
    replacing_folder,
    write_record,
    write_tensors,
)
from magnet.index import LAYOUT, ClusterIndex
from magnet.runs.evaluate import evaluate, plain_errors
from magnet.runs.run import Run
from magnet.training.config import BUNDLE, check_bundle, check_model
from magnet.training.inputs import Report, device_of

NAMES = "names.json"
NETWORK, CLUSTERS, REFERENCES = "network.safetensors", "clusters.safetensors", "references.safetensors"
FORMAT = "magnet-bundle/4"
FEW = 50_000  # references are included by default up to this number


def load(
    path: str | os.PathLike[str],
    *,
    which: Literal["best", "last"] = "best",
    device: str = "auto",
    report: Report | None = None,
) -> Model:
    """Open a run folder or an exported bundle for use, by kNC (section 3.3). Nothing in it is executed.

    Args:
        path: the folder.
        which: of a run, the "best" checkpoint by validation (the last where there was none) or the "last".
        device: where to compute; "auto" takes a GPU if there is one.
        report: called with the number of embedded examples and the total, when a run is used for the first time.

    >>> import tempfile, magnet, numpy
    >>> folder, y = Path(tempfile.mkdtemp()), numpy.arange(60) % 2
    >>> X = numpy.random.default_rng(0).normal(size=(60, 4)) + 9 * y[:, None]
    >>> numpy.savez(folder / "data.npz", X=X, y=y)
    >>> run = magnet.train(folder / "data.npz", folder / "run", steps=3, silent=True)
    >>> load(run.folder).classify([[9.0, 9.0, 9.0, 9.0]]).labels
    ['1']
    """
    folder = as_path(path)
    check_model(folder)
    if (folder / BUNDLE).is_file():
        return read_bundle(folder, device_of(device))
    return model_of(Run(folder, which=which, device=device, need_data=False, report=report))


def model_of(run: Run | Model) -> Model:
    """The model of a run, which does not need its data; a model is returned unchanged."""
    if isinstance(run, Model):
        return run
    config, network, method, rule = run.config, run.learner.network, run.learner.method, run.rule("knc")
    size, calibration = config.image_size, run.calibration
    description = Description(
        method=config.method,
        classes=tuple(run.classes),
        network=NetworkPart(
            backbone=config.backbone.removesuffix("@pretrained"),
            shape=run.shape if network.kind == "vectors" else (3, size, size),
            dim=config.dim,
            hidden=config.hidden,
            normalised=method.normalised,
            power=config.power if config.start == "whitened" else 0.0,
            landmarks=network.embedding.landmarks if isinstance(network.embedding, WhitenedEmbedding) else 0,
            unit_length=isinstance(network.embedding, WhitenedEmbedding) and network.embedding.unit_length,
        ),
        views=ViewsPart(
            size=max(size, 1), rescale=config.rescale, flip=config.flip, draws=run.views.draws, seed=config.seed
        ),
        votes=VotesPart(
            variance=rule.variance,
            scaling=rule.scaling,
            neighbours=rule.neighbours,
            temperature=calibration.temperatures["knc"],
            novelty_threshold=calibration.novelty_threshold,
            calibrated_on=f"{calibration.examples} examples of the {calibration.held_out} part",
            clusters_per_class=run.clusters_per_class,
            weighted=bool(run.embeddings.votes),
        ),
    )
    shifts = run.embeddings.voting - run.index.centres
    return Model(description, network, run.index, run.references, run.embeddings.names, shifts, notes=run.notes)


def measured(run: Run | Model, *, plain: bool) -> dict[str, Any] | None:
    """The error of kNC on the run's own test part, as `magnet evaluate` has it.

    Args:
        run: a run or a model. A model has no test part; a run whose data is not open has only cached results.
        plain: True: for the plain view of images; False: for the mean of the run's test views.

    Returns:
        ``classifier``, ``view``, ``error``, ``n`` and ``split``; None where it is not known.
    """
    if isinstance(run, Model):
        return None
    views = run.views.draws
    try:
        found = plain_errors(run) if plain else evaluate(run)
    except UserError:  # no test part, or out of reach
        return None
    error = (found["plain"] if plain else found)["knc"]["error"]
    view = "vector" if run.learner.network.kind == "vectors" else f"mean of {views} test views"
    if view != "vector" and (plain or views == 1):
        view = "plain view"
    return {"classifier": "kNC", "view": view, "error": error, "n": found["n"], "split": found["split"]}


def describe_error(measured: dict[str, Any] | None) -> str:
    """A line on what `measured` found."""
    if measured is None:
        return "The error is not known here: that takes a run and the test part of its data."
    view = "" if measured["view"] == "vector" else f" ({measured['view']})"
    error, n, part = percent(measured["error"]), f"{measured['n']:,}", measured["split"]
    return f"Error {error} on the {n} examples of the {part} part, by {measured['classifier']}{view}."


def export_bundle(
    run: Run | Model,
    folder: str | os.PathLike[str],
    *,
    with_references: bool | None = None,
    force: bool = False,
) -> Path:
    """Write a model as a folder that needs neither the run nor its data; whole or not at all.

    Args:
        run: an opened run, or a model.
        folder: where to.
        with_references: whether to include the representations of the training set, for `search`; by default if there
            are 50,000 or fewer.
        force: replace an existing bundle. A folder that is not a bundle is never replaced.
    """
    model, folder = model_of(run), Path(folder)
    check_bundle(folder, force=force)
    if with_references and model.references is None:
        raise UserError("the model has no references that could go along")
    references = model.references
    if (with_references is None and references is not None and len(references) > FEW) or with_references is False:
        references = None
    about = {
        "format": FORMAT,
        "magnet": magnet.__version__,
        "torch": torch.__version__,
        **asdict(model.description),
        "preprocessing": preprocessing(model.description, model.network.mean, model.network.std),
        "measured": measured(run, plain=False),
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with replacing_folder(folder) as draft:
            files = {
                NETWORK: write_tensors(draft / NETWORK, model.network.state_dict()),
                CLUSTERS: write_tensors(draft / CLUSTERS, model.index.tensors() | {"shifts": model.shifts}),
            }
            if references is not None:
                files[REFERENCES] = write_tensors(draft / REFERENCES, {"representations": references})
                (draft / NAMES).write_text(json.dumps(model.names, indent=1), encoding="utf-8")
                files[NAMES] = file_digest(draft / NAMES)
            write_record(draft / BUNDLE, about | {"files": files})  # last: it names the checksums of the others
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}") from error
    return folder


def read_bundle(folder: Path, device: torch.device) -> Model:
    """The model in a folder written by `export_bundle`."""
    about = _read_about(folder)
    try:
        description = Description.from_dict(about)
        files = checked(about.get("files"), dict[str, str], "files")
        for name in {NETWORK, CLUSTERS, *files} & {NETWORK, CLUSTERS, REFERENCES, NAMES}:
            if not (folder / name).is_file():
                raise UserError(f"{name} is missing")
        tensors = {name: _load(folder, name, files) for name in (NETWORK, CLUSTERS)}
        sizes = check_layout(tensors[CLUSTERS], {**LAYOUT, "shifts": "float J d"}, CLUSTERS)
        network = _network(description, tensors[NETWORK])
        index = ClusterIndex.of_tensors(tensors[CLUSTERS])
        references, names = None, []
        if REFERENCES in files:
            found = _load(folder, REFERENCES, files)
            check_layout(found, {"representations": "float N d"}, REFERENCES, sizes)
            references, names = found["representations"], _names(folder, files)
        model = Model(description, network.to(device), index, references, names, tensors[CLUSTERS]["shifts"])
        _check(model)
    except UserError as error:
        raise UserError(f"the bundle {folder} cannot be used: {error}") from error
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"the bundle {folder} is broken ({one_line(error)}): export it anew") from error
    return model


def _read_about(folder: Path) -> dict[str, Any]:
    """Read the description of a bundle."""
    path = folder / BUNDLE
    try:
        about: dict[str, Any] = read_json(path, dict[str, Any])
        if about.get("format") != FORMAT:
            raise UserError(f"{folder} is of format {str(about.get('format'))[:60]!r}, not {FORMAT!r}: export it anew")
        found: dict[str, Any] = read_record(path, dict[str, Any])
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error})") from error
    return found


def _network(description: Description, tensors: dict[str, Tensor]) -> Backbone:
    """The network of a bundle, with its weights; it is refused if it is larger than its file."""
    part = description.network
    if description.kind == "vectors":
        rows = part.hidden if part.backbone == "mlp" and part.hidden else part.dim or 1
        room = max((math.prod(t.shape) for t in tensors.values()), default=0)
        inputs = part.landmarks or part.shape[0]
        if max(inputs, rows, part.landmarks * part.shape[0]) > room or (part.dim and inputs * rows > room):
            raise UserError(f"{NETWORK} is too small for a network of {part.shape[0]} inputs, {part.dim} dimensions")
    network = build(
        part.backbone, example_shape=part.shape, dim=part.dim or None, hidden=part.hidden or None,
        power=part.power or None, landmarks=part.landmarks, unit_length=part.unit_length,
    )  # fmt: skip
    check_layout(tensors, network.state_dict(), NETWORK)
    network.load_state_dict(tensors)
    return network


def _check(model: Model) -> None:
    """Raise if the parts of a bundle do not fit together."""
    rule, index = model.rule, model.index  # making the rule checks the numbers of the votes
    if int(rule.classes[-1]) >= len(model.classes) or int(rule.classes[0]) < 0:
        raise ValueError(f"a cluster is of class {int(rule.classes[-1])}, of {len(model.classes)}")
    if index.centres.shape[1] != model.network.dim:
        raise ValueError(f"clusters have {index.centres.shape[1]} dimensions, the network gives {model.network.dim}")
    if model.references is not None:
        expected = (len(index.assignments), model.network.dim)
        if tuple(model.references.shape) != expected or len(model.names) != expected[0]:
            raise ValueError(
                f"{len(model.names)} names and references of shape {tuple(model.references.shape)}, "
                f"expected {expected[0]} and {expected}"
            )


def _load(folder: Path, name: str, files: dict[str, str]) -> dict[str, Tensor]:
    """The tensors of a file of a bundle, which must have the checksum in the description."""
    found = read_tensors(folder / name, None)
    if found.digest != files.get(name):
        raise UserError(f"{name} is not the file that {BUNDLE} names")
    return found.tensors


def _names(folder: Path, files: dict[str, str]) -> list[str]:
    if NAMES not in files or file_digest(folder / NAMES) != files[NAMES]:
        raise UserError(f"{NAMES} is damaged: it does not have the checksum that {BUNDLE} names")
    names: list[str] = read_json(folder / NAMES, list[str])
    return names
