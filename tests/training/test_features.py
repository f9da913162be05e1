"""Features of images: computed once for each network and image, and what is trained on them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from magnet.backbones import build
from magnet.backbones.convnet import ConvNet
from magnet.backbones.timm import import_timm
from magnet.data import open_data
from magnet.errors import UserError
from magnet.runs.run import Run
from magnet.training import inputs
from magnet.training.config import TrainConfig, read_config
from magnet.training.inputs import features_for
from magnet.training.presets import with_preset
from magnet.training.train import train
from magnet.training.workbench import VIEWS, complete, make_workbench, start_settings
from magnet.votes import Examples
from training.short_runs import differences, left_behind, stop_at, weights, write_images


@pytest.fixture(scope="module")
def learnt(tmp_path_factory) -> Path:
    """Weights of a small network, as if it were a pretrained one."""
    file = tmp_path_factory.mktemp("weights") / "convnet.safetensors"
    network = build("convnet", example_shape=(3, 12, 12), seed=7)
    save_file(network.state_dict(), file)
    return file


@pytest.fixture
def passed(monkeypatch):
    """Counts the images that a trunk has seen."""
    seen = []
    trunk = ConvNet.trunk_features

    def counting(network, x):
        seen.append(len(x))
        return trunk(network, x)

    monkeypatch.setattr(ConvNet, "trunk_features", counting)
    return seen


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MAGNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def frozen(images, learnt, out=None, **changes) -> TrainConfig:
    begin = TrainConfig(images, backbone="convnet", weights=learnt, freeze=True, preset="pretrained",
                        method=changes.pop("method", "magnet"), start=changes.pop("start", "auto"))  # fmt: skip
    fixed = {"image_size": 12, "workers": 0, "evaluate": False, "out": out, "device": "cpu", "dim": 16}
    return replace(with_preset(begin), **fixed, **changes)


def test_a_pass_is_made_once_for_each_image_and_network(images, learnt, cache, passed, tmp_path):
    config = frozen(images, learnt)
    data = open_data(images).with_image_size(12)
    rows = data.indices("all")
    first = features_for(config, data, rows[:20])
    assert first.shape == (20, 128)
    assert sum(passed) == 20
    told = []
    everything = features_for(config, data, rows, lambda done, total: told.append((done, total)))
    assert sum(passed) == len(rows)
    assert told[-1] == (len(rows), len(rows))
    assert torch.equal(everything[:20], first)
    features_for(replace(config, rescale=0.0), data, rows[:5])  # another view
    features_for(replace(config, weights=None), data, rows[:5])  # other weights
    assert sum(passed) == len(rows) + 10


def test_features_are_those_of_the_plain_view(images, learnt, cache):
    bench = make_workbench(complete(frozen(images, learnt), open_data(images)))
    rows = bench.train[:4]
    network = bench.learner.network.eval()
    with torch.no_grad():
        expected = network.trunk_features(bench.views.plain(bench.data.batch(rows)))
        torch.testing.assert_close(features_for(bench.config, bench.data, rows), expected)
        torch.testing.assert_close(network(expected), network(bench.views.plain(bench.data.batch(rows))))


def test_a_stopped_pass_goes_on_where_it_was(images, learnt, cache, monkeypatch, passed):
    config, data = frozen(images, learnt), open_data(images).with_image_size(12)
    monkeypatch.setattr(inputs, "passes", lambda count, kind: [list(range(i, i + 8)) for i in range(0, count, 8)])

    def stop(done, total):
        if done == 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features_for(config, data, data.indices("all"), stop)
    features_for(config, data, data.indices("all"))
    assert sum(passed) == len(data)


def test_a_broken_or_unwritable_cache_is_none(images, learnt, cache, passed):
    config, data = frozen(images, learnt), open_data(images).with_image_size(12)
    before = features_for(config, data, data.indices("all"))
    for file in cache.glob("*/*"):
        file.write_bytes(b"broken")
    assert torch.equal(features_for(config, data, data.indices("all")), before)
    assert sum(passed) == 2 * len(data)


def test_a_full_cache_drops_the_network_that_was_not_used_for_longest(images, learnt, cache, monkeypatch):
    data = open_data(images).with_image_size(12)
    monkeypatch.setattr(inputs, "MOST", 40_000)  # bytes: those of one network
    for seed in (1, 2):
        features_for(frozen(images, None, seed=seed), data, data.indices("all"))
    assert len(list(cache.iterdir())) == 1


def test_a_frozen_trunk_is_run_once_and_stays_as_it_was(images, learnt, cache, passed, tmp_path):
    folder = train(frozen(images, learnt, tmp_path / "run", validation=0.2), silent=True)
    run = Run(folder)
    assert sum(passed) == len(run.data) - len(run.data.indices("test"))
    config = read_config(folder)
    assert (config.start, config.test_draws) == ("whitened", 1)
    assert config.epochs > 0
    kept, now = build("convnet", example_shape=(3, 12, 12), seed=7).state_dict(), weights(folder)
    assert all(torch.equal(now[f"network.{k}"], v) for k, v in kept.items() if k.startswith("features"))
    test = run.data.indices("test")
    found = run.embed(test)  # through the cache
    assert sum(passed) == len(run.data)
    raw = run.views.plain(run.data.batch(test))
    with torch.no_grad():
        torch.testing.assert_close(found, run.learner.represent(raw))


def test_the_classes_are_told_apart_by_what_was_trained_on_features(images, learnt, cache, tmp_path):
    from magnet.runs.evaluate import evaluate

    found = evaluate(Run(train(frozen(images, learnt, tmp_path / "run"), silent=True)))
    assert found["knc"]["error"] <= 0.2  # of three classes, from a trunk of random convolutions


@pytest.mark.parametrize("method", ["softmax", "triplet", "nca", "ncmc"])
def test_every_method_trains_on_a_frozen_trunk_from_the_whitened_start(images, learnt, cache, method, tmp_path):
    folder = train(frozen(images, learnt, tmp_path / "run", method=method, epochs=1), silent=True)
    assert "network.embedding.whitening" in weights(folder)


def test_a_stopped_run_on_a_frozen_trunk_is_resumed_to_the_same_end(images, learnt, cache, tmp_path, monkeypatch):
    options = {"epochs": 4, "clusters_per_class": 1, "scaling": 4.0, "shrinkage": 0.4, "power": 1.0}
    whole = train(frozen(images, learnt, tmp_path / "whole", **options), silent=True)
    stop_at(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        train(frozen(images, learnt, tmp_path / "stopped", **options), silent=True)
    train(read_config(tmp_path / "stopped"), resume=True, silent=True)
    assert differences(whole, tmp_path / "stopped") == []
    assert left_behind(whole)["manifest.json/progress"]["finished"]


def test_a_run_goes_on_from_a_frozen_one_with_its_network_head_and_clusters(images, learnt, cache, tmp_path):
    first = train(frozen(images, learnt, tmp_path / "first", method="softmax", epochs=2), silent=True)
    config = with_preset(TrainConfig(images, method="softmax", warm_start=first))
    like = read_config(first)
    for name in ("backbone", "dim", "power", "shrinkage", "image_size", "scaling", "clusters_per_class"):
        assert getattr(config, name) == getattr(like, name), name
    assert (config.preset, config.freeze, config.freeze_batchnorm) == ("pretrained", False, True)
    config = replace(config, learning_rate=1e-9, steps=1, workers=0, device="cpu", out=tmp_path / "second")
    second = train(replace(config, evaluate=False), silent=True)
    before, after = weights(first), weights(second)
    assert before.keys() == after.keys()
    for name in ("network.embedding.map.weight", "network.embedding.whitening", "method.head.weight"):
        torch.testing.assert_close(before[name], after[name], atol=1e-5, rtol=0)


def test_a_whole_network_starts_from_the_whitened_features_of_its_trunk(images, learnt, cache, tmp_path):
    config = replace(frozen(images, learnt, tmp_path / "run"), freeze=False, epochs=1, examples_per_cluster=4)
    bench = make_workbench(complete(config, open_data(images)))
    with torch.no_grad():
        r = bench.learner.network.eval()(bench.views.plain(bench.data.batch(bench.train)))
    start = bench.learner.network.embedding
    assert torch.equal(start.map.weight, torch.eye(16))
    means = torch.stack([r[bench.labels == c].mean(0) for c in range(3)])
    within = r - means[bench.labels]
    between = means - means.mean(0)
    assert between.square().sum(1).mean() > within.square().sum(1).mean() / 16 * 2  # whitened: one unit a direction
    train(config, silent=True)
    assert not np.allclose(weights(tmp_path / "run")["network.embedding.map.weight"], np.eye(16))
    # The trunk learns too.
    trunk = build("convnet", example_shape=(3, 12, 12), seed=7).features[0][0].weight
    assert not torch.equal(weights(tmp_path / "run")["network.features.0.0.weight"], trunk)


def whole(images, learnt, out, **changes) -> TrainConfig:
    """A short training of a whole network."""
    config = frozen(images, learnt, out, freeze=False, epochs=2, examples_per_cluster=4, **changes)
    return replace(config, learning_rate=0.05)


def test_a_renewed_whitening_is_that_of_the_trained_trunk(images, learnt, cache, tmp_path):
    train(whole(images, learnt, tmp_path / "kept"), silent=True)
    train(whole(images, learnt, tmp_path / "renewed", renew=True), silent=True)
    kept, renewed = weights(tmp_path / "kept"), weights(tmp_path / "renewed")
    trunk = [name for name in kept if "embedding" not in name]
    assert trunk
    assert all(torch.equal(kept[name], renewed[name]) for name in trunk)
    assert torch.equal(renewed["network.embedding.map.weight"], torch.eye(16))

    config = read_config(tmp_path / "renewed")
    bench = make_workbench(config, fresh=False)
    bench.learner.load_state_dict(renewed)
    network, raw = bench.learner.network.eval(), bench.data.batch(bench.train)
    images, views = bench.views.plain(raw), list(bench.views.several(raw, config.seed, VIEWS))
    with torch.no_grad():
        x, r = network.trunk_features(images), network(images)
        of_views = torch.cat([network.trunk_features(view) for view in views])
    start = start_settings(config).fit(Examples(of_views, bench.labels.repeat(VIEWS)), 16, config.seed)
    far = torch.cdist(start(x.double()), start(x.double()))  # directions of equal variance may come in any order
    torch.testing.assert_close(torch.cdist(r, r).double(), far, atol=1e-3 * float(far.max()), rtol=0)
    bench.learner.load_state_dict(kept)
    with torch.no_grad():
        r = network(images)
    assert float((torch.cdist(r, r) - far).abs().max()) > 0.1 * float(far.max())


def test_a_renewed_run_may_begin_with_softmax_whose_whitening_stays(images, learnt, cache, tmp_path):
    config = whole(images, learnt, tmp_path / "run", renew=True, warm_start_epochs=1)
    folder = train(replace(config, learning_rate=1e-4), silent=True)
    first, last = weights(folder / "warm-start"), weights(folder)
    assert not torch.equal(first["network.embedding.map.weight"], torch.eye(16))
    assert torch.equal(last["network.embedding.map.weight"], torch.eye(16))
    assert not torch.equal(first["network.embedding.whitening"], last["network.embedding.whitening"])


def test_a_stopped_run_is_renewed_as_if_it_had_not_been(images, learnt, cache, tmp_path, monkeypatch):
    config = whole(images, learnt, tmp_path / "through", renew=True)
    train(config, silent=True)
    stop_at(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        train(replace(config, out=tmp_path / "stopped"), silent=True)
    train(read_config(tmp_path / "stopped"), resume=True, silent=True)
    assert differences(tmp_path / "through", tmp_path / "stopped") == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"start": "random", "clusters_per_class": 2, "clusters_per_batch": 4, "scaling": 1.0}, "give --start whitened"),
     ({"freeze": True}, "a trunk that was trained"), ({"method": "softmax"}, "has a head of its own")],
)  # fmt: skip
def test_what_cannot_be_renewed_is_refused(changes, why, images, learnt, cache, tmp_path):
    config = replace(whole(images, learnt, tmp_path / "run", renew=True), **changes)
    with pytest.raises(UserError, match=why):
        train(config, silent=True)


def test_images_of_fewer_pixels_are_not_blown_up_to_the_networks_size(tmp_path):
    data = open_data(write_images(tmp_path / "images", per_class=4))
    sized = complete(TrainConfig(str(tmp_path / "images"), backbone="googlenet"), data)
    assert sized.image_size == 64  # the least; the network's own is 224


@pytest.mark.parametrize("backbone", ["timm/vit_tiny_patch16_224", "timm/lcnet_035"])
def test_transformers_and_convolutions_of_timm_train_with_the_same_defaults(backbone, cache, tmp_path):
    try:
        import_timm()
    except UserError as error:
        pytest.skip(str(error))
    data = write_images(tmp_path / "images", per_class=8)
    file = tmp_path / f"{backbone.partition('/')[2]}.safetensors"
    made = build(backbone, example_shape=(3, 32, 32))
    save_file({k.removeprefix("trunk."): v.contiguous() for k, v in made.state_dict().items()}, file)
    config = with_preset(TrainConfig(data, weights=file))
    config = replace(config, steps=2, image_size=32, dim=8, workers=0, device="cpu", out=tmp_path / "run")
    folder = train(replace(config, evaluate=False), silent=True)
    done = read_config(folder)
    assert (done.backbone, done.preset, done.start) == (backbone, "pretrained", "whitened")
