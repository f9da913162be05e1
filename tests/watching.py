"""Counts what tensors are made: sizes instead of seconds, so that a test of growth is the same on every machine."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Watch(TorchDispatchMode):
    """Inside ``with Watch() as watch``: the elements of every result, by the name of the operation."""

    def __init__(self):
        super().__init__()
        self.results = []  # (operation, elements) of all results
        self.made = []  # of those that took new memory: neither views nor written in place

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = {_place(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self.results.append((func.overloadpacket.__name__, tensor.numel()))
                if _place(tensor) not in given:
                    self.made.append(self.results[-1])
        return found

    def largest(self):
        """The elements of the largest tensor made."""
        return max(elements for _, elements in self.made)

    def products(self):
        """The elements of each matrix product."""
        return [elements for name, elements in self.results if name in ("mm", "bmm", "addmm", "baddbmm")]

    def total(self):
        """The elements of all tensors made."""
        return sum(elements for _, elements in self.made)


def _place(tensor):
    return tensor.untyped_storage().data_ptr()
