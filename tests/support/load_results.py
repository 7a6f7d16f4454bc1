"""Results of broker-load as workers would report them, from seeded random latencies: a good run, and a bad one."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from bench.measuring.histogram import Histogram
from broker_cy.client.payload.settings import Payload
from loadgen.figures.book import Book
from loadgen.figures.totals import Totals
from loadgen.report import build
from loadgen.report.result import Event, Partition, Result, Verification
from loadgen.scenario.model import Scenario, Threshold, TopicSpec, UserSpec
from loadgen.scenario.profile import RateProfile
from loadgen.scenario.thresholds import judge
from loadgen.verify.verification import Example

MS = 1_000_000
ORIGIN = {
    "kernel": "6.1.0", "cpu": "4 x some processor", "memory": "16.6 GB", "python": "3.11.9", "revision": "0123456789ab",
    "command": "broker-load run --bootstrap 127.0.0.1:9092 --scenario mixed --rate 4000/s --duration 60s --processes 3",
    "started": "2026-01-02T03:04:05.678+00:00",
    "versions": {"cluster": "broker-cy 0.1.0", "broker-cy": "0.1.0", "locust": "2.47.0", "gevent": "26.9.0"},
}  # fmt: skip


def scenario(seconds: float = 60.0, rate: RateProfile | None = None) -> Scenario:
    """Producers on a schedule, consumers in a closed loop, probes."""
    return Scenario(
        name="mixed",
        description="Producers, consumers and probes side by side.",
        seconds=seconds,
        topic=TopicSpec(partitions=4, replication_factor=3, configs={"min.insync.replicas": "2"}),
        users=(
            UserSpec("producer", "producers", 40, rate or RateProfile.constant(4000), payload=Payload(size=1000)),
            UserSpec("consumer", "readers", 4),
            UserSpec("probe", "probes", 2, RateProfile.constant(20)),
        ),
        thresholds=(Threshold("Produce", "p99_ms", most=50.0), Threshold("Produce", "error_share", most=0.001)),
    )


@dataclass
class Load:
    """The results of one operation in a second of one worker; times in ms."""

    count: int
    service_ms: float
    waited_ms: float = 0.0  # added to some of the latencies, up to this
    waiting: float = 0.0  # share of the operations that waited
    sigma: float = 0.35
    records: int = 1
    size_bytes: int = 1000
    errors: dict[str, int] = field(default_factory=dict)
    slowest_ms: float = 0.0  # the duration of one slow response


def interval(second: int, loads: dict[str, Load], chance: random.Random, **others: Any) -> dict[str, Any]:
    """Return the result of a worker's `Book.take`; `others` replace parts of it, such as cpu_s and queued."""
    book = Book()
    for name, load in loads.items():
        meter = book.meter(name)
        failures = [error for error, count in load.errors.items() for _ in range(count)]
        for number in range(load.count + len(failures)):
            service = int(load.service_ms * math.exp(chance.gauss(0, load.sigma)) * MS)
            if load.slowest_ms and number == 0:
                service = int(load.slowest_ms * MS)
            waited = int(chance.random() * load.waited_ms * MS) if chance.random() < load.waiting else 0
            if number < load.count:
                meter.done(0, waited, waited + service, load.records, load.size_bytes * load.records)
            else:
                meter.failed(failures[number - load.count], 0, waited, waited + service)
    lateness, hub_lag = Histogram(), Histogram()
    late_ms = others.pop("late_ms", 0.08)
    lag_ms = others.pop("lag_ms", 0.5)
    for _ in range(200):
        lateness.add(int(late_ms * math.exp(chance.gauss(0, 0.5)) * MS))
        hub_lag.add(int(lag_ms * math.exp(chance.gauss(0, 0.4)) * MS))
    taken = book.take(second)
    return {
        **taken, "seconds": 1.0, "cpu_s": 0.42, "lateness": lateness.state(), "hub_lag": hub_lag.state(), **others,
    }  # fmt: skip


