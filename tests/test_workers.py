"""Parts of a task, several at a time: all are done once, errors come through, and torch's threads are as before."""

import threading
import warnings

import pytest
import torch

from magnet.workers import spread, threads, unlocked


@pytest.mark.parametrize("total", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_every_part_is_done_once(count, total):
    assert sorted(spread(lambda part: part * part, range(count), total)) == [i * i for i in range(count)]


def test_as_many_parts_are_done_at_a_time_as_there_are_threads():
    meet = threading.Barrier(3, timeout=30)  # nobody goes on until three have come
    assert spread(lambda part: meet.wait() >= 0, range(3), 3) == [True] * 3


@pytest.mark.parametrize(("parts", "each"), [(2, 2), (4, 1), (9, 1), (1, 4)])
def test_threads_are_shared_out_among_the_parts(parts, each):
    meet = threading.Barrier(min(parts, 4), timeout=30)

    def work(part):
        if part < min(parts, 4):
            meet.wait()
        torch.ones(100_000).add_(1)  # the first operation of a thread
        return torch.get_num_threads()

    with threads(1):
        assert spread(work, range(parts), 4) == [each] * parts


def test_an_error_in_a_part_comes_through_and_torch_has_its_threads_again():
    def work(part):
        if part == 3:
            raise RuntimeError("part 3")
        return part

    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="part 3"):
        spread(work, range(50), 2)
    assert torch.get_num_threads() == before
    asked = []
    later = threading.Thread(target=lambda: asked.append(torch.get_num_threads()))
    later.start()
    later.join()
    with threads(before + 3):
        assert torch.get_num_threads() == before + 3
    assert torch.get_num_threads() == before
    assert asked == [before]


@pytest.mark.parametrize("inference", [False, True])
def test_a_part_can_write_into_a_tensor_that_was_made_outside(inference):
    with torch.inference_mode(inference):
        squares = torch.zeros(10)
        spread(lambda part: squares[part].fill_(part**2), range(10), 3)
    assert squares.tolist() == [i**2 for i in range(10)]


def half(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    return x / 2, torch.jit.is_scripting()


def test_an_unlocked_function_is_a_script_and_nobody_is_warned():
    unlocked.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, scripted = unlocked(half)(torch.ones(2))
    assert found.tolist() == [0.5, 0.5]
    assert scripted
    assert unlocked(half) is unlocked(half)  # made once


def test_a_function_whose_source_is_not_at_hand_stays_as_it_is():
    scope = {"__name__": "nowhere"}
    exec("def f(x): return x + 1", scope)
    assert unlocked(scope["f"]) is scope["f"]
