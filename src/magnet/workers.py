"""Independent parts of a task, several at a time."""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

Function = TypeVar("Function", bound=Callable)
Part = TypeVar("Part")
Result = TypeVar("Result")


@contextmanager
def threads(count: int) -> Iterator[int]:
    """Inside, torch's operations of this thread take ``count`` threads each; gives the number outside.

    Where there are parts to `spread`, the many small operations around them should take one: threads that were called
    for a moment's work wait for more of it by spinning, and then stand in the way for milliseconds.
    """
    before = torch.get_num_threads()  # also settles it: a thread that never asked sets it anew at its first operation
    torch.set_num_threads(count)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


@cache
def unlocked(function: Function) -> Function:
    """The same function of tensors as TorchScript, which runs without Python's lock; itself where that cannot be had.

    Threads that hand the lock to each other around operations of microseconds wait for it longer than they work.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            scripted = torch.jit.script(function)
        except OSError:  # the source is not at hand
            return function

    def call(*args):  # type: ignore[no-untyped-def]
        with torch.jit.optimized_execution(False):  # the first calls of every shape would take several times as long
            return scripted(*args)

    return call  # type: ignore[return-value]


def spread(work: Callable[[Part], Result], parts: Iterable[Part], total: int) -> list[Result]:
    """``work(part)`` of every part, in any order, several at a time, with ``total`` threads in all.

    An operation of microseconds gains nothing from a second thread, but a part, which is many of them, gains all of it.
    Parts are taken from the first on, so the largest should come first. What a part comes to does not depend on the
    number of threads, unless there are more of them than parts.
    """
    waiting, results = deque(parts), list[Result]()
    inference = torch.is_inference_mode_enabled()  # a mode is that of a thread, and its tensors cannot leave it
    count = max(1, min(total, len(waiting)))

    def take() -> None:
        with torch.inference_mode(inference), threads(total // count):
            while waiting:
                try:
                    part = waiting.popleft()
                except IndexError:  # another was faster
                    break
                results.append(work(part))

    with ThreadPoolExecutor(count) as pool:
        helpers = [pool.submit(take) for _ in range(count - 1)]
        try:
            take()
        finally:
            waiting.clear()
        for helper in helpers:
            helper.result()
    return results
