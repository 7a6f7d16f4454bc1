"""Code that client processes share: their description, messages from the parent, statistics and samples.

Messages are pickled tuples over a socket pair; the first element is their type. To a client: ("run", start_ns,
seconds), ("finish",) when no more records will come, ("stop",) to end immediately. From a client: ("ready", partitions
of the topic), ("assigned", partitions of this consumer), ("sample", Sample), ("done", DriverResult, records received in
total), ("failed", text). A closed socket means that the other side has ended.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from bench.drivers.base import SAMPLE_S, Sample
from bench.measuring.histogram import Histogram
from bench.spec.workload import Workload

METADATA_TIMEOUT_S = 30.0
LOOK_S = 0.02  # how often a busy client checks for a message from its parent
STATISTICS_MS = 100  # how often librdkafka reports how many requests it sent
NS = 1e9


class ClientError(Exception):
    """The client cannot run its workload; the text says why."""


@dataclass(frozen=True)
class ClientSpec:
    """One client process."""

    role: str  # "producer" or "consumer"
    index: int  # among those of its role
    bootstrap: str
    topic: str
    workload: Workload
    group: str
    flush_s: float  # how long after the window records may stay unacknowledged
    security: dict[str, str] = field(default_factory=dict, repr=False)  # librdkafka's settings

    @property
    def stamps(self) -> bool:
        """Whether values contain the time at which they were due."""
        return self.workload.producers > 0 and self.workload.consumers > 0

    @property
    def key_bytes(self) -> int:
        return self.workload.key_bytes if self.workload.keys else 0


class Control:
    """Messages from the parent, checked at most every LOOK_S, because each check is a system call."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.stop = self.finish = False
        self._next_look = 0.0

    def begin(self) -> None:
        """Forget the messages of the previous run."""
        self.stop = self.finish = False
        self._next_look = 0.0

    def look(self) -> bool:
        """Read the parent's messages; returns whether it wants an immediate end. Raises EOFError if it has ended."""
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + LOOK_S
            while self.connection.poll(0):
                word = self.connection.recv()[0]
                self.stop |= word == "stop"
                self.finish |= word == "finish"
        return self.stop


class Requests:
    """librdkafka's statistics, and its errors that belong to no record."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # name of the request that is counted
        self._sent: dict[str, int] = {}  # to each broker
        self.reports = 0
        self.last_error: str | None = None
        self.on_outage: Callable[[str], None] | None = None

    @property
    def sent(self) -> int:
        """Number of requests so far, as of the last statistics."""
        return sum(self._sent.values())

    def settings(self) -> dict[str, Any]:
        """Return the callbacks for a client's configuration."""
        # The log goes to stderr, which is not shown to users here; every relevant line is also reported as an error.
        return {
            "stats_cb": self._statistics,
            "error_cb": self._error,
            "statistics.interval.ms": STATISTICS_MS,
            "log_level": 2,
        }

    def _statistics(self, text: str) -> None:
        for name, broker in json.loads(text)["brokers"].items():
            count = broker.get("req", {}).get(self.kind, 0)
            self._sent[name] = max(count, self._sent.get(name, 0))  # also counts brokers that left the list
        self.reports += 1

    def _error(self, error: KafkaError) -> None:
        down = error.code() == KafkaError._ALL_BROKERS_DOWN
        if not down or self.last_error is None:  # the error before it has the reason
            self.last_error = error.str()
        if down and self.on_outage is not None:
            self.on_outage(self.last_error)


class Sampler:
    """Turns cumulative counters into the samples of a series."""

    def __init__(self, start_ns: int, send: Callable[[Sample], None]) -> None:
        self.start_ns = start_ns
        self._send = send
        self._slot = 0
        self._before: tuple[int, ...] = (0,) * 6

    def due(self) -> bool:
        return (time.monotonic_ns() - self.start_ns) / NS >= (self._slot + 1) * SAMPLE_S

    def take(self, counters: tuple[int, ...], latency: Histogram, last: bool = False) -> None:
        """Send a sample.

        Counters are (records, bytes, requests, errors, records and bytes consumed with concurrent producers) so far.
        """
        elapsed_s = (time.monotonic_ns() - self.start_ns) / NS
        self._slot = int(elapsed_s / SAMPLE_S)
        records, size, requests, errors, *consumed = (
            now - was for now, was in zip(counters, self._before, strict=True)
        )
        self._before = counters
        t_s = elapsed_s if last else self._slot * SAMPLE_S
        self._send(Sample(t_s, records, size, requests, errors, latency, *consumed))


def partitions_of(client: Any, topic: str) -> int:
    """Return the topic's number of partitions. Raises ClientError if the topic or the target is not available."""
    try:
        found = client.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
    except KafkaException as error:
        raise ClientError(f"no metadata of topic {topic}: {error.args[0].str()}") from error
    if found.error is not None:
        raise ClientError(f"topic {topic}: {found.error.str()}")
    return len(found.partitions)
