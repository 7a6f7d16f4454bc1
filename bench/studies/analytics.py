"""Measure the analytics: `python -m bench.studies.analytics` runs `broker-analytics`, and Spark, as child processes.

- sources: records of 100 B a second that the segment source reads into Spark's sink `noop` (goal: 1,500,000), in turn
  with Spark's own Kafka source over the same topic (goal: 4 times its rate). Both are warm, and have 2 cores.
- range: bytes that are read for 1 % of a topic of 20 GB by a range of time (goal: 2 % of its bytes).
- ingest: events a second of CPU that `broker-analytics ingest` reads into a lake, all its processes together, including
  their start (goal: 50,000). bench/studies/own_topics.py defines an event.
- jobs: all jobs over a lake with 10^8 commits on 2 cores (goal: 15 min) and their highest memory (goal: 4 GB); after
  that, the share of planted anomalies that their tables have (goal: 95 %, and at least one of each of the 7 jobs), and
  their false alarms (goal: at most 1 for each broker and day). Missed anomalies and false alarms go to stderr.

Each part has its own files and broker. Broker and Spark share the machine, as if the analytics ran on the host of a
broker: on a busy machine, compare the ratios.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.studies import goals
from bench.studies.analytics_children import analytics
from bench.studies.analytics_parts import PARTS, Place, Sizes
from bench.studies.goals import Goals
from broker_cy.launch.processes import ProcessError

PROGRAM = "bench.studies.analytics"
# Maven downloads them once per machine.
JARS_S = 600.0
GOALS = Goals(
    at_least={
        "analytics_segments_records_per_s": 1_500_000.0,
        "analytics_segments_to_official_ratio": 4.0,
        "analytics_ingest_core_events_per_s": 50_000.0,
        "analytics_jobs_recall_percent": 95.0,
        "analytics_jobs_found_jobs": 7.0,
    },
    at_most={
        "analytics_range_read_percent": 2.0,
        "analytics_jobs_s": 900.0,
        "analytics_jobs_peak_mb": 4_000.0,
        "analytics_jobs_false_alarms_per_broker_day": 1.0,
    },
)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = goals.parser(PROGRAM, __doc__, PARTS)
    parser.add_argument("--pairs", type=int, default=4, help="how often each source is measured")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds that each source reads before that")
    parser.add_argument("--records", type=int, default=10_000_000, help="records of 100 B that each source reads")
    parser.add_argument("--range-gb", type=float, default=20.0, help="size of the topic of range")
    parser.add_argument("--events", type=int, default=2_000_000, help="events that are ingested")
    parser.add_argument("--commits", type=int, default=100_000_000, help="commits in the lake of the jobs")
    parser.add_argument("--memory", default="1800m", help="memory of the driver of the jobs")
    parser.add_argument("--dir", metavar="FOLDER", help="where the files are: 25 GB of a disk are needed")
    given = parser.parse_args(argv)
    goals.check(parser, given, PARTS, ("pairs", "records", "events", "commits"))
    if not 0 <= given.warm_up <= 3_600:
        parser.error(f"--warm-up {given.warm_up:g}: a number from 0 to 3600 is expected")
    if not 0.01 <= given.range_gb <= 1_000:
        parser.error(f"--range-gb {given.range_gb:g}: a number from 0.01 to 1000 is expected")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns the exit code (`goals.measure`)."""
    given = arguments(argv)
    sizes = Sizes(
        given.pairs,
        given.warm_up,
        given.records,
        round(given.range_gb * 1e9),
        given.events,
        given.commits,
        given.memory,
    )
    with tempfile.TemporaryDirectory(prefix="bench-analytics-", dir=given.dir) as name:
        try:
            analytics(Path(name), "jars", timeout_s=JARS_S)
        except ProcessError as error:
            print(f"{PROGRAM}: {error}", file=sys.stderr)
            return goals.FAILED
        return goals.measure(PROGRAM, given, GOALS, lambda part: PARTS[part](Place(Path(name)), sizes))


if __name__ == "__main__":
    sys.exit(main())
