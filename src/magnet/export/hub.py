"""A model as a folder of the Hugging Face Hub: the bundle, ``config.json`` and a model card. Pushed on request only."""

import json
import os
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard, ModelCardData, ModelHubMixin, snapshot_download

from magnet.errors import UserError, first_few, one_line
from magnet.export.bundle import describe_error, export_bundle, load, measured, model_of
from magnet.export.model import Model
from magnet.files import replacing
from magnet.runs.run import Run

CONFIG, CARD = "config.json", "README.md"
LIBRARY = "magnet-loss"
SHOWN = 20  # classes that the card names
DOWNLOAD = ("revision", "cache_dir", "force_download", "local_files_only", "token")  # what the Hub's download takes


class HubModel(ModelHubMixin):
    """A model with the methods that the Hub expects: ``save_pretrained``, ``from_pretrained`` and ``push_to_hub``.

    Args:
        run: an opened run, or a model.

    Attributes:
        model: for use: ``model.classify(...)``, ``model.embed(...)``, ``model.search(...)``.

    >>> import tempfile, magnet, numpy
    >>> folder, y = Path(tempfile.mkdtemp()), numpy.arange(60) % 2
    >>> X = numpy.random.default_rng(0).normal(size=(60, 4)) + 9 * y[:, None]
    >>> run = magnet.train((X, y), folder / "run", steps=3, silent=True)
    >>> _ = HubModel(run).save_pretrained(folder / "hub")
    >>> HubModel.from_pretrained(folder / "hub").model.classify([[9.0, 9.0, 9.0, 9.0]]).labels
    ['1']
    """

    def __init__(self, run: Run | Model) -> None:
        self.model, self._source = model_of(run), run

    def _save_pretrained(self, save_directory: Path) -> None:
        # The folder exists already: all is written to a new one, then moved into it.
        made = write_hub_folder(self._source, save_directory / ".bundle")
        for file in sorted(made.iterdir()):
            file.replace(save_directory / file.name)
        made.rmdir()

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> "HubModel":
        if Path(model_id).is_dir():
            return cls(load(model_id))
        wanted: dict[str, Any] = {name: options[name] for name in DOWNLOAD if options.get(name) is not None}
        return cls(load(snapshot_download(model_id, **wanted)))


def describe_config(model: Model) -> dict[str, Any]:
    """The content of ``config.json``: what the Hub shows, and what other tools look for."""
    part = model.description
    return {
        "library_name": LIBRARY,
        "model_type": "magnet",
        "architectures": [part.network.backbone],
        "method": part.method,
        "kind": part.kind,
        "input_shape": list(part.network.shape),
        "dim": model.network.dim,
        "num_labels": len(model.classes),
        "id2label": {str(i): name for i, name in enumerate(model.classes)},
    }


def make_card(run: Run | Model) -> ModelCard:
    """The model card: what the model is, its measured error, its settings, and how to use it."""
    model = model_of(run)
    part = model.description
    images = part.kind == "images"
    data = ModelCardData(
        library_name=LIBRARY,
        tags=["metric-learning", "magnet-loss", "embeddings", part.method.split("(")[0]],
        pipeline_tag="image-classification" if images else "tabular-classification",
    )
    takes = f"images, seen at {part.views.size} pixels" if images else f"vectors of {part.network.shape[0]} numbers"
    lines = [
        f"---\n{data.to_yaml()}\n---",
        f"# {part.method} on {len(model.classes)} classes",
        f"A representation of {model.network.dim} dimensions, trained with `{part.method}` on a "
        f"`{part.network.backbone}` network, with {len(model.index)} clusters that vote for labels (kNC). "
        f"It takes {takes}.",
        f"**Classes.** {first_few(model.classes, SHOWN)}",
        "## Measured",
        describe_error(measured(run, plain=False)),
        f"Probabilities are calibrated on {part.votes.calibrated_on}.",
        "## Use",
        f"```python\n# pip install {LIBRARY}\nfrom magnet.export.hub import HubModel\n\n"
        'model = HubModel.from_pretrained("THIS/REPOSITORY").model\n'
        f"answers = model.classify({'[' + repr('photo.jpg') + ']' if images else 'vectors'})\n"
        "print(answers.labels, answers.probabilities)\n```",
        "The weights are safetensors and everything else is JSON: nothing in the folder is executed when it is loaded.",
        "## Limits",
        "It knows the classes above and no others; `classify(..., refuse=True)` gives no label to inputs that are "
        "unlike anything it was trained on. What the training data holds, and its licence, are for its owner to say.",
        _settings(run),
    ]
    return ModelCard("\n\n".join(line for line in lines if line) + "\n", ignore_metadata_errors=False)


def write_hub_folder(
    run: Run | Model, folder: str | os.PathLike[str], *, with_references: bool | None = None, force: bool = False
) -> Path:
    """`export_bundle`, with ``config.json`` and a model card beside it: a folder ready for the Hub."""
    place = export_bundle(run, folder, with_references=with_references, force=force)
    for name, text in (
        (CONFIG, json.dumps(describe_config(model_of(run)), indent=2, sort_keys=True)),
        (CARD, str(make_card(run))),
    ):
        with replacing(place / name) as draft:
            draft.write_text(text, encoding="utf-8")
    return place


def push_folder(folder: Path, repo: str) -> str:
    """Upload a folder to the Hub as the repository USER/NAME, which is made if it is not there; gives its address."""
    api = HfApi()
    try:
        address = str(api.create_repo(repo, exist_ok=True))
        api.upload_folder(repo_id=repo, folder_path=folder)
    except Exception as error:  # of the network, of the Hub, or of its library, whose errors have no common class
        raise UserError(f"{folder} is written, but cannot be pushed to {repo}: {one_line(error, 300)}") from error
    return address


def _settings(run: Run | Model) -> str:
    """The settings of a run for the model card, without paths of the machine that it was trained on."""
    if isinstance(run, Model):
        return ""
    private = {"data", "out", "weights", "warm_start", "label", "judge", "device", "workers", "quiet"}
    values = {name: value for name, value in run.config.to_dict().items() if name not in private}
    return "## Settings\n\n```json\n" + json.dumps(values, indent=1) + "\n```"
