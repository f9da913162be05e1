"""The whitened start of a run: chosen from the training data, fair to every method, the same after it is opened."""

import numpy as np
import pytest
import torch

from magnet.errors import UserError
from magnet.experiments.tables import normal_in_ring
from magnet.export.bundle import export_bundle, load
from magnet.export.onnx import Graph, export_onnx, model_of
from magnet.recipe import Recipe
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.start import Start, WithinClusters
from magnet.training.config import TrainConfig, read_config
from magnet.training.presets import with_preset
from magnet.training.train import train
from magnet.training.workbench import complete, make_workbench, open_for, prepare


@pytest.fixture(scope="module")
def two_modes(tmp_path_factory):
    """Three classes of two modes each, on opposite sides, among features that only make noise; non-negative."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 120)
    directions = np.linalg.qr(rng.normal(size=(10, 3)))[0].T * 6
    X = directions[y] * np.where(np.arange(len(y)) % 2, 1, -1)[:, None] + rng.normal(size=(len(y), 10))
    X[:, 7:] += rng.normal(size=(len(y), 3)) * 8
    test = np.arange(len(y)) % 4 == 0
    path = tmp_path_factory.mktemp("data") / "modes.npz"
    np.savez(path, X=(X - X.min()).astype(np.float32), y=y, test=test)
    return path


def settings(data, **changes):
    config = with_preset(TrainConfig(data=str(data), method=changes.get("method", "magnet")))
    return TrainConfig(**vars(config) | {"quiet": True, "evaluate": False} | changes)


@pytest.fixture(scope="module")
def run(two_modes, tmp_path_factory):
    return Run(train(settings(two_modes, out=tmp_path_factory.mktemp("runs") / "run"), silent=True))


def test_the_run_keeps_what_was_chosen_and_it_suits_the_data(run):
    config = read_config(run.folder)
    assert config.start == "whitened"
    assert config.clusters_per_class >= 2, "classes of two modes"
    assert config.power in (1.0, 0.5)
    assert config.shrinkage in (0.1, 0.4, 0.7)
    assert min(config.scaling, config.votes_scaling, config.steps) > 0
    assert run.clusters_per_class == config.votes_clusters
    assert evaluate(run)["knc"]["error"] < 0.05


def test_larger_classes_have_more_clusters_in_training_and_in_the_votes(tmp_path):
    rng = np.random.default_rng(0)
    modes, owner = 4 * rng.normal(size=(8, 16)), np.array([0, 0, 0, 0, 0, 0, 1, 2])
    which = np.repeat(np.arange(8), 30)
    x = modes[which] + 8 + rng.normal(size=(len(which), 16))
    np.savez(tmp_path / "sizes.npz", X=x.astype("float32"), y=owner[which])
    chosen = settings(tmp_path / "sizes.npz", clusters_per_class=3, steps=8, out=tmp_path / "run")
    assert chosen.clusters_by == "size"
    found = Run(train(chosen, silent=True))
    assert torch.bincount(found.index.centre_labels).tolist() == [7, 1, 1]
    index = make_workbench(found.config).clusters_per_class
    assert index == {0: 7, 1: 1, 2: 1}


@pytest.mark.parametrize(
    ("clusters", "classes", "expected"),
    [(160, 10, (48, 4)), (37, 37, (37, 5)), (120, 60, (60, 4)), (1000, 1000, (192, 4))],
)
def test_a_batch_has_as_many_clusters_as_there_are_classes_within_bounds(clusters, classes, expected):
    assert Recipe().batches_for(clusters, classes) == expected
    assert Recipe(clusters_per_batch=12).batches_for(clusters, classes) == (12, 4)


@pytest.mark.parametrize(("method", "expected"), [("magnet", 60), ("softmax", 48)])
def test_a_run_of_many_classes_has_larger_batches_of_magnet_alone(tmp_path, method, expected):
    x = 4 * np.random.default_rng(0).normal(size=(60, 6)).repeat(8, axis=0)
    x += np.random.default_rng(1).normal(size=x.shape)
    np.savez(tmp_path / "many.npz", X=x.astype("float32"), y=np.arange(60).repeat(8))
    config = settings(tmp_path / "many.npz", method=method, epochs=1)
    found = prepare(complete(config, open_for(config)), open_for(config)).config
    assert (found.clusters_per_batch, found.examples_per_cluster) == (expected, 4)


def test_the_same_seed_gives_the_same_run(run, two_modes, tmp_path):
    again = Run(train(settings(two_modes, out=tmp_path / "again"), silent=True))
    assert torch.equal(again.references, run.references)


def test_before_the_first_step_the_network_is_the_closed_form_start(two_modes):
    config = settings(two_modes, power=0.5, shrinkage=0.4, standardize="no", clusters_per_class=2, start_clusters=2,
                      kernel_width=0.0, method="softmax")  # fmt: skip
    bench = make_workbench(complete(config, open_for(config)))
    x, labels = bench.data.batch(bench.train), bench.labels
    start = WithinClusters(x, labels, 2, power=0.5).start(0.4, 10)
    found = bench.learner.network.eval()(x)
    torch.testing.assert_close(found, start(x.double()).float(), rtol=1e-3, atol=1e-3)


def test_the_head_of_softmax_starts_as_the_discriminant_of_the_class_means(two_modes):
    config = settings(two_modes, method="softmax", clusters_per_class=1)
    bench = make_workbench(complete(config, open_for(config)))
    learner = bench.learner.eval()
    r = learner.represent(bench.data.batch(bench.train))
    means = torch.stack([r[bench.labels == c].mean(dim=0) for c in range(3)])
    squares = torch.cdist(r, means).square()
    sizes = torch.bincount(bench.labels).float().log()
    logits = learner.method.logits(r)
    # Up to one scaling, and to what all classes have in common.
    difference = (logits - sizes)[:, 0] - (logits - sizes)[:, 1]
    expected = squares[:, 1] - squares[:, 0]
    ratio = (difference / expected)[expected.abs() > 1]
    assert float(ratio.std() / ratio.mean()) < 1e-3
    assert float(ratio.mean()) > 0


@pytest.mark.parametrize("method", ["softmax", "triplet"])
def test_every_method_can_have_the_start_and_votes_chosen_for_it(two_modes, tmp_path, method):
    run = Run(train(settings(two_modes, out=tmp_path / "run", method=method, epochs=2), silent=True))
    assert read_config(run.folder).start == "whitened"
    assert set(run.embeddings.votes) == {"knc", "knn"}
    assert run.embeddings.votes["knc"].scaling != 1.0
    assert evaluate(run)["knn"]["error"] < 0.1


def test_with_a_random_start_nothing_is_chosen_before_training(two_modes):
    config = with_preset(TrainConfig(data=str(two_modes), start="random"))
    prepared = prepare(complete(config, open_for(config)), open_for(config))
    assert prepared.start is None
    assert (prepared.config.clusters_per_class, prepared.config.epochs) == (2, 20)


def test_what_only_the_start_can_choose_is_refused_without_it(two_modes):
    config = TrainConfig(data=str(two_modes), start="random", scaling=0.0)
    with pytest.raises(UserError, match=r"--scaling 0\.0 is chosen by the whitened start"):
        config.check()


def check_exports(run, place, graph=1e-4, bundle=1e-5):
    """The bundle and the graph of a run give its probabilities, to these absolute differences."""
    x = run.data.batch(run.data.indices("test"))
    expected = run.rule("knc").predict_proba(run.learner.represent(x).detach()).float()
    model = load(export_bundle(run, place / "bundle"))
    torch.testing.assert_close(model.classify(x).probabilities, expected, rtol=10 * bundle, atol=bundle)
    _, probabilities, _ = Graph(model_of(run)).eval()(x)
    torch.testing.assert_close(probabilities, expected, rtol=1e-3, atol=graph)


def test_a_bundle_and_the_graph_give_the_answers_of_the_run(run, tmp_path):
    check_exports(run, tmp_path)


def test_one_affine_map_after_the_power_is_the_whole_embedding(run):
    embedding = run.learner.network.embedding
    x = run.data.batch(run.train)
    torch.testing.assert_close(embedding.folded()(x), embedding(x), rtol=1e-4, atol=1e-4)


def test_a_run_with_kernel_features_is_the_same_in_a_bundle_and_in_a_graph(tmp_path):
    X, y = normal_in_ring(0, 400)
    np.savez(tmp_path / "ring.npz", X=X.astype(np.float32), y=y, test=np.arange(len(y)) % 4 == 0)
    run = Run(train(settings(tmp_path / "ring.npz", out=tmp_path / "run"), silent=True))
    assert run.config.kernel_width > 0
    assert evaluate(run)["knc"]["error"] < 0.1
    check_exports(run, tmp_path, graph=1e-3, bundle=1e-4)
    checked = export_onnx(run, tmp_path / "ring.onnx")
    assert checked.labels == checked.examples


@pytest.fixture(scope="module")
def sphere(tmp_path_factory):
    """Three classes in forty dimensions, whose examples differ in length far more than in direction."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 80)
    X = rng.normal(size=(3, 40))[y] * 3 + rng.normal(size=(len(y), 40))
    path = tmp_path_factory.mktemp("data") / "sphere.npz"
    X *= np.exp(rng.normal(size=(len(y), 1)))
    np.savez(path, X=X.astype(np.float32), y=y, test=np.arange(len(y)) % 4 == 0)
    return path


