"""The measurements of `bench.studies.analytics` in a Spark session: `python -m spark_analytics.measure PART`, a child
process that writes its figures as JSON.

- sources: seconds in which the segment source and Spark's Kafka source read one topic into the sink `noop`, in turn.
- range: bytes that are read for the hundredth of a topic's records in the middle of its time.
- lake: write the lake of a synthetic cluster with planted anomalies; nothing is measured.
- planted: count the anomalies that all jobs have found in that lake, and their false alarms.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_analytics.lake import Lake
from spark_analytics.planted import Answers, Size, plant
from spark_analytics.segments import options as known
from spark_analytics.segments import plan, report, source
from spark_analytics.segments.report import Counters
from spark_analytics.segments.walk import Damage
from spark_analytics.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A running broker notes the high watermarks of its logs every 5 s.
NOTED_S = 60.0
LOOK_S = 0.2
# The lake has three brokers with three topics, read by two groups, and as many partitions as the commits need (37 for
# 10^8). The first two weeks are also the baseline for the time after them.
DAYS, COMMIT_S = 16, 3
SLOW_A_DAY = 3
PYTHON_WORKER = b"pyspark"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m spark_analytics.measure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument(
        "--json-file",
        dest="json",
        type=Path,
        required=True,
        metavar="FILE",
        help="the figures are written to this file",
    )
    parser.add_argument("--directory", help="a log directory")
    parser.add_argument("--topic")
    parser.add_argument("--records", type=int, help="that the topic has")
    parser.add_argument("--bootstrap", help="the broker of the log directory")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds that each source reads unmeasured")
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--commits", type=int, help="rows of the table `commits`")
    parser.add_argument("--tables", type=Path, help="the folder with the tables of all jobs")
    given = parser.parse_args(argv)
    missing = [each for each in NEEDED[given.part] if getattr(given, each) is None]
    if missing:
        parser.error(f"{given.part}: --{missing[0]} is missing")
    return given


def sources(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of each read, by source. Raises SystemExit if one does not read all records."""
    until_noted(given)
    frames = {
        "segments_s": source.read(spark, [given.directory], [given.topic]),
        "official_s": spark.read.format("kafka")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("subscribe", given.topic)
        .load(),
    }
    for name, frame in frames.items():
        if (count := frame.count()) != given.records:
            sys.exit(f"{name}: {count} records were read of {given.records}")
    # A JVM recompiles hot code repeatedly in its first minute of load. The sources share little code, so each has its
    # own minute.
    warmed_s = dict.fromkeys(frames, 0.0)
    while any(each < given.warm_up for each in warmed_s.values()):
        for name, frame in frames.items():
            if warmed_s[name] < given.warm_up:
                warmed_s[name] += seconds_of(frame)
    found: dict[str, Any] = {name: [] for name in frames}
    for _ in range(given.pairs):
        for name, frame in frames.items():
            found[name].append(seconds_of(frame))
    return found


def seconds_of(frame: DataFrame) -> float:
    """Return the time that reading all columns of all rows takes."""
    began_s = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began_s


def until_noted(given: argparse.Namespace) -> None:
    """Wait until the broker has noted that all records are readable. Raises SystemExit if it does not."""
    chosen = known.parse(known.as_text([given.directory], [given.topic]))
    until_s = time.monotonic() + NOTED_S
    while True:
        found = [plan.bounded(each, chosen, Damage(False, Counters()))[0] for each in plan.folders(chosen)]
        readable = sum(each.end - each.start for each in found)
        if readable >= given.records:
            return
        if time.monotonic() > until_s:
            sys.exit(f"the broker has noted {readable} of {given.records} records as readable after {NOTED_S:g} s")
        time.sleep(LOOK_S)


def time_range(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    """Return records, seconds and bytes of a read: those of segments and indexes that the source has counted, and all
    that the kernel has counted for the Python processes of Spark, with what these import.
    """
    until_noted(given)
    middle = given.records // partitions_of(given) // 2
    width = given.records // partitions_of(given) // 100
    since_ms, until_ms = (time_at(spark, given, offset) for offset in (middle, middle + width))
    with tempfile.TemporaryDirectory() as directory:
        frame = source.read(
            spark,
            [given.directory],
            [given.topic],
            starting_timestamp=since_ms,
            ending_timestamp=until_ms,
            report=directory,
        )
        before = io_bytes()
        seconds = seconds_of(frame)
        after = io_bytes()
        counted = report.total(directory)
    return {
        "records": counted.records,
        "seconds": seconds,
        "bytes_read": counted.bytes_read,
        "io_bytes": sum(count - before.get(pid, 0) for pid, count in after.items()),
    }


def partitions_of(given: argparse.Namespace) -> int:
    """Return the number of partitions of the topic."""
    return len(plan.folders(known.parse(known.as_text([given.directory], [given.topic]))))


def time_at(spark: SparkSession, given: argparse.Namespace, offset: int) -> int:
    """Return the time of a record of partition 0, in ms since 1970."""
    frame = source.read(spark, [given.directory], [given.topic], starting_offset=offset, ending_offset=offset + 1)
    (row,) = frame.where("partition = 0").selectExpr("unix_millis(timestamp) AS ms").collect()
    return int(row.ms)


def io_bytes() -> dict[int, int]:
    """Return the bytes that each Python process of this session has read so far, from files and pipes."""
    found = {}
    session_id = os.getsid(0)
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if os.getsid(int(name)) == session_id and PYTHON_WORKER in Path(f"/proc/{name}/cmdline").read_bytes():
                first = Path(f"/proc/{name}/io").read_text().splitlines()[0]
                found[int(name)] = int(first.removeprefix("rchar: "))
        except OSError:
            continue  # it has ended meanwhile
    return found


def planted_in(commits: int) -> tuple[Size, Answers]:
    """Return the cluster with at least this many commits, and the anomalies planted in it."""
    size = Size(days=DAYS, commit_s=COMMIT_S).with_commits(commits)
    return size, plant(size, slow=SLOW_A_DAY * DAYS)


def lake(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    """Write a lake with at least this many commits; return the row counts of its tables."""
    from spark_analytics.synthetic_lake import write

    size, answers = planted_in(given.commits)
    write(spark, Lake(given.lake), size, answers=answers)
    return {"rows": sum(size.rows.values()), **size.rows}


def planted(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    """Return the number of planted answers that were found, and the false alarms."""
    from spark_analytics.planted_found import judge

    size, answers = planted_in(given.commits)
    found = judge(spark, given.tables, size, answers)
    return {
        "answers": found.planted,
        "recall": found.recall,
        "false_alarms_per_broker_day": len(found.false) / (size.brokers * size.days),
        "jobs": len(found.answers),
        "jobs_found": len(found.jobs_found),
        "missed": found.missed,
        "false": found.false,
    }


PARTS = {"sources": sources, "range": time_range, "lake": lake, "planted": planted}
_LOG = ("directory", "topic", "records")
NEEDED = {"sources": (*_LOG, "bootstrap"), "range": _LOG, "lake": ("lake", "commits"), "planted": ("tables", "commits")}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure one part."""
    given = arguments(argv)
    spark = session(f"measure {given.part}", master=given.master, kafka=given.part == "sources")
    found = PARTS[given.part](spark, given)
    given.json.write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
