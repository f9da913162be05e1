"""NeighbourhoodSampler: the right neighbourhoods, in proportion to losses that may come late, and never another way."""

import copy
import itertools
import json
import math
import pickle
import tracemalloc

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import chisquare
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset

from magnet import ClusterIndex, NeighbourhoodSampler
from magnet.sampler import SumTree

M, D = 5, 3


def fit(n=240, classes=6, k=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    labels[:classes] = torch.arange(classes)
    return ClusterIndex.fit(torch.randn(n, 3, generator=g) + 0.5 * labels[:, None], labels, k, seed=seed)


@pytest.fixture(scope="module")
def index():
    return fit()


def sampler_of(index, **options):
    return NeighbourhoodSampler(index, **{"clusters_per_batch": M, "examples_per_cluster": D, **options})


def loss_of(examples):
    """Any fixed function of the example, in multiples of 1/8 so that sums are exact."""
    return [(i * i % 17) / 8 for i in examples]


def work(sampler, batches, count=None, loss=loss_of):
    """What a training loop does: take batches, report their losses."""
    seen = []
    for batch in batches:
        examples = batch.tolist() if isinstance(batch, torch.Tensor) else batch
        seen.append(examples)
        sampler.update(batch, torch.tensor(loss(examples)))
        if len(seen) == count:
            break
    return seen


def seeds_of(index, batches):
    return [int(index.assignments[batch[0]]) for batch in batches]


class Indices(Dataset):
    """A dataset whose item i is i."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


def loader(sampler, workers):
    ahead = {"num_workers": workers, "prefetch_factor": 4} if workers else {}
    return DataLoader(Indices(240), batch_sampler=sampler, **ahead)


@pytest.fixture(scope="module")
def two_thousand(index):
    sampler = sampler_of(index, batches=2000)
    batches = work(sampler, sampler)
    assert len(batches) == 2000
    return batches


def test_every_cluster_of_a_fresh_index_is_seeded_before_any_comes_again(index, two_thousand):
    seeds = seeds_of(index, two_thousand)
    assert set(seeds) == set(range(len(index)))
    unreported = seeds_of(index, sampler_of(index, batches=len(index)))
    assert sorted(unreported) == list(range(len(index)))
    assert unreported != list(range(len(index)))  # in random order


def test_a_batch_is_the_seed_and_its_nearest_impostors_by_distance(index, two_thousand):
    for batch in two_thousand:
        clusters = index.assignments[batch].tolist()
        assert len(clusters) == M * D
        neighbourhood = clusters[::D]
        assert clusters == [j for j in neighbourhood for _ in range(D)]
        assert neighbourhood[1:] == index.impostors(neighbourhood[0], M - 1).tolist()


def test_impostors_are_never_of_the_class_of_the_seed_and_no_cluster_comes_twice(index, two_thousand):
    for batch in two_thousand:
        neighbourhood = index.assignments[batch][::D]
        labels = index.centre_labels[neighbourhood]
        assert (labels[1:] != labels[0]).all()
        assert len(neighbourhood.unique()) == M


def test_examples_of_a_cluster_are_distinct_and_uniform(index, two_thousand):
    large = int(index.sizes.argmax())
    counts = dict.fromkeys(index.members(large).tolist(), 0)
    for batch in two_thousand:
        for start in range(0, M * D, D):
            part = batch[start : start + D]
            assert len(set(part)) == min(D, int(index.sizes[index.assignments[part[0]]]))
            for i in part:
                counts.update({i: counts[i] + 1} if i in counts else {})
    assert chisquare(list(counts.values())).pvalue > 0.001


def test_seeds_follow_the_mean_losses_of_clusters(index):
    sampler = sampler_of(index, batches=4000)
    g = torch.Generator().manual_seed(4)
    level = torch.randint(5, (len(index),), generator=g)  # some of them zero
    losses = level[index.assignments] * (0.5 + torch.rand(240, generator=g))
    sampler.update(range(240), losses)
    means = np.array([float(losses[index.members(j)].mean()) for j in range(len(index))])
    np.testing.assert_allclose(sampler.mean_losses().isnan(), True)  # nothing counts before its time
    draws = iter(sampler)
    seeds_of(index, itertools.islice(draws, sampler.delay))
    seeds = seeds_of(index, draws)
    np.testing.assert_allclose(sampler.mean_losses(), means, rtol=1e-4, atol=1e-6)
    counts = np.bincount(seeds, minlength=len(index))
    assert (means == 0).any()
    assert counts[means == 0].sum() == 0
    expected = means[means > 0] / means.sum() * len(seeds)
    assert chisquare(counts[means > 0], expected).pvalue > 0.001
    assert chisquare(counts[means > 0]).pvalue < 1e-6  # and not just any losses


def test_a_changed_loss_changes_the_frequencies(index):
    sampler = sampler_of(index, batches=3000, delay=0)
    sampler.update(range(240), [1.0] * 240)
    draws = iter(sampler)
    seeds_of(index, itertools.islice(draws, 1000))
    sampler.update(index.members(3), [50.0] * len(index.members(3)))
    share = seeds_of(index, draws).count(3) / 2000
    expected = 50 / (50 + len(index) - 1)
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 2000)


def test_all_zero_losses_make_seeds_uniform(index):
    sampler = sampler_of(index, batches=2000)
    batches = work(sampler, sampler, loss=lambda examples: [0.0] * len(examples))
    counts = np.bincount(seeds_of(index, batches), minlength=len(index))
    assert chisquare(counts).pvalue > 0.001
    known = sampler.mean_losses()
    assert (known[~known.isnan()] == 0).all()


def test_clusters_smaller_than_d_give_all_their_examples_and_then_some_again():
    index = fit(n=30, classes=4, k=3)
    assert (index.sizes < 7).any()
    sampler = sampler_of(index, clusters_per_batch=4, examples_per_cluster=7, batches=100)
    for batch in work(sampler, sampler):
        for start in range(0, len(batch), 7):
            part = batch[start : start + 7]
            members = index.members(int(index.assignments[part[0]])).tolist()
            times = [part.count(i) for i in members]
            assert sum(times) == 7
            assert max(times) - min(times) <= 1


def test_with_few_impostors_all_are_taken_and_the_batch_is_smaller():
    g = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 30 + [1] * 30)
    index = ClusterIndex.fit(torch.randn(60, 2, generator=g), labels, {0: 4, 1: 2})
    sampler = sampler_of(index, clusters_per_batch=12, examples_per_cluster=4, batches=50)
    for batch in work(sampler, sampler):
        label = int(labels[batch[0]])
        assert len(batch) == 4 * (1 + (2 if label == 0 else 4))
        assert (labels[batch[4:]] != label).all()


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_pass_is_an_epoch_unless_told_otherwise(index, world_size):
    expected = math.ceil(240 / (M * D * world_size))
    sampler = sampler_of(index, world_size=world_size)
    assert len(sampler) == len(list(sampler)) == expected
    assert len(sampler_of(index, batches=7)) == 7


def test_the_same_seed_gives_the_same_batches_and_passes_differ(index):
    first, again, other = (sampler_of(index, batches=30, seed=s) for s in (5, 5, 6))
    batches = work(first, first)
    assert batches == work(again, again)
    assert batches != work(other, other)
    assert batches != work(first, first)


def test_an_example_that_stands_twice_in_a_batch_gets_its_mean_loss():
    index = ClusterIndex(torch.eye(4), torch.tensor([0, 0, 1, 1]), torch.arange(4), torch.tensor(1.0))
    sampler = sampler_of(index, delay=0)
    sampler.update([0, 1, 0, 0], [1.0, 5.0, 2.0, 6.0])
    next(iter(sampler))
    np.testing.assert_array_equal(sampler.mean_losses(), [3.0, 5.0, np.nan, np.nan])


def test_losses_survive_however_they_are_given(index):
    found = []
    for convert in (list, torch.tensor, lambda x: torch.tensor(x, dtype=torch.bfloat16), np.array):
        sampler = sampler_of(index, delay=0)
        batch = next(iter(sampler))
        sampler.update(torch.tensor(batch), convert(loss_of(batch)))
        next(iter(sampler))
        found.append(sampler.mean_losses())
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], equal_nan=True)


# Losses that come late, through the workers of a real DataLoader.


def test_any_number_of_workers_draws_exactly_the_same_batches(index):
    runs = {}
    for workers in (0, 1, 2):
        sampler = sampler_of(index, batches=40)
        batches = loader(sampler, workers)
        runs[workers] = [work(sampler, batches) for _ in range(2)], sampler.mean_losses().nan_to_num(-1).tolist()
    assert runs[1] == runs[0]
    assert runs[2] == runs[0]
    indifferent = sampler_of(index, batches=40)
    assert work(indifferent, indifferent, loss=lambda examples: [1.0] * len(examples)) != runs[0][0][0]


def test_losses_that_arrive_eight_batches_late_reach_the_right_examples():
    g = torch.Generator().manual_seed(0)
    x, labels = torch.randn(240, 3, generator=g), torch.arange(240) % 6
    index = ClusterIndex.fit(x, labels, 240)  # one cluster an example: a mean is the loss of that example
    sampler = sampler_of(index, batches=60)
    ahead = []

    def loss(examples):
        ahead.append(sampler._drawn)
        return loss_of(examples)

    batches = work(sampler, loader(sampler, 2), loss=loss)
    assert ahead[:3] == [9, 10, 11]  # eight more were drawn before the first loss came
    found = sampler.mean_losses()[index.assignments]
    known = ~found.isnan()
    settled = {i for batch in batches[:-9] for i in batch}
    assert settled <= set(known.nonzero().flatten().tolist()) <= {i for batch in batches for i in batch}
    assert torch.equal(found[known], torch.tensor(loss_of(range(240)))[known])


def test_losses_take_effect_after_the_delay_and_not_before(index):
    for delay in (0, 3, 8):
        sampler = sampler_of(index, batches=40, delay=delay)
        for number, batch in enumerate(sampler):
            known = ~sampler.mean_losses().isnan()
            assert bool(known.any()) == (number > delay)
            sampler.update(batch, loss_of(batch))


def test_a_loader_that_fetches_further_ahead_than_the_delay_is_warned_about(index):
    sampler = sampler_of(index, batches=10, delay=2)
    fetched = list(sampler)
    with pytest.warns(UserWarning, match=r"delay=2.*num_workers \* prefetch_factor"):
        work(sampler, fetched)


def test_a_late_loss_that_is_within_the_delay_is_not_warned_about(index, recwarn):
    sampler = sampler_of(index, batches=30)
    work(sampler, loader(sampler, 2))
    assert not [w for w in recwarn if "delay" in str(w.message)]


def test_what_an_abandoned_pass_fetched_ahead_is_drawn_again(index):
    plain, abandoned = sampler_of(index, batches=30), sampler_of(index, batches=30)
    expected = work(plain, plain, 5) + work(plain, plain)
    found = work(abandoned, loader(abandoned, 2), 5) + work(abandoned, loader(abandoned, 2))
    assert found == expected


# Refreshes.


def test_losses_stay_with_their_examples_over_a_refresh(index):
    sampler = sampler_of(index, batches=50, delay=0)
    seen = {i for batch in work(sampler, sampler) for i in batch}
    next(iter(sampler))
    newer = fit(k=3, seed=9)
    seen &= set(range(240))
    sampler.refresh(newer)
    losses = loss_of(range(240))
    expected = []
    for j in range(len(newer)):
        known = [losses[i] for i in newer.members(j).tolist() if i in seen]
        expected.append(np.mean(known) if known else np.nan)
    np.testing.assert_allclose(sampler.mean_losses(), expected, rtol=1e-6)
    for batch in work(sampler, sampler):
        assert newer.assignments[batch].tolist()[D::D] == newer.impostors(seeds_of(newer, [batch])[0], M - 1).tolist()


def test_clusters_that_a_refresh_made_of_unseen_examples_are_seeded_first(index):
    sampler = sampler_of(index, batches=20, delay=0)
    draws = iter(sampler)
    work(sampler, draws, 3)
    newer = fit(k=6, seed=2)
    sampler.refresh(newer)
    unseen = set(sampler.mean_losses().isnan().nonzero().flatten().tolist())
    batch = next(draws)  # by now the losses of all three batches count
    assert len(unseen) > 5
    assert seeds_of(newer, [batch])[0] in unseen


def test_a_batch_in_flight_keeps_the_cluster_ids_that_it_was_drawn_with(index):
    sampler = sampler_of(index, batches=20)
    draws = iter(sampler)
    in_flight = [next(draws) for _ in range(4)]
    newer = fit(k=3, seed=9)
    sampler.refresh(newer)
    after = next(draws)
    for batch in in_flight:
        assert sampler.clusters(torch.tensor(batch)).tolist() == index.assignments[batch].tolist()
        sampler.update(batch, loss_of(batch))
    assert sampler.clusters(after).tolist() == newer.assignments[after].tolist()
    with pytest.raises(ValueError, match="15 examples are not a batch"):
        sampler.clusters(in_flight[0])


def train_with_refreshes(index, ahead, lengths):
    """A loop that fetches ``ahead`` batches, and begins a new pass after a refresh in the middle of one."""
    sampler = sampler_of(index, batches=40)
    used = []
    for turn, length in enumerate(lengths):
        draws, fetched = iter(sampler), []
        for _ in range(length):
            fetched += itertools.islice(draws, ahead + 1 - len(fetched))
            batch = fetched.pop(0)
            used.append((batch, sampler.clusters(batch).tolist()))
            sampler.update(batch, loss_of(batch) if len(used) % 3 else [0.0] * len(batch))
        sampler.refresh(fit(k=3 + turn % 3, seed=turn))
    return used, {name: torch.as_tensor(value).tolist() for name, value in sampler.state_dict().items()}


@pytest.mark.parametrize("lengths", [(12, 12, 12), (3, 5, 9, 2, 14), (1, 30, 9)])
def test_refreshes_in_mid_pass_give_the_same_batches_however_far_ahead_is_fetched(index, lengths):
    batches, state = train_with_refreshes(index, 0, lengths)
    for ahead in (1, 2, 4, 8):
        assert train_with_refreshes(index, ahead, lengths) == (batches, state)


# State.


def through_files(state, folder):
    """Integers by JSON, tensors by safetensors; there is nothing else."""
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    numbers = {name: value for name, value in state.items() if name not in tensors}
    assert all(type(value) is int for value in numbers.values())
    save_file(tensors, folder / "state.safetensors")
    (folder / "state.json").write_text(json.dumps(numbers))
    return {**load_file(folder / "state.safetensors"), **json.loads((folder / "state.json").read_text())}


@pytest.mark.parametrize("delay", [0, 1, 8])
def test_a_restored_sampler_continues_the_exact_sequence_from_any_batch(index, tmp_path, delay):
    for stop in range(1, 40, 2):
        sampler = sampler_of(index, batches=40, delay=delay)
        draws = iter(sampler)
        work(sampler, draws, stop)
        state = through_files(sampler.state_dict(), tmp_path)
        rest = work(sampler, draws) + work(sampler, sampler)
        restored = sampler_of(index, batches=40, delay=delay, seed=99)
        restored.load_state_dict(state)
        assert work(restored, restored) + work(restored, restored) == rest, f"stopped after {stop}"
        torch.testing.assert_close(restored.mean_losses(), sampler.mean_losses(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("workers_after", [0, 2])
def test_a_state_taken_with_batches_in_flight_is_that_of_the_last_batch_consumed(index, tmp_path, workers_after):
    sampler = sampler_of(index, batches=40)
    batches = iter(loader(sampler, 2))
    work(sampler, batches, 17)
    assert sampler._drawn > 17
    state = through_files(sampler.state_dict(), tmp_path)
    rest = work(sampler, batches)
    assert len(rest) == 23
    restored = sampler_of(index, batches=40)
    restored.load_state_dict(state)
    assert work(restored, loader(restored, workers_after)) == rest
    assert work(restored, restored) == work(sampler, sampler)  # and the pass after it


def test_a_state_is_not_changed_by_what_the_sampler_does_next(index):
    sampler = sampler_of(index, batches=40)
    draws = iter(sampler)
    work(sampler, draws, 12)
    state = sampler.state_dict()
    copy = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
    work(sampler, draws)
    restored = sampler_of(index, batches=40)
    restored.load_state_dict(state)
    work(restored, restored)
    for name, value in copy.items():
        assert torch.equal(torch.as_tensor(state[name]), torch.as_tensor(value))


def test_a_cluster_that_once_showed_a_loss_is_not_new_again_after_a_restore():
    centres = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    index = ClusterIndex(centres, torch.arange(60) % 3, torch.arange(60), torch.tensor(1.0))
    options = {"clusters_per_batch": 4, "examples_per_cluster": 1, "batches": 40, "delay": 0}

    def first_time(seen):
        return lambda examples: [float(not (i in seen or seen.add(i))) for i in examples]

    for stop in range(1, 30, 4):
        sampler, restored, seen = sampler_of(index, **options), sampler_of(index, **options), set()
        draws = iter(sampler)
        work(sampler, draws, stop, first_time(seen))
        restored.load_state_dict(sampler.state_dict())
        again = work(restored, restored, loss=first_time(set(seen)))
        assert again == work(sampler, draws, loss=first_time(seen))


def test_a_state_at_the_end_of_a_pass_starts_the_next(index):
    sampler, restored = sampler_of(index, batches=10), sampler_of(index, batches=10)
    work(sampler, sampler)
    restored.load_state_dict(sampler.state_dict())
    rest = work(restored, restored)
    assert len(rest) == 10
    assert rest == work(sampler, sampler)


def test_a_fresh_state_restores_a_fresh_sampler(index):
    restored = sampler_of(index, batches=10)
    restored.load_state_dict(sampler_of(index, batches=10).state_dict())
    expected = sampler_of(index, batches=10)
    assert work(restored, restored) == work(expected, expected)


# Losses from outside.


def test_losses_told_from_outside_use_up_no_batch_in_flight(index):
    sampler, plain = sampler_of(index, batches=30), sampler_of(index, batches=30)
    draws, expected = iter(sampler), iter(plain)
    fetched = [next(draws) for _ in range(4)]
    assert fetched == [next(expected) for _ in range(4)]
    for told in (range(240), sorted(fetched[1]), fetched[2][::-1], fetched[0] + [7], fetched[3][:-1], []):
        sampler.update(told, [1.0] * len(told))
    for batch in fetched:
        assert sampler.clusters(batch).tolist() == index.assignments[batch].tolist()
        sampler.update(batch, loss_of(batch))
        with pytest.raises(ValueError, match="are not a batch that was drawn"):
            sampler.clusters(batch)


# Ranks.


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_only_the_batches_of_all_ranks_in_their_order_use_up_the_own_batch(rank):
    g = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 30 + [1] * 30)
    index = ClusterIndex.fit(torch.randn(60, 2, generator=g), labels, {0: 5, 1: 2})  # batches of two sizes
    ranks = [sampler_of(index, batches=20, rank=r, world_size=3) for r in range(3)]
    sampler, sizes = ranks[rank], set()
    for batches in zip(*ranks, strict=True):
        sizes |= {len(batch) for batch in batches}
        gathered = [i for batch in batches for i in batch]
        for told in (range(60), gathered[::-1], [*gathered, 0], gathered[1:], sorted(batches[0])):
            for each in ranks:
                each.update(told, [1.0] * len(told))
        assert len(sampler.clusters(batches[rank])) == len(batches[rank])
        for each in ranks:
            each.update(gathered, loss_of(gathered))
        with pytest.raises(ValueError, match="are not a batch that was drawn"):
            sampler.clusters(batches[rank])
    assert len(sizes) == 2


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_draw_different_seeds_and_stay_consistent_after_exchanging_losses(index, world_size):
    ranks = [sampler_of(index, batches=150, rank=r, world_size=world_size) for r in range(world_size)]
    seen = []
    for batches in zip(*ranks, strict=True):
        seeds = seeds_of(index, batches)
        assert len(set(seeds)) == world_size
        seen += seeds
        gathered = [i for batch in batches for i in batch]
        losses = [loss + 0.125 for loss in loss_of(gathered)]
        for sampler in ranks:
            sampler.update(gathered, losses)
    assert set(seen) == set(range(len(index)))
    for other in ranks[1:]:
        assert torch.equal(other.mean_losses(), ranks[0].mean_losses())
        assert not other.mean_losses().isnan().any()


def test_ranks_share_a_fresh_index_out_among_them(index):
    ranks = [sampler_of(index, batches=len(index) // 3, rank=r, world_size=3) for r in range(3)]
    seeds = [seed for sampler in ranks for seed in seeds_of(index, sampler)]
    assert sorted(seeds) == list(range(len(index)))


def test_a_rank_is_restored_with_its_own_sequence(index):
    def together(ranks, draws, count):
        seen = []
        for batches in itertools.islice(zip(*draws, strict=True), count):
            seen.append(batches)
            for sampler in ranks:
                sampler.update(batches[0] + batches[1], loss_of(batches[0] + batches[1]))
        return seen

    ranks = [sampler_of(index, batches=40, rank=r, world_size=2) for r in (0, 1)]
    draws = [iter(sampler) for sampler in ranks]
    together(ranks, draws, 15)
    restored = [sampler_of(index, batches=40, rank=r, world_size=2) for r in (0, 1)]
    for old, new in zip(ranks, restored, strict=True):
        new.load_state_dict(old.state_dict())
    assert together(restored, [iter(s) for s in restored], 20) == together(ranks, draws, 20)


# Cost.


class LargestResult(TorchDispatchMode):
    """The largest tensor that any operation made (in-place operations make none)."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.__name__.split(".")[0].endswith("_"):
            for x in out if isinstance(out, tuple | list) else [out]:
                self.numel = max(self.numel, x.numel() if isinstance(x, torch.Tensor) else 0)
        return out


@pytest.mark.parametrize("n", [1000, 50_000])
def test_the_cost_of_an_update_does_not_grow_with_the_number_of_examples(n, monkeypatch):
    g = torch.Generator().manual_seed(0)
    clusters = 500
    index = ClusterIndex(
        torch.randn(clusters, 2, generator=g), torch.arange(clusters) % 7, torch.arange(n) % clusters, torch.tensor(1.0)
    )
    sampler = sampler_of(index, batches=100, delay=0)
    draws = iter(sampler)
    work(sampler, draws, 3)
    batch = next(draws)
    touched = []
    setitem = SumTree.__setitem__
    monkeypatch.setattr(SumTree, "__setitem__", lambda self, j, w: touched.append(j) or setitem(self, j, w))
    before = torch.tensor(sampler._losses)
    with LargestResult() as largest:
        sampler.update(batch, [7.0] * len(batch))
        next(draws)  # the losses take effect
    changed = (torch.tensor(sampler._losses) != before).nonzero().flatten().tolist()
    assert changed == sorted(set(batch))
    assert len(touched) <= 2 * M + 2
    assert largest.numel <= clusters  # of bincount at most, and far below n


class Count(TorchDispatchMode):
    """How many operations were dispatched."""

    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_a_draw_and_an_update_do_the_same_work_whatever_the_number_of_examples_and_clusters():
    found = []
    for clusters, members in ((64, 8), (64, 2000), (2048, 8)):
        index = ClusterIndex(
            torch.randn(clusters, 2, generator=torch.Generator().manual_seed(0)),
            torch.arange(clusters) % 8,
            torch.arange(clusters * members) % clusters,
            torch.tensor(1.0),
        )
        sampler = sampler_of(index, batches=100)
        sampler.update(torch.arange(clusters * members), torch.ones(clusters * members))
        draws = iter(sampler)
        work(sampler, draws, 20)
        tracemalloc.start()
        with Count() as count:
            sampler.update(next(draws), [1.0] * (M * D))
            next(draws)
        found.append((count.calls, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    calls, memory = zip(*found, strict=True)
    assert len(set(calls)) == 1
    assert max(memory) < 1.5 * min(memory)  # no list or table of a cluster's members, nor of all clusters


def test_a_sampler_looks_at_the_tables_of_its_index_and_has_none_of_its_own():
    n, clusters = 5000, 20
    centres = torch.randn(clusters, 2, generator=torch.Generator().manual_seed(0))
    index = ClusterIndex(centres, torch.arange(clusters) % 5, torch.arange(n) % clusters, torch.tensor(1.0))
    sampler = sampler_of(index, batches=10)
    with LargestResult() as largest:
        sampler.refresh(index)
    assert largest.numel <= n  # who has been seen, for a moment
    assert torch.frombuffer(sampler._assignments, dtype=torch.long).data_ptr() == index.assignments.data_ptr()
    assert torch.frombuffer(sampler._members, dtype=torch.int32).data_ptr() == index.order.data_ptr()


def test_a_copied_sampler_draws_the_same_and_on_its_own(index):
    sampler = sampler_of(index, batches=30)
    draws = iter(sampler)
    work(sampler, draws, 10)
    copies = [copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))]
    expected = work(sampler, draws, 10)
    for other in copies:
        other.load_state_dict(other.state_dict())  # a copy has no pass under way: it goes on as a restored one
        assert work(other, iter(other), 10) == expected


def test_a_cluster_first_seen_as_an_impostor_without_loss_is_still_seeded(index):
    sampler = sampler_of(index, batches=2000)
    seeds = set()
    for batch in sampler:
        clusters = sampler.clusters(batch)
        seeds.add(int(clusters[0]))
        sampler.update(batch, (clusters == clusters[0]).float())
    assert seeds == set(range(len(index)))


def test_a_cluster_said_to_have_no_loss_is_never_seeded(index):
    sampler = sampler_of(index, batches=500)
    sampler.update(torch.arange(len(index.assignments)), (index.assignments != 3).float())
    assert 3 not in {int(sampler.clusters(batch)[0]) for batch in sampler}
