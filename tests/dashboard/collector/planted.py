"""Samples and events of past days in the broker's own topics, to which no client can write: the segment file is
replaced while the broker is down.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from broker_cy.metrics import events
from broker_cy.metrics.events import Stamped
from broker_cy.metrics.sample import Api, Sample, Times, Topic, encode
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, encode_batch
from tests.support.broker import BrokerProcess
from tests.support.wait import until

# Records per batch: the broker writes one sample per batch, which would be slow for a test of several days.
_BATCH = 20
_SEGMENT = "00000000000000000000"


def sample_at(time_ms: int, in_bytes: int, p99_us: int = 500, topic: str = "orders") -> Sample:
    """Return a sample of one second with this traffic."""
    return Sample(
        time_ms=time_ms,
        broker=1,
        interval_ms=1_000,
        uptime_ms=1_000,
        cpu_us=100_000,
        resident_bytes=40 << 20,
        loop_lag=Times(10, 100, 5, 30, 40),
        connections=4,
        disks={"/data": (1 << 30, 1 << 31)},
        apis={"Produce": Api(10, {}, 10, 20, {"total": Times(10, 2_000, 100, p99_us, p99_us + 10)})},
        topics={topic: Topic(10, in_bytes, 0)} if in_bytes else {},
    )


def sample_records(samples: Iterable[Sample]) -> list[Record]:
    return [Record(timestamp=each.time_ms, key=b"1", value=encode(each)) for each in samples]


def event_records(stamped: Iterable[Stamped]) -> list[Record]:
    found = []
    for each in stamped:
        key, value = events.encode(each)
        found.append(Record(timestamp=each.time_ms, key=key, value=value))
    return found


def start_with(broker: BrokerProcess, records: dict[str, list[Record]]) -> None:
    """Start a broker whose own topics contain `records` (by topic), followed by the records that it writes from now
    on.
    """
    broker.start()
    directories = {topic: broker.data_dir / f"{topic}-0" for topic in records}
    for topic, directory in directories.items():
        until(partial(_has_records, directory / f"{_SEGMENT}.log"), f"the first record of {topic}")
    broker.kill()
    for topic, directory in directories.items():
        _replace(directory, records[topic])
    broker.restart()


def _has_records(log: Path) -> bool:
    return log.exists() and log.stat().st_size > 0


def _replace(directory: Path, records: list[Record]) -> None:
    for path in directory.iterdir():
        # The broker rebuilds these from the segment.
        if path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    with (directory / f"{_SEGMENT}.log").open("wb") as file:
        for start in range(0, len(records), _BATCH):
            part = records[start : start + _BATCH]
            file.write(encode_batch(part, base_offset=start, leader_epoch=0, codec=Codec.ZSTD))
