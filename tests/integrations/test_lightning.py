"""MagnetCallback in a Lightning trainer."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import magnet
from methods.toy import blobs

pytest.importorskip("magnet.integrations.lightning", exc_type=ImportError)
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

from magnet.integrations.lightning import MagnetCallback
from magnet.integrations.neighbourhoods import Indexed

pytestmark = pytest.mark.filterwarnings("ignore")

X, Y = blobs(120)
DATA = Indexed(TensorDataset(X, Y))


class Module(L.LightningModule):
    def __init__(self, sampler):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 4))
        self.objective = magnet.MagnetLoss()
        self.sampler, self.batches, self.modes = sampler, [], []

    def forward(self, x):
        self.modes.append(self.training)
        return self.net(x)

    def training_step(self, batch, _):
        places, x, y = batch
        self.batches.append(places.tolist())
        loss, per_example, _ = self.objective(self(x), self.sampler.clusters(places), y)
        return {"loss": loss, "per_example": per_example}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def fit(folder, *, epochs=3, resume=None, save=1, workers=0, **options):
    """An epoch is 5 batches of 24."""
    torch.manual_seed(0)
    callback = MagnetCallback(DATA, Y, clusters_per_class=2, clusters_per_batch=4, examples_per_cluster=6, **options)
    looks = []
    refresh = callback.refresh
    callback.refresh = lambda *given: (looks.append(callback.neighbourhoods.steps), refresh(*given))
    module = Module(callback.sampler)
    keep = ModelCheckpoint(folder, filename="{step}", save_top_k=-1, every_n_train_steps=save)
    trainer = L.Trainer(
        max_epochs=epochs, callbacks=[keep, callback], use_distributed_sampler=False, accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    loader = DataLoader(DATA, batch_sampler=callback.sampler, num_workers=workers)
    trainer.fit(module, loader, ckpt_path=resume and folder / f"step={resume}.ckpt", weights_only=True)
    return module, callback, looks


def test_the_index_is_made_before_the_first_step_and_after_every_epoch(tmp_path):
    module, callback, looks = fit(tmp_path)
    assert looks == [0, 5, 10, 15]
    assert len(module.batches) == callback.neighbourhoods.steps == 15
    with torch.no_grad():
        expected = magnet.ClusterIndex.fit(module.eval()(X), Y, 2, seed=15)
    assert torch.equal(callback.index.assignments, expected.assignments)


def test_or_every_so_many_batches(tmp_path):
    assert fit(tmp_path, refresh_every=4)[2] == [0, 4, 8, 12]


def test_the_pass_is_in_eval_mode_and_leaves_modes_as_they_were(tmp_path):
    module, _, _ = fit(tmp_path, epochs=1)
    assert module.modes == [False, *[True] * 5, False]
    assert module.training


@pytest.mark.parametrize("at", [3, 5, 8])
def test_a_run_restored_from_a_checkpoint_ends_like_one_that_was_not_stopped(at, tmp_path, monkeypatch):
    # Lightning restores no random numbers; dropout that depends on the batch alone stands for that.
    step = Module.training_step
    monkeypatch.setattr(Module, "training_step", lambda m, b, i: (torch.manual_seed(int(b[0].sum())), step(m, b, i))[1])
    whole, kept, _ = fit(tmp_path)
    rest, callback, looks = fit(tmp_path, resume=at)
    assert rest.batches == whole.batches[at:]
    assert looks == [n for n in (5, 10, 15) if n > at]
    assert callback.index == kept.index
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), rest.state_dict().values(), strict=True))


def test_workers_see_the_same_batches(tmp_path):
    alone, ahead = (fit(tmp_path / str(n), epochs=2, save=100, workers=n)[0].batches for n in (0, 1))
    assert alone == ahead


def test_the_state_is_tensors_and_comes_back_whole(tmp_path):
    _, callback, _ = fit(tmp_path, epochs=1)
    state = callback.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    other = MagnetCallback(DATA, Y, clusters_per_class=2, clusters_per_batch=4, examples_per_cluster=6)
    other.load_state_dict(state)
    assert other.index == callback.index
    assert {k: v.tolist() for k, v in other.state_dict().items()} == {k: v.tolist() for k, v in state.items()}
    assert list(other.sampler) == list(callback.sampler)
