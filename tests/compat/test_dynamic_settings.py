"""Settings of a running broker (KIP-226): a change that is accepted takes effect immediately, any other is refused as
in Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.acked import batch, fetch
from tests.support.broker import Target
from tests.support.raw_wire import Connection, ProducedPartition, array, i8, produce, string
from tests.support.topics import create_topic
from tests.support.wait import until

# Kafka first checks retention 30 seconds after its start.
TIMEOUT_S = 60.0
BROKER_SETTINGS = {"log.retention.check.interval.ms": "200"}
Change = Callable[[str, str, str | None], tuple[int, str | None]]
INCREMENTAL_ALTER_CONFIGS, BROKER, SET, DELETE = 44, 4, 0, 1
INVALID_REQUEST = 42
OFFSET_OUT_OF_RANGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP = 1, 10, 32
MINUTE_MS = 60_000
ALL_BROKERS, THIS_BROKER = "", "1"
READ_ONLY = (
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "offsets.topic.segment.bytes",
    "auto.create.topics.enable",
    "connections.max.idle.ms",
    "delete.topic.enable",
    "fetch.max.bytes",
    "log.retention.check.interval.ms",
    "num.partitions",
    "socket.request.max.bytes",
)


class Log:
    """A topic of one partition, over one connection."""

    def __init__(self, broker: Target, connection: Connection, topic: str) -> None:
        self.directory: Path = broker.data_dir / f"{topic}-0"
        self.connection = connection
        self.topic = topic

    def send(self, value: bytes = b"v", age_ms: int = 0) -> ProducedPartition:
        data = batch(value, timestamp=int(time.time() * 1000) - age_ms)
        return produce(self.connection, {self.topic: {0: data}})[self.topic, 0]

    def codec(self) -> int:
        """Return the properties of a batch that is sent now, as it is stored."""
        _, _, stored = fetch(self.connection, self.topic, 0, self.send(b"a" * 500).base_offset)
        return stored[22] & 7

    def first_is_gone(self) -> bool:
        return fetch(self.connection, self.topic, 0, 0)[0] == OFFSET_OUT_OF_RANGE

    def segments(self) -> int:
        return len(list(self.directory.glob("*.log")))


def rolls(log: Log, *sent: tuple[bytes, int]) -> bool:
    """Return whether the segment changes at least once in between."""
    before = log.segments()
    for value, age_ms in sent:
        assert log.send(value, age_ms).error == 0
    return log.segments() > before


# A setting, its new value, and a check that it is in effect.
EFFECTS: dict[str, tuple[str, Callable[[Log], bool]]] = {
    "message.max.bytes": ("1000", lambda log: log.send(b"v" * 2000).error == MESSAGE_TOO_LARGE),
    "compression.type": ("gzip", lambda log: log.codec() == 1),
    "log.message.timestamp.type": ("LogAppendTime", lambda log: log.send().log_append_time_ms > 0),
    "log.message.timestamp.after.max.ms": (
        "1000",
        lambda log: log.send(age_ms=-MINUTE_MS).error == INVALID_TIMESTAMP,
    ),
    "log.message.timestamp.before.max.ms": (
        "1000",
        lambda log: log.send(age_ms=MINUTE_MS).error == INVALID_TIMESTAMP,
    ),
    "log.segment.bytes": ("1048576", lambda log: rolls(log, *[(b"v" * 600_000, 0)] * 2)),
    "log.roll.ms": ("1000", lambda log: rolls(log, (b"v", 2 * MINUTE_MS), (b"v", MINUTE_MS), (b"v", 0))),
}


@pytest.fixture
def change(broker: Target) -> Iterator[Change]:
    """Set a broker setting at a level, or remove it if the value is None; returns the response's error and message. By
    hand: clients refuse the empty name that means all brokers.
    """
    with Connection((broker.host, broker.port)) as connection:

        def alter(level: str, name: str, value: str | None) -> tuple[int, str | None]:
            config = string(name) + i8(DELETE if value is None else SET) + string(value)
            resource = i8(BROKER) + string(level) + array([config])
            reader = connection.ask(INCREMENTAL_ALTER_CONFIGS, 0, array([resource]) + i8(0))
            reader.i32()  # throttle time
            assert reader.i32() == 1
            return reader.i16(), reader.string()

        yield alter


@pytest.fixture
def log(broker: Target, topic: str) -> Iterator[Log]:
    create_topic(broker.bootstrap, topic)
    with Connection((broker.host, broker.port)) as connection:
        log = Log(broker, connection, topic)
        # Kafka announces a leader before it has created the log.
        until(lambda: log.segments() == 1, "the log is there")
        yield log


@pytest.mark.parametrize("level", [ALL_BROKERS, THIS_BROKER], ids=["all brokers", "this broker"])
@pytest.mark.parametrize("name", EFFECTS)
def test_a_change_is_in_force(change: Change, log: Log, name: str, level: str) -> None:
    """If this fails, a setting is accepted and shown, but has no effect before the next restart."""
    value, seen = EFFECTS[name]
    assert not seen(log)
    assert change(level, name, value) == (0, None)
    try:
        until(lambda: seen(log), f"{name}={value} is in force", TIMEOUT_S)
    finally:
        assert change(level, name, None) == (0, None)
    until(lambda: not seen(log), f"{name} is as it was", TIMEOUT_S)


@pytest.mark.parametrize(("name", "value"), [("log.retention.ms", "1000"), ("log.retention.bytes", "0")])
def test_a_change_of_retention_is_in_force(change: Change, log: Log, name: str, value: str) -> None:
    """If this fails, old records fill the disk until the next restart, although the operator asked for their
    deletion.
    """
    assert not rolls(log, *[(b"v", MINUTE_MS)] * 3)
    assert change(ALL_BROKERS, name, value) == (0, None)
    try:
        until(log.first_is_gone, "the old records are gone", TIMEOUT_S, interval_s=0.2)
    finally:
        assert change(ALL_BROKERS, name, None) == (0, None)


@pytest.mark.parametrize("level", [ALL_BROKERS, THIS_BROKER], ids=["all brokers", "this broker"])
def test_what_needs_a_restart_is_refused(change: Change, level: str) -> None:
    """If this fails, a change without effect is accepted: group settings, for example, are only read at the start."""
    for name in READ_ONLY:
        assert change(level, name, "1") == (INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]")