def good_totals(seconds: int = 60, workers: int = 2, seed: int = 1) -> Totals:
    """A quiet run."""
    chance = random.Random(seed)
    totals = Totals()
    for second in range(1, seconds + 1):
        for worker in range(workers):
            loads = {
                "Produce": Load(4000 // workers // 10, 1.8),
                "Fetch": Load(300 // workers, 2.5, records=15),
                "Probe": Load(20 // workers, 4.0),
            }
            totals.add(f"w{worker}", interval(second - 1, loads, chance, cpu_s=0.4 + 0.05 * chance.random()))
    name_workers(totals)
    return totals


def name_workers(totals: Totals) -> None:
    """Give the workers a host and a process id."""
    for number, each in enumerate(totals.workers.values()):
        each.host, each.pid = f"load-{number + 1}", 4100 + number


def bad_totals(seconds: int = 60, seed: int = 2) -> Totals:
    """Three workers; the cluster stalls at 20 s and at 41 s, and worker 2 is lost after 45 s."""
    chance = random.Random(seed)
    totals = Totals()
    for second in range(1, seconds + 1):
        for worker in range(3):
            if worker == 2 and second > 45:
                continue
            loads = {
                "Produce": Load(130, 1.9), "Fetch": Load(80, 2.6, records=15), "Probe": Load(7, 4.2),
                "JoinGroup": Load(2, 12.0, records=0, size_bytes=0), "Commit": Load(5, 3.0),
            }  # fmt: skip
            queued = 0
            if second in (20, 41):
                loads["Produce"] = Load(
                    60, 2.4, 900, 0.6, slowest_ms=1450, errors={"NOT_LEADER_OR_FOLLOWER": 9, "REQUEST_TIMED_OUT": 2}
                )
                loads["Fetch"] = Load(20, 30, slowest_ms=1200)
                loads["JoinGroup"] = Load(6, 700.0, records=0, size_bytes=0, errors={"REBALANCE_IN_PROGRESS": 4})
                queued = 36
            elif second in (21, 42):
                loads["Produce"] = Load(190, 2.2, 500, 0.5, slowest_ms=480)
                queued = 80
            totals.add(f"w{worker}", interval(second - 1, loads, chance, queued=queued, cpu_s=0.55))
    name_workers(totals)
    totals.workers["w2"].lost = "no report for 3 s"
    for each in totals.workers.values():
        each.part = 1 / 3
    return totals


def partitions(**of_second: int) -> tuple[Partition, ...]:
    """Four good partitions, except for the values in `of_second` for partition 2."""
    found = []
    for number in range(4):
        counts = {
            "sent": 5020 + number, "acknowledged": 5000 + number, "read": 5012 + number, "lost": 0, "duplicated": 0,
            "reordered": 0, "refused_but_read": 0, "aborted_but_read": 0, "unknown_present": 12, "unknown_absent": 8,
            "not_checkable": 0, "unclaimed": 0, "foreign": 0, "damaged": 0,
        }  # fmt: skip
        examples: dict[str, tuple[Example, ...]] = {}
        if number == 2 and of_second:
            counts |= of_second
            examples = {name: (Example(3, 2, 1841, 3391, topic="broker-load"),) for name in of_second}
        found.append(Partition("broker-load", number, 100, 5112 + number, counts, examples))
    return tuple(found)


def judged(result: Result) -> Result:
    """Judge the thresholds of `scenario`."""
    return result.judged(judge(scenario().thresholds, result))


def good(seconds: int = 60) -> Result:
    """A run without faults."""
    made = build.build(
        scenario(seconds), good_totals(seconds), seconds=seconds, bootstrap="127.0.0.1:9092", command=["broker-load"],
        verification=Verification(partitions(), 3.4), origin=ORIGIN,
    )  # fmt: skip
    return judged(made)


def bad() -> Result:
    """A run with stalls, errors, two rebalances, a lost worker and a duplicated record."""
    events = (
        Event(19.6, "LeaderChanged", "broker-load-1: leader 2 to 3"),
        Event(20.2, "RebalanceStarted", "group load-readers, generation 4: member readers-3 left"),
        Event(21.4, "RebalanceCompleted", "group load-readers, generation 5: 3 members"),
        Event(41.1, "RebalanceStarted", "group load-readers, generation 5: session of readers-1 expired"),
        Event(42.3, "RebalanceCompleted", "group load-readers, generation 6: 2 members"),
        Event(45.0, "WorkerLost", "worker 2 on load-3: no report for 3 s"),
    )
    made = build.build(
        scenario(), bad_totals(), seconds=60.0, bootstrap="127.0.0.1:9092", command=["broker-load"],
        verification=Verification(partitions(duplicated=1), 3.9), events=events, origin=ORIGIN,
    )  # fmt: skip
    return judged(made)
