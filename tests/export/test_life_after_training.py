import numpy as np
import pytest
import torch

import magnet
from magnet.errors import UserError


def accuracy(labels, truth):
    return np.mean([label == str(t) for label, t in zip(labels, truth, strict=True)])


@pytest.fixture(scope="module")
def parts(digits):
    """Test digits that are known, test nines, and twenty nines to learn from."""
    x, y, split = digits
    nines = np.flatnonzero((y == 9) & (split == 0))
    return {
        "known": (x[(y != 9) & (split == 2)], y[(y != 9) & (split == 2)]),
        "new": (x[(y == 9) & (split == 2)], y[(y == 9) & (split == 2)]),
        "twenty": x[np.random.default_rng(0).choice(nines, 20, replace=False)],
    }


def test_a_class_never_trained_on_is_recognised_from_twenty_examples(nine_digits, parts, tmp_path):
    known, new = parts["known"], parts["new"]
    before = accuracy(nine_digits.classify(known[0]).labels, known[1])
    extended = nine_digits.extend(parts["twenty"], np.full(20, 9))
    assert extended.classes == [*nine_digits.classes, "9"]
    assert accuracy(extended.classify(new[0]).labels, new[1]) > 0.7
    assert accuracy(extended.classify(known[0]).labels, known[1]) > before - 0.02
    assert "9" not in nine_digits.classes  # the model itself is as it was
    assert {found.label for found in extended.search(parts["twenty"][:1], 1)[0]} == {"9"}
    extended.save(tmp_path / "bundle")
    again = magnet.load(tmp_path / "bundle")
    assert again.classes == extended.classes
    assert again.index == extended.index
    assert again.names[-1] == "added 19"
    assert torch.equal(again.classify(new[0]).probabilities, extended.classify(new[0]).probabilities)


def test_new_examples_of_a_known_class_join_its_clusters(nine_digits, digits):
    x, y, split = digits
    zeros = x[(y == 0) & (split == 2)]
    extended = nine_digits.extend(zeros, ["0"] * len(zeros), names=[f"z{i}" for i in range(len(zeros))])
    assert extended.classes == nine_digits.classes
    added = extended.index.sizes.sum() - nine_digits.index.sizes.sum()
    assert added == len(zeros)
    assert 0 <= len(extended.index) - len(nine_digits.index) <= 8
    others = nine_digits.index.centre_labels != 0
    assert torch.equal(
        extended.index.centres[: len(nine_digits.index)][others].round(decimals=3),
        nine_digits.index.centres[others].round(decimals=3),
    )
    assert extended.names[-1] == f"z{len(zeros) - 1}"
    # Each centre that existed is the mean of its old and new members.
    labels = extended.index.centre_labels[extended.index.assignments]
    j = int((~others).nonzero()[0])
    members = extended.references[extended.index.members(j)]
    assert torch.allclose(members.mean(dim=0), extended.index.centres[j], atol=1e-3)
    assert int(labels[-1]) == 0


def test_labels_and_examples_must_go_together(nine_digits, parts):
    with pytest.raises(UserError, match="20 examples, 3 labels"):
        nine_digits.extend(parts["twenty"], ["9"] * 3)
    assert nine_digits.extend(parts["twenty"], torch.full((20,), 9.0)).classes[-1] == "9"


def test_an_unseen_class_is_more_novel_than_known_ones(nine_digits, parts):
    known, new = (nine_digits.novelty(parts[name][0]) for name in ("known", "new"))
    assert float((new[:, None] > known[None, :]).float().mean()) > 0.85
    sigma = nine_digits.rule.variance**0.5
    nearest = torch.cdist(nine_digits.embed(parts["new"][0]), nine_digits.index.centres).min(dim=1).values
    assert torch.allclose(new, nearest / sigma, atol=1e-3)


def test_the_threshold_refuses_noise_and_keeps_what_is_known(nine_digits, parts, digits):
    known = nine_digits.classify(parts["known"][0], refuse=True).labels
    assert np.mean([label is None for label in known]) < 0.05
    noise = np.random.default_rng(0).uniform(0, digits[0].max(), (200, 64)).astype(np.float32)
    assert np.mean([label is None for label in nine_digits.classify(noise, refuse=True).labels]) > 0.9
    assert None not in nine_digits.classify(noise).labels


def test_a_shortened_model_answers_nearly_as_the_whole_one(nine_digits, digits, tmp_path):
    x, y, split = digits
    known = x[(y != 9) & (split == 2)], y[(y != 9) & (split == 2)]
    short = nine_digits.shortened(8)
    assert short.embed(known[0][:3]).shape == (3, 8)
    whole = accuracy(nine_digits.classify(known[0]).labels, known[1])
    assert accuracy(short.classify(known[0]).labels, known[1]) > whole - 0.05
    refused = [label is None for label in short.classify(known[0], refuse=True).labels]
    assert np.mean(refused) < 0.1
    assert short.novelty_threshold < nine_digits.novelty_threshold  # fewer dimensions, shorter distances
    with pytest.raises(UserError, match="shortened"):
        short.save(tmp_path / "short")
