"""The measurements of `bench.studies.analytics`. Each returns the figures of its part; figures of repeats are lists."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.spec.target import BROKER_SETTINGS
from bench.studies import own_topics
from bench.studies.analytics_children import MASTER, analytics, measured, records_of
from bench.studies.goals import Figures
from bench.targets.brokers import BrokerCy
from bench.wire import protocol
from bench.wire.raw import Driver
from broker_cy.launch.processes import ProcessError

TOPIC = "bench-analytics"
RECORD_BYTES = 100
BATCH_BYTES = 16 << 10
RANGE_RECORD_BYTES = 1000
RANGE_BATCH_BYTES = 512 << 10
RANGE_PARTITIONS = 4
CORES = 2
DEPTH = 5
HOUR_MS = 3_600_000
FILL_S = 1800.0
ENDS_S = 7200.0


@dataclass(frozen=True)
class Sizes:
    """The amounts that are measured, and the repeats."""

    pairs: int
    warm_up_s: float  # for each source
    records: int  # that each source reads
    range_bytes: int  # of a topic that is partly read
    events: int  # that are ingested
    commits: int  # in the lake of the jobs
    memory: str  # of the driver of the jobs


class Place:
    """A directory, and a new broker in it for each part."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.contextmanager
    def directory(self) -> Iterator[Path]:
        """Yield a directory for this part, which is removed afterwards."""
        with tempfile.TemporaryDirectory(dir=self._directory) as name:
            yield Path(name)


def address_of(target: BrokerCy) -> str:
    return f"{target.address[0]}:{target.address[1]}"


