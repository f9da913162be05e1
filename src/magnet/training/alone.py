"""One process at a time: a lock on a file, which the system lets go of when its holder ends, however it ends."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without it: nothing is locked there
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone(path: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on the file ``path``, which is made if need be and stays.

    The lock is the process's own: a worker that outlives a killed parent does not keep it.

    Args:
        path: the file; its folder must exist.
        busy: called if another process holds the lock. It raises an error, or returns to wait for the other to end.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None and not _taken(handle):
            busy()
            fcntl.lockf(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # lets go of the lock


def _taken(handle: int) -> bool:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks: go on without
        return True
    return True
