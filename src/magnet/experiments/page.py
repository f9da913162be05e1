"""The page of results: its tables come out of the results files, so that the two cannot drift apart.

``python -m magnet.experiments.page docs/results.md`` writes the tables of ``docs/results/NAME.json`` anew between the
lines ``<!-- results NAME -->`` and ``<!-- end -->``; ``<!-- results NAME 1 3 -->`` takes the first and the third only.
"""

import json
import re
import sys
from pathlib import Path

from magnet.experiments.outcome import Table

BLOCK = re.compile(r"(<!-- results (\S+?)((?: \d+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, folder: Path) -> str:
    """The page with the tables of the results files in ``folder``."""

    def tables(block: re.Match[str]) -> str:
        content = json.loads((folder / f"{block[2]}.json").read_text(encoding="utf-8"))
        found = [Table(**table).markdown() for table in content["tables"]]
        chosen = [found[int(number) - 1] for number in block[3].split()] or found
        return block[1] + "\n" + "\n\n".join(chosen) + "\n\n" + block[4]

    return BLOCK.sub(tables, text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(fill(page.read_text(encoding="utf-8"), page.with_suffix("")), encoding="utf-8")