def fill(target: BrokerCy, partitions: int, value_bytes: int, batch_bytes: int, count: int) -> int:
    """Write at least `count` records, with the times of their arrival, to a new topic; return their number."""
    target.create_topic(TOPIC, partitions, {"message.timestamp.type": "LogAppendTime"})
    batch, per_batch = protocol.largest_batch(value_bytes, batch_bytes)
    templates = [protocol.produce_request(TOPIC, number, batch, per_batch) for number in range(partitions)]
    requests = -(-count // per_batch)
    driver = Driver(target.address, [templates])
    try:
        driver.run_closed(depth=DEPTH, requests=requests, seconds=FILL_S)
        if driver.errors or driver.responses < requests:
            raise ProcessError(f"{requests - driver.responses} of {requests} requests failed: {driver.first_error}")
        # A new topic already has one record in each partition, from a probe.
        return driver.records + partitions
    finally:
        driver.close()


def sources(place: Place, sizes: Sizes) -> Figures:
    """Alternate between both sources over one topic, in one Spark session, after both are warm."""
    with place.directory() as directory:
        target = BrokerCy(directory / "data")
        with target.running():
            count = fill(target, CORES, RECORD_BYTES, BATCH_BYTES, sizes.records)
            found = measured(
                directory,
                "sources",
                *_where(target, count),
                f"--bootstrap={address_of(target)}",
                f"--pairs={sizes.pairs}",
                f"--warm-up={sizes.warm_up_s}",
                timeout_s=ENDS_S,
            )
    ours, official = ([count / each for each in found[name]] for name in ("segments_s", "official_s"))
    return {
        "analytics_segments_records_per_s": ours,
        "analytics_official_records_per_s": official,
        "analytics_segments_to_official_ratio": [a / b for a, b in zip(ours, official, strict=True)],
    }


def _where(target: BrokerCy, count: int) -> list[str]:
    return [f"--directory={target.directory}", f"--topic={TOPIC}", f"--records={count}"]


def time_range(place: Place, sizes: Sizes) -> Figures:
    """Read the hundredth of a large topic that was written in a time range, and count the bytes."""
    with place.directory() as directory:
        target = BrokerCy(directory / "data")
        with target.running():
            wanted = sizes.range_bytes // (RANGE_RECORD_BYTES + 10)
            count = fill(target, RANGE_PARTITIONS, RANGE_RECORD_BYTES, RANGE_BATCH_BYTES, wanted)
            found = measured(directory, "range", *_where(target, count), timeout_s=ENDS_S)
            size = sum(path.stat().st_size for path in target.directory.glob(f"{TOPIC}-*/*.log"))
    return {
        "analytics_range_topic_gb": size / 1e9,
        "analytics_range_records_percent": found["records"] / count * 100,
        "analytics_range_read_percent": found["bytes_read"] / size * 100,
        "analytics_range_io_percent": found["io_bytes"] / size * 100,
        "analytics_range_s": found["seconds"],
    }


def ingest(place: Place, sizes: Sizes) -> Figures:
    """Ingest the topics of a broker that has written many events."""
    with place.directory() as directory:
        data = directory / "data"
        first = BrokerCy(data)
        first.start()
        try:
            _wait_for_topics(data)
        finally:
            first.stop()
        start_ms = time.time_ns() // 1_000_000 - HOUR_MS - sizes.events * own_topics.EVENT_MS
        counts = own_topics.fill(first, sizes.events, start_ms)
        size = sum(path.stat().st_size for topic in counts for path in data.glob(f"{topic}-0/*.log"))
        target = BrokerCy(data, {**BROKER_SETTINGS, **own_topics.QUIET})
        with target.running():
            words = ("ingest", f"--bootstrap={address_of(target)}", f"--lake={directory / 'lake'}", "--name=bench")
            ran = analytics(directory, *words, timeout_s=ENDS_S)
    if (read := records_of(ran)) != sum(counts.values()):
        raise ProcessError(f"{read} records were ingested of {sum(counts.values())}: {ran.printed[-500:]}")
    return {
        "analytics_ingest_events": float(sizes.events),
        "analytics_ingest_core_events_per_s": sizes.events / ran.cpu_s,
        "analytics_ingest_events_per_s": sizes.events / ran.seconds,
        "analytics_ingest_cpu_s": ran.cpu_s,
        "analytics_ingest_topics_mb": size / 1e6,
        "analytics_ingest_peak_mb": ran.peak_bytes / 1e6,
    }


def _wait_for_topics(data: Path) -> None:
    """Wait until a new broker has written to both of its own topics. Raises ProcessError."""
    until_s = time.monotonic() + 60
    while not all(any(each.stat().st_size for each in data.glob(f"{topic}-0/*.log")) for topic in own_topics.TOPICS):
        if time.monotonic() > until_s:
            raise ProcessError(f"the broker did not write to {' and '.join(own_topics.TOPICS)} within 60 s")
        time.sleep(0.05)


def jobs(place: Place, sizes: Sizes) -> Figures:
    """Run all jobs over the lake of a synthetic cluster, and compare their findings with the planted anomalies."""
    with place.directory() as directory:
        lake = directory / "lake"
        made = measured(directory, "lake", f"--lake={lake}", f"--commits={sizes.commits}", timeout_s=ENDS_S)
        tables = directory / "tables"
        words = ("run", "all", f"--lake={lake}", f"--out={tables}", f"--master={MASTER}", f"--memory={sizes.memory}")
        ran = analytics(directory, *words, timeout_s=ENDS_S)
        of = (f"--tables={tables}", f"--commits={sizes.commits}")
        planted = measured(directory, "planted", *of, timeout_s=ENDS_S)
    for each in (*(f"missed: {each}" for each in planted["missed"]), *(f"false: {each}" for each in planted["false"])):
        print(each, file=sys.stderr)
    return {
        "analytics_jobs_rows": float(made["rows"]),
        "analytics_jobs_commits": float(made["commits"]),
        "analytics_jobs_s": ran.seconds,
        "analytics_jobs_cpu_s": ran.cpu_s,
        "analytics_jobs_peak_mb": ran.peak_bytes / 1e6,
        "analytics_jobs_answers": float(planted["answers"]),
        "analytics_jobs_recall_percent": planted["recall"] * 100,
        "analytics_jobs_false_alarms_per_broker_day": planted["false_alarms_per_broker_day"],
        "analytics_jobs_found_jobs": float(planted["jobs_found"]),
    }


PARTS: dict[str, Callable[[Place, Sizes], Figures]] = {
    "sources": sources,
    "range": time_range,
    "ingest": ingest,
    "jobs": jobs,
}
