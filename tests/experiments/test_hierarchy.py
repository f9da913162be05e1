"""Hierarchy recovery: which pairings and seeds it takes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.small_labs import lab_of
from magnet.data import merge_classes
from magnet.experiments import hierarchy
from training.short_runs import write_vectors


@pytest.mark.parametrize("seed", [0, 7])
def test_the_seed_decides_the_pairings_and_the_seeds_of_the_final_runs(seed, tmp_path, monkeypatch):
    lab = lab_of(write_vectors(tmp_path / "v.npz", classes=6), tmp_path / "results" / "hierarchy")
    before, trained, searched = lab.configure, [], []
    lab.configure = lambda method: replace(before(method), seed=seed)
    lab.pairings = 3

    def train(config, data):
        trained.append((config.seed, data.classes))
        return SimpleNamespace()

    def judge(config, held, what):
        searched.append((config.seed, held.classes))
        return [(1, 0.5)]

    monkeypatch.setattr(lab, "train", train)
    monkeypatch.setattr(lab, "judge", judge)
    wrong = {name: np.array([True, False]) for name in hierarchy.MEASURES}
    monkeypatch.setattr(hierarchy, "_mistakes", lambda run: wrong)
    hierarchy.run(lab)
    pairings = [(seed + i, merge_classes(lab.data, seed + i).classes) for i in range(3)]
    assert trained == pairings * len(lab.methods)
    assert {found[0] for found in searched} == {seed}
    assert searched[0][1] == merge_classes(lab.data, seed + hierarchy.SEARCH_PAIRING).classes


@pytest.mark.parametrize("groups", [True, False])
def test_real_groups_are_tried_only_if_they_are_asked_for(groups, tmp_path, monkeypatch):
    lab = lab_of(write_vectors(tmp_path / "v.npz", classes=4), tmp_path / "results" / "hierarchy")
    lab.groups = groups
    tried = []
    monkeypatch.setattr(hierarchy, "known_groups", lambda classes: [["0", "1"], ["2", "3"]])
    monkeypatch.setattr(hierarchy, "merge_groups", lambda data, groups: data)
    monkeypatch.setattr(hierarchy, "measure_hidden", lambda lab, part, *rest: tried.append(part))
    monkeypatch.setattr(hierarchy, "hidden_tables", lambda *rest: [])
    hierarchy.run(lab)
    assert tried == [hierarchy.PAIRS, hierarchy.GROUPS][: 1 + groups]