def test_a_run_of_unit_length_is_the_same_in_a_bundle_and_in_a_graph(sphere, tmp_path):
    run = Run(train(settings(sphere, kernel_width=0.0, out=tmp_path / "run"), silent=True))
    assert run.config.unit_length == "yes"
    assert evaluate(run)["knc"]["error"] < 0.05
    check_exports(run, tmp_path)
    checked = export_onnx(run, tmp_path / "sphere.onnx")
    assert checked.labels == checked.examples


def test_before_the_first_step_representations_of_unit_length_are_those_of_the_start(sphere):
    config = settings(sphere, power=1.0, shrinkage=0.4, standardize="no", clusters_per_class=1, start_clusters=1,
                      kernel_width=0.0, unit_length="yes", method="softmax")  # fmt: skip
    bench = make_workbench(complete(config, open_for(config)))
    x = bench.data.batch(bench.train)
    plain = WithinClusters(x, bench.labels, 1).start(0.4, 40)(x.double())
    lengths = plain.norm(dim=1, keepdim=True)
    expected = plain / lengths * lengths.square().mean().sqrt()
    torch.testing.assert_close(bench.learner.network.eval()(x), expected.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sizes", [[1, 2], [2, 2, 1], [30, 1], [70, 2, 1]])
def test_small_and_odd_data_get_a_start(tmp_path, sizes):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(y), 40))  # more features than examples, and negative ones
    X[:, 3] = 7.0  # constant
    np.savez(tmp_path / "odd.npz", X=X, y=y, split=np.zeros(len(y), dtype=int))
    config = settings(tmp_path / "odd.npz", out=tmp_path / "run", steps=2)
    found = Run(train(config, silent=True)).references
    assert bool(found.isfinite().all())


def test_a_start_is_a_named_function_of_features():
    start = Start(0.5, torch.tensor([1.0, 2.0]), torch.tensor([[2.0, 0.0]]))
    assert start(torch.tensor([[9.0, 4.0]])).tolist() == [[4.0]]
