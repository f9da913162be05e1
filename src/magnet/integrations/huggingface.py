"""MagnetTrainer: Hugging Face's `Trainer` with neighbourhoods for batches and the Magnet objective for a loss."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

from magnet.backbones.timm import import_torchvision
from magnet.files import read_tensors, write_tensors
from magnet.index import ClusterIndex
from magnet.integrations.neighbourhoods import Indexed, Neighbourhoods
from magnet.objective import MagnetLoss, MagnetOutput, magnet_objective

with suppress(ImportError):
    import_torchvision()  # transformers imports it where it is installed, which would fail beside a CPU build of torch
try:
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise ImportError(f"MagnetTrainer needs transformers ({error}): pip install 'magnet-loss[huggingface]'") from error

FILE = "magnet.safetensors"  # index, sampler and running variance, in each checkpoint folder


class MagnetTrainer(Trainer):
    """Refreshes the index before the first step and then every epoch, or every ``refresh_every`` batches.

    Items are dictionaries with ``labels``. A training batch has M x D examples; the arguments' batch sizes are for the
    embedding pass and evaluation, whose loss is the objective over the whole index.

    Args:
        labels: (N,) classes of the training set.
        objective: alpha, scaling and own mean.
        embed_dataset: the training set without augmentation, for the refresh; by default the training set.
        neighbourhoods: options of `Neighbourhoods` and `NeighbourhoodSampler`.
        arguments: passed on to `Trainer`.
    """

    def __init__(
        self,
        *,
        labels: Tensor,
        objective: MagnetLoss | None = None,
        embed_dataset: Any = None,
        neighbourhoods: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.args.ignore_data_skip = True  # a restored sampler goes on in the middle of an epoch by itself
        self.label_names = self.label_names or ["labels"]  # a model that takes no labels is still evaluated with them
        self.objective: MagnetLoss = (objective or MagnetLoss()).to(self.args.device)
        self.embed_dataset = Indexed(self.train_dataset if embed_dataset is None else embed_dataset)
        self.neighbourhoods = Neighbourhoods(labels, **(neighbourhoods or {}))
        self.neighbourhoods.join(self.args.process_index, self.args.world_size)
        self._random_numbers_of: str | None = None  # the checkpoint whose generators are to be taken at the next step
        self.add_callback(_Refresh(self))

    @property
    def index(self) -> ClusterIndex:
        """The current clusters."""
        return self.neighbourhoods.index

    def represent(self, model: nn.Module, inputs: dict[str, Any]) -> Tensor:
        """Representations (B, d): the model's output, or its ``pooler_output``. Override for another model."""
        outputs = model(**inputs)
        return outputs if isinstance(outputs, Tensor) else outputs["pooler_output"]

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches drawn by the sampler, which shards itself."""
        return DataLoader(
            Indexed(self.train_dataset), batch_sampler=self.neighbourhoods.sampler, collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers, prefetch_factor=self.args.dataloader_prefetch_factor,
        )  # fmt: skip

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor | tuple[Tensor, Any]:
        """The objective of a batch; in training, the losses are passed to the sampler."""
        if self._random_numbers_of:  # the base class takes them up only after skipping batches; we skip none
            self._load_rng_state(self._random_numbers_of)
            self._random_numbers_of = None
        labels, places = inputs["labels"], inputs.get("index")
        inputs = {name: value for name, value in inputs.items() if name not in ("index", "labels")}
        representations = self.represent(model, inputs)
        if places is None:
            loss = self._held_out(representations, labels).loss
        else:
            clusters = self.neighbourhoods.sampler.clusters(places).to(labels.device)
            loss, per_example, _ = self.objective(representations, clusters, labels)
            self.neighbourhoods.update(places, per_example)
        return (loss, {"loss": loss, "representations": representations}) if return_outputs else loss

    @torch.no_grad()
    def refresh(self) -> None:
        """Embed the training set in eval mode, and cluster it."""
        model: Any = self.model
        mine, was_training = Subset(self.embed_dataset, self.neighbourhoods.share()), model.training
        model.eval()
        places, parts = [], []
        for batch in DataLoader(mine, batch_size=self.args.eval_batch_size, collate_fn=self.data_collator):
            places.append(batch["index"])
            inputs = {name: value for name, value in batch.items() if name not in ("index", "labels")}
            with self.compute_loss_context_manager():
                parts.append(self.represent(model, self._prepare_inputs(inputs)).float().cpu())
        model.train(was_training)
        self.neighbourhoods.refresh(torch.cat(places), torch.cat(parts))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **more: Any) -> Any:
        """Train; resuming from a checkpoint restores the index and the sampler too."""
        folder = get_last_checkpoint(self.args.output_dir) if resume_from_checkpoint is True else resume_from_checkpoint
        if folder:
            state = read_tensors(Path(folder) / FILE, None).tensors
            self.objective.load_state_dict({name: state.pop(f"objective.{name}") for name in ("average", "weight")})
            self.neighbourhoods.load_state_dict(state)
            if 0 < int(state["sampler.in_pass"]) < len(self.neighbourhoods.sampler):
                self._random_numbers_of = str(folder)
        return super().train(resume_from_checkpoint, *args, **more)

    def _held_out(self, r: Tensor, labels: Tensor) -> MagnetOutput:
        index, objective = self.index.to(r.device), self.objective
        distances = torch.cdist(r.float(), index.centres)
        own = distances.where(labels[:, None] == index.centre_labels, torch.inf).argmin(dim=1)
        return magnet_objective(
            r, own, index.centres, index.centre_labels,
            alpha=objective.alpha, scaling=objective.scaling, variance=objective.variance,
        )  # fmt: skip


class _Refresh(TrainerCallback):
    """Refreshes when it is due, before the first step or a checkpoint, and saves index and sampler beside the model."""

    def __init__(self, trainer: MagnetTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self.trainer.neighbourhoods.due:
            self.trainer.refresh()

    on_train_begin = on_step_end

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            objective = {f"objective.{k}": v for k, v in self.trainer.objective.state_dict().items()}
            tensors = {**self.trainer.neighbourhoods.state_dict(), **objective}
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_tensors(folder / FILE, tensors)
