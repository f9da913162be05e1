"""MagnetCallback: the refresh of index and sampler inside a Lightning `Trainer`.

The module's ``training_step`` asks ``callback.sampler.clusters(indices)`` for the clusters of its batch and returns
``{"loss": ..., "per_example": ...}``; the callback does everything else.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from magnet.backbones.timm import import_torchvision
from magnet.index import ClusterIndex
from magnet.integrations.neighbourhoods import Neighbourhoods
from magnet.sampler import NeighbourhoodSampler

with suppress(ImportError):
    import_torchvision()  # Lightning imports it where it is installed, which would fail beside a CPU build of torch
try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError(f"MagnetCallback needs Lightning ({error}): pip install 'magnet-loss[lightning]'") from error


class MagnetCallback(Callback):
    """Embeds the training set in eval mode, clusters it, and lets the sampler draw from the new clusters.

    It does so before the first step and then every epoch, or every ``refresh_every`` batches, always before a
    checkpoint of the same step is written. Index and sampler are part of Lightning's checkpoints.

    With DDP every process draws its own neighbourhoods, embeds its share of the examples, and gets the losses of all
    processes. Give the trainer ``use_distributed_sampler=False``, since the sampler shards itself.

    Args:
        dataset: the training examples as they are to be embedded, without augmentation; an item starts with the
            example's place (`Indexed` puts it there).
        labels: (N,) their classes.
        embed: representations (B, d) of a batch; by default ``module(batch[1])``.
        batch_size: of the embedding pass.
        num_workers: of the embedding pass.
        options: passed on to `Neighbourhoods` and `NeighbourhoodSampler`.
    """

    def __init__(
        self,
        dataset: Any,
        labels: Tensor,
        *,
        embed: Callable[[Any, Any], Tensor] = lambda module, batch: module(batch[1]),
        batch_size: int = 256,
        num_workers: int = 0,
        **options: Any,
    ) -> None:
        self.dataset, self.embed, self.batch_size, self.num_workers = dataset, embed, batch_size, num_workers
        self.neighbourhoods = Neighbourhoods(labels, **options)

    @property
    def sampler(self) -> NeighbourhoodSampler:
        """The ``batch_sampler`` of the training loader."""
        return self.neighbourhoods.sampler

    @property
    def index(self) -> ClusterIndex:
        """The current clusters."""
        return self.neighbourhoods.index

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Learn the rank of this process."""
        self.neighbourhoods.join(trainer.global_rank, trainer.world_size)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make the first index before anything is drawn; a restored one is kept."""
        if self.neighbourhoods.due:
            self.refresh(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Pass the losses to the sampler, and refresh the index if that is due."""
        self.neighbourhoods.update(batch[0], outputs["per_example"])
        if self.neighbourhoods.due:
            self.refresh(trainer, pl_module)

    @torch.no_grad()
    def refresh(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Embed and cluster the training set now."""
        modes = [(module, module.training) for module in pl_module.modules()]
        pl_module.eval()
        mine = Subset(self.dataset, self.neighbourhoods.share())
        places, parts = [], []
        for batch in DataLoader(mine, batch_size=self.batch_size, num_workers=self.num_workers):
            places.append(batch[0])
            with trainer.precision_plugin.forward_context():
                parts.append(self.embed(pl_module, trainer.strategy.batch_to_device(batch)).float().cpu())
        for module, training in modes:
            module.training = training
        self.neighbourhoods.refresh(torch.cat(places), torch.cat(parts))

    def state_dict(self) -> dict[str, Any]:
        """Index and sampler, as tensors."""
        return self.neighbourhoods.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.neighbourhoods.load_state_dict(state_dict)
