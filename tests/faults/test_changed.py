"""Data that changes under a run is said by every command; the soak tries every change under each."""

from faults.changed import SOURCES, changed_data
from faults.test_damage import bad


def test_changes_of_the_data_are_said_or_do_not_matter(tmp_path):
    vectors = {name: SOURCES[name] for name in ("vectors", "vectors with a split", "a table")}
    assert bad(changed_data(tmp_path, 0.05, seed=1, sources=vectors)) == []
