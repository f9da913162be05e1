"""``python -m magnet.bench PART FILE``: measure one part here, and write what was found as JSON."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from magnet.bench import measure
from magnet.bench.measurement import stamp


def main(part: str, file: str) -> None:
    """Measure; progress goes to standard output, a line at a time."""
    start = time.perf_counter()
    found = measure(part, lambda text: print(text, flush=True))
    record = {
        **stamp(),
        "seconds": round(time.perf_counter() - start, 1),
        "measurements": [asdict(m) for m in found],
    }
    Path(file).write_text(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
