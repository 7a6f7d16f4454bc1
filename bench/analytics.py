"""Measure the analytics: `python -m bench.analytics` runs `broker-analytics`, and Spark, as child processes.

- sources: records of 100 B a second that the segment source reads into Spark's sink `noop` (goal: 1,500,000), in turn
  with Spark's own Kafka source over the same topic (goal: 4 times its rate). Both are warm, and have 2 cores.
- range: bytes that are read for 1 % of a topic of 20 GB by a range of time (goal: 2 % of its bytes).
- ingest: events a second of CPU that `broker-analytics ingest` reads into a lake, all its processes together and with
  their start (goal: 50,000). What an event is: bench/own_topics.py.
- jobs: all jobs over a lake with 10^8 commits on 2 cores (goal: 15 min) and their highest memory (goal: 4 GB).

Each part has files, and a broker, of its own. Broker and Spark share the machine, as they would if the analytics ran
beside a broker: on a busy one, compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.analytics_children import analytics
from bench.analytics_parts import PARTS, Figures, Place, Sizes
from bench.launch.processes import ProcessError
from bench.targets import TargetError

# Maven downloads them once on a machine.
JARS_S = 600.0
# Goals; figures without an entry explain others.
AT_LEAST = {
    "analytics_segments_records_per_s": 1_500_000.0,
    "analytics_segments_to_official_ratio": 4.0,
    "analytics_ingest_core_events_per_s": 50_000.0,
}
AT_MOST = {
    "analytics_range_read_percent": 2.0,
    "analytics_range_io_percent": 2.0,
    "analytics_jobs_s": 900.0,
    "analytics_jobs_peak_mb": 4_000.0,
}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.analytics", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="figures to measure, separated by commas")
    parser.add_argument("--pairs", type=int, default=4, help="how often each source is measured")
    parser.add_argument("--warm-ups", type=int, default=3, help="reads of each source before that")
    parser.add_argument("--records", type=int, default=10_000_000, help="records of 100 B that each source reads")
    parser.add_argument("--range-gb", type=float, default=20.0, help="size of the topic of range")
    parser.add_argument("--events", type=int, default=2_000_000, help="events that are ingested")
    parser.add_argument("--commits", type=int, default=100_000_000, help="commits in the lake of the jobs")
    parser.add_argument("--memory", default="2500m", help="memory of the driver of the jobs")
    parser.add_argument("--dir", metavar="FOLDER", help="where the files are: 25 GB of a disk are needed")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--strict", action="store_true", help="exit code 3 if a goal was missed")
    given = parser.parse_args(argv)
    given.only = given.only.split(",")
    if unknown := sorted(set(given.only) - set(PARTS)):
        parser.error(f"--only {', '.join(unknown)}: unknown (allowed: {', '.join(PARTS)})")
    for name in ("pairs", "warm_ups", "records", "events", "commits"):
        if getattr(given, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(given, name)}: a number from 1 on is expected")
    if not 0.01 <= given.range_gb <= 1_000:
        parser.error(f"--range-gb {given.range_gb:g}: a number from 0.01 to 1000 is expected")
    return given


def verdict(figure: str, value: float) -> str:
    """Return whether a figure reaches its goal, in words; "" if it has none."""
    if (least := AT_LEAST.get(figure)) is not None:
        return f"{'reached' if value >= least else 'missed'}: at least {least:,g}"
    if (most := AT_MOST.get(figure)) is not None:
        return f"{'reached' if value <= most else 'missed'}: at most {most:,g}"
    return ""


def show(figures: Figures) -> bool:
    """Print the figures, of repeats the median and the range; returns whether a goal was missed."""
    is_missed = False
    for figure, found in figures.items():
        values = found if isinstance(found, list) else [found]
        middle = statistics.median(values)
        spread = f" ({min(values):,.3f} to {max(values):,.3f})" if len(values) > 1 else ""
        judged = verdict(figure, middle)
        is_missed |= judged.startswith("missed")
        print(f"{figure:>36} {middle:16,.3f}{spread}   {judged}".rstrip(), flush=True)
    return is_missed


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures.

    Returns 1 if a part failed, whose figures are missing then, 3 if --strict was given and a goal was missed.
    """
    given = arguments(argv)
    sizes = Sizes(
        given.pairs,
        given.warm_ups,
        given.records,
        round(given.range_gb * 1e9),
        given.events,
        given.commits,
        given.memory,
    )
    figures: Figures = {}
    is_failed = is_missed = False
    with tempfile.TemporaryDirectory(prefix="bench-analytics-", dir=given.dir) as name:
        try:
            analytics(Path(name), "jars", timeout_s=JARS_S)
        except ProcessError as error:
            print(f"bench.analytics: {error}", file=sys.stderr)
            return 1
        for part in given.only:
            try:
                found = PARTS[part](Place(Path(name)), sizes)
            except (ProcessError, TargetError) as error:
                # The other parts take many minutes, and do not depend on this one.
                print(f"bench.analytics: {part}: {error}", file=sys.stderr)
                is_failed = True
                continue
            figures |= found
            is_missed |= show(found)
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")
    if is_failed:
        return 1
    return 3 if given.strict and is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
