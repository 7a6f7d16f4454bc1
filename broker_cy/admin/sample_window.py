"""Samples of a broker's metrics, aggregated over some seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from broker_cy.core.classes import dataclass
from broker_cy.metrics.sample import Api, Sample, Times, Topic

TOTAL = "total"


def merged(every: Iterable[Times]) -> Times:
    """Sums, and the quantiles of the worst sample: quantiles of several samples cannot be combined."""
    times = [each for each in every if each.count]
    return Times(
        sum(each.count for each in times),
        sum(each.sum_us for each in times),
        max((each.p50_us for each in times), default=0),
        max((each.p99_us for each in times), default=0),
        max((each.max_us for each in times), default=0),
    )


@dataclass(slots=True)
class ClientUse:
    """Use by the connections of one client id. `connections` is the largest number that was busy at the same time."""

    connections: int = 0
    requests: int = 0
    in_bytes: int = 0
    out_bytes: int = 0


@dataclass(slots=True)
class Window:
    """One broker's samples, summed: `last` is the newest, which has current amounts (memory, connections, groups).

    `interval_ms` is the time all of them cover. Sums are of that time.
    """

    last: Sample
    samples: int = 0
    interval_ms: int = 0
    cpu_us: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    connections_opened: int = 0
    connections_closed: int = 0
    hot_reads: int = 0
    cold_reads: int = 0
    hot_bytes: int = 0
    cold_bytes: int = 0
    sync_rounds: int = 0
    loop_lag: Times = field(default_factory=Times)
    apis: dict[str, Api] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    clients: dict[str, ClientUse] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return max(0.001, self.interval_ms / 1000)

    def add(self, sample: Sample) -> None:
        """Add the next sample."""
        self.last = sample
        self.samples += 1
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(sample, name))
        self.loop_lag = merged((self.loop_lag, sample.loop_lag))
        for name, api in sample.apis.items():
            _add_api(self.apis.setdefault(name, Api()), api)
        for name, topic in sample.topics.items():
            whole = self.topics.setdefault(name, Topic())
            whole.in_records += topic.in_records
            whole.in_bytes += topic.in_bytes
            whole.out_bytes += topic.out_bytes
        connections: dict[str, int] = {}
        for each in sample.busy:
            connections[each.client_id] = connections.get(each.client_id, 0) + 1
            use = self.clients.setdefault(each.client_id, ClientUse())
            use.requests += each.requests
            use.in_bytes += each.in_bytes
            use.out_bytes += each.out_bytes
        for client_id, count in connections.items():
            use = self.clients[client_id]
            use.connections = max(use.connections, count)


_SUMS = (
    "interval_ms",
    "cpu_us",
    "minor_faults",
    "major_faults",
    "disk_read_bytes",
    "disk_written_bytes",
    "connections_opened",
    "connections_closed",
    "hot_reads",
    "cold_reads",
    "hot_bytes",
    "cold_bytes",
    "sync_rounds",
)


def _add_api(whole: Api, api: Api) -> None:
    whole.requests += api.requests
    whole.in_bytes += api.in_bytes
    whole.out_bytes += api.out_bytes
    for error, count in api.errors.items():
        whole.errors[error] = whole.errors.get(error, 0) + count
    for phase, times in api.phases.items():
        whole.phases[phase] = merged((whole.phases.get(phase, Times()), times))


def windows(samples: Iterable[Sample], over_ms: int) -> dict[int, Window]:
    """By broker, the samples of the last `over_ms` before its newest one, and the newest one of any interval."""
    by_broker: dict[int, list[Sample]] = {}
    for sample in samples:
        by_broker.setdefault(sample.broker, []).append(sample)
    found = {}
    for broker, theirs in sorted(by_broker.items()):
        newest = theirs[-1]
        found[broker] = Window(newest)
        for sample in theirs:
            if sample is newest or newest.time_ms - sample.time_ms < over_ms:
                found[broker].add(sample)
    return found
