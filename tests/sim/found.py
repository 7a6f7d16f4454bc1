"""Merge the seeds that found planted defects into found_at.tsv.

BROKER_CY_FOUND=/tmp/found python -m pytest tests/sim -k "defect or planted"
python -m tests.sim.found /tmp/found
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.sim.defects import FOUND_AT, found_at


def merged(known: dict[str, int], lines: list[str]) -> str:
    """Return the table with the seeds of `lines`; the last line of a key counts."""
    found = dict(known)
    for line in lines:
        key, _, seed = line.partition("\t")
        found[key] = int(seed)
    return "".join(f"{key}\t{seed}\n" for key, seed in sorted(found.items()))


if __name__ == "__main__":
    FOUND_AT.write_text(merged(found_at(), Path(sys.argv[1]).read_text().splitlines()))
