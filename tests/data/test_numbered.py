"""Names of rows without names."""

import pickle
import tracemalloc

import numpy as np
import pytest

from magnet.data import Dataset
from magnet.data.numbered import Numbered


def test_it_is_the_list_of_numbers_as_text():
    names, expected = Numbered(12), [str(i) for i in range(12)]
    assert names == expected
    assert expected == names
    assert list(names) == expected
    assert (names[3], names[-1], names[2:9:3]) == ("3", "11", expected[2:9:3])
    assert names.index("7") == 7
    assert "12" not in names
    assert names == Numbered(12) == pickle.loads(pickle.dumps(names))
    assert names != Numbered(11)
    assert names != [*expected[:-1], "x"]
    assert names != "012345678901"
    with pytest.raises(IndexError):
        names[12]


def test_rows_without_names_take_no_memory_for_them():
    x, y = np.zeros((50_000, 1), np.float32), np.arange(50_000) % 2
    tracemalloc.start()
    data = Dataset.from_arrays(x, y)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert data.names[49_999] == "49999"
    assert held < 20 * 50_000  # labels and parts; strings alone would be 50 bytes each
