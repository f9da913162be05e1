"""``python -m magnet``: the command line, also for torchrun."""

import sys

from magnet.cli import main

if __name__ == "__main__":  # not in a process that this one starts
    sys.exit(main())
