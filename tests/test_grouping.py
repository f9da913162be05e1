"""Tables by class or cluster: those of torch, without what torch takes to make them."""

import pytest
import torch

from magnet.grouping import distinct, order_by_group
from watching import Watch


def drawn(high, count, seed=0, low=0):
    return torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("labels", [
    drawn(50, 1000), 3 * drawn(50, 1000), drawn(50, 1000, low=-50), drawn(10**12, 1000), torch.tensor([7]),
    drawn(50, 1000).int(),
])  # fmt: skip
def test_distinct_labels_are_those_of_unique(labels):
    expected = torch.unique(labels, return_inverse=True, return_counts=True)
    for found, wanted in zip(distinct(labels), expected, strict=True):
        assert torch.equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_labels_that_are_ids_already_are_not_copied():
    labels = drawn(50, 1000)
    with Watch() as watch:
        found = distinct(labels)[1]
    assert found.data_ptr() == labels.data_ptr()
    assert watch.largest() <= 50


@pytest.mark.parametrize("block", [1, 7, 100, 10_000])
@pytest.mark.parametrize("groups", [1, 5, 60])
def test_the_order_by_group_is_that_of_a_stable_sort(monkeypatch, block, groups):
    monkeypatch.setattr("magnet.grouping.BLOCK", block)
    mixed = torch.cat([torch.arange(groups), drawn(groups, 500)])
    for ids in (mixed, mixed.sort().values, torch.cat([mixed.sort().values, torch.zeros(1, dtype=torch.long)])):
        assert torch.equal(order_by_group(ids, torch.bincount(ids)).long(), ids.argsort(stable=True))


def test_ordering_holds_one_table_and_a_block_however_many_rows(monkeypatch):
    monkeypatch.setattr("magnet.grouping.BLOCK", 64)
    ids = drawn(16, 5000)
    sizes = torch.bincount(ids, minlength=16)
    with Watch() as watch:
        order_by_group(ids, sizes)
    assert [elements for _, elements in watch.made if elements > 64] == [5000]
