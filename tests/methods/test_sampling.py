from itertools import chain

import torch

from magnet.methods.base import Options, RandomBatches, Setting, generator


def batches_of(count: int, size: int, **process: int) -> RandomBatches:
    setting = Setting(torch.zeros(count), classes=1, dim=2, **process)
    return RandomBatches(setting, Options(clusters_per_batch=size, examples_per_cluster=1))


def used(sampler: RandomBatches) -> list[list[int]]:
    """One pass, every batch reported."""
    batches = []
    for rows in sampler:
        batches.append(rows)
        sampler.update(torch.tensor(rows), torch.zeros(len(rows)))
    return batches


def test_an_epoch_draws_every_example_once_in_a_new_order():
    sampler = batches_of(24, 6)
    first, second = used(sampler), used(sampler)
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(24))
    assert first != second


def test_the_last_batch_is_filled_up_from_the_next_order():
    sampler = batches_of(20, 6)
    batches, following = used(sampler), used(sampler)
    assert [len(rows) for rows in batches] == [6] * 4
    assert sorted(list(chain(*batches))[:20]) == list(range(20))
    assert batches[-1][2:] == following[0][:4]


def test_ranks_share_the_examples_out():
    ranks = [batches_of(24, 4, rank=rank, world_size=3) for rank in range(3)]
    assert [len(sampler) for sampler in ranks] == [2] * 3
    assert sorted(chain(*(rows for sampler in ranks for rows in used(sampler)))) == list(range(24))


def test_a_batch_drawn_but_not_used_is_drawn_again():
    sampler = batches_of(24, 6)
    ahead = iter(sampler)
    first, second = next(ahead), next(ahead)
    sampler.update(torch.tensor(first), torch.zeros(6))
    assert next(iter(sampler)) == second


def test_a_batch_larger_than_the_data_still_has_its_size():
    assert [len(rows) for rows in used(batches_of(5, 12))] == [12]


def test_generators_of_different_parts_differ_and_of_the_same_agree():
    parts = [(0, 1), (1, 0), (0, 1, 0), (2**80, 1), (-1, 1)]
    draws = [float(torch.rand(1, generator=generator(*p))) for p in parts]
    assert len(set(draws)) == len(parts)
    assert draws == [float(torch.rand(1, generator=generator(*p))) for p in parts]
