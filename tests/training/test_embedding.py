"""The embedding pass: in order, and without a second copy of what it makes."""

import numpy as np
import torch

from magnet.training.inputs import PASS_BATCH
from magnet.training.refresh import embed
from magnet.training.workbench import make_workbench
from training.short_runs import settings, write_images, write_vectors
from watching import Watch

CPU = torch.device("cpu")


def test_representations_are_those_of_each_example_by_itself(tmp_path, monkeypatch):
    monkeypatch.setitem(PASS_BATCH, "vectors", 7)
    bench = make_workbench(settings(tmp_path, write_vectors(tmp_path / "v.npz"), backbone="mlp"))
    rows = bench.train.flip(0)
    found = embed(bench.learner, rows, bench.examples(CPU))
    bench.learner.eval()
    with torch.no_grad():
        expected = torch.cat([bench.learner.represent(bench.views.plain(bench.data.batch([int(i)]))) for i in rows])
    torch.testing.assert_close(found, expected)


def test_what_is_said_of_an_image_does_not_depend_on_the_images_beside_it(tmp_path):
    data = write_images(tmp_path / "images", per_class=4)
    bench = make_workbench(settings(tmp_path, data, backbone="convnet", hidden=0, image_size=10, test_draws=3))
    rows = torch.arange(len(bench.data))
    for test in (True, False):
        whole = embed(bench.learner, rows, bench.examples(CPU), test=test)
        for row in (7, 2):
            alone = embed(bench.learner, torch.tensor([row]), bench.examples(CPU), test=test)
            torch.testing.assert_close(alone[0], whole[row])


def test_only_one_tensor_of_a_pass_is_as_large_as_the_data(tmp_path):
    count = 20_000
    vectors = np.random.default_rng(0).normal(size=(count, 6)).astype(np.float32)
    np.savez(tmp_path / "v.npz", X=vectors, y=np.arange(count) % 3, test=np.arange(count) == 0)
    bench = make_workbench(settings(tmp_path, str(tmp_path / "v.npz"), backbone="mlp"))
    with Watch() as watch:
        found = embed(bench.learner, bench.train, bench.examples(CPU))
    large = [(name, elements) for name, elements in watch.made if elements > found.numel() // 2]
    assert large == [("empty", found.numel())]
