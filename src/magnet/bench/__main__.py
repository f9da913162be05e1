"""``python -m magnet.bench PART FILE``: measure one part in this process, and write the results as JSON."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from magnet.bench import measure
from magnet.bench.measurement import stamp


def main(part: str, file: str) -> None:
    """Measure a part; its progress is printed line by line."""
    start = time.perf_counter()
    found = measure(part, lambda text: print(text, flush=True))
    record = {**stamp(), "seconds": round(time.perf_counter() - start, 1), "measurements": [asdict(m) for m in found]}
    Path(file).write_text(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
