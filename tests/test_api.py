"""The commands for Python."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import magnet
from magnet.errors import UserError

X, Y = load_digits(return_X_y=True)
SHORT = {"steps": 30, "silent": True, "evaluate": False}


def test_arrays_a_frame_and_a_torch_data_set_give_the_same_run(tmp_path):
    pandas = pytest.importorskip("pandas")
    pairs = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    frame = pandas.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    given = {"arrays": (X, Y), "frame": (frame, pandas.Series(Y)), "torch": pairs}
    runs = {name: magnet.train(data, tmp_path / name, **SHORT) for name, data in given.items()}
    errors = {name: magnet.evaluate(run)["knc"]["error"] for name, run in runs.items()}
    assert 0 < errors["arrays"] < 0.1
    assert set(errors.values()) == {errors["arrays"]}
    assert runs["frame"].data.feature_names[3] == "pixel 3"
    assert runs["arrays"].config.preset == "vectors"


def test_a_run_on_arrays_can_be_used_and_evaluated_on_other_arrays_later(tmp_path):
    run = magnet.train((X[:1000], Y[:1000]), tmp_path / "run", **SHORT)
    magnet.evaluate(run)
    assert magnet.evaluate(tmp_path / "run", (X[1000:], Y[1000:]), part="all")["n"] == 797
    assert magnet.load(tmp_path / "run").classify(X[1000:1010].astype(np.float32)).labels[0] == str(Y[1000])


def test_what_cannot_be_trained_on_is_said():
    with pytest.raises(UserError, match="found data of type int"):
        magnet.train(3)
    with pytest.raises(UserError, match="has no setting 'epoch'"):
        magnet.train("digits", epoch=3)


def test_the_explorer_of_a_run_in_memory_is_one_page(tmp_path):
    pytest.importorskip("openTSNE")
    run = magnet.train((X[:300], Y[:300]), tmp_path / "run", **SHORT)
    assert magnet.explore(run, tmp_path / "page.html").stat().st_size > 100_000


def test_a_run_on_data_in_memory_classifies_without_that_data(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + 9 * y[:, None]
    magnet.train((X, y), tmp_path / "run", steps=5, silent=True)
    model = magnet.load(tmp_path / "run")
    assert model.classify(X[:6]).labels == [str(label) for label in y[:6]]
    assert len(model.search(X[:1], 3)[0]) == 3
