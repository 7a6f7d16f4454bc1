"""The measurements of `bench.studies.load`. Each returns the figures of its part; those of repeats are lists."""

from __future__ import annotations

import contextlib
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.launch import kafka_user
from bench.studies.goals import Figures
from bench.studies.load_children import IDLE_S, TOPIC, Loaded, Running, bench_p99_ms, idle, load, producing
from bench.targets.brokers import BrokerCy
from broker_cy.launch.processes import ProcessError

CONNECTIONS = 16
# A rate below this share of the requested one is not reached.
REACHED = 0.97
# The number of halvings of the gap between the last good rate and the first bad one, after doubling.
HALVINGS = 2
FROZEN_S = 1.0
FROZEN_RATE = 1_000.0
# The time on both sides of the freeze, which must be within the measured time.
GRACE_S = 2.0
RECORDS = 100
# Settings for the cost of verification: each engine's users, records per request, options and rate.
VERIFIED = {
    "gevent": (CONNECTIONS, 1, "", 10_000.0),
    "raw": (1, RECORDS, f"connections = {CONNECTIONS}", 5_000.0),
    "librdkafka": (CONNECTIONS, 1, "", 20_000.0),
}


@dataclass(frozen=True)
class Sizes:
    """The durations, repeats and amounts that are measured."""

    seconds: float
    pairs: int
    first_rate: float  # at which the search of the highest one begins
    most_rate: float
    rate: float  # of the schedules for lateness and latency
    users: int  # of the schedule for lateness
    connections: int  # idle ones


class Place:
    """A directory, and a new broker in it for each part or run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.contextmanager
    def broker(self) -> Iterator[tuple[Path, str, BrokerCy]]:
        """Run a new broker; yields a directory for outputs, its address, and itself."""
        with tempfile.TemporaryDirectory(dir=self._directory) as name:
            target = BrokerCy(Path(name) / "data")
            with target.running():
                yield Path(name), f"{target.address[0]}:{target.address[1]}", target


def highest_rate(measure: Callable[[float], Loaded], first: float, most: float) -> float:
    """Return the highest rate up to `most` that is reached: the rate is doubled until it is not reached, then the gap
    is halved HALVINGS times. Raises ProcessError if the first is not reached.
    """

    def reached(rate: float) -> bool:
        return measure(rate).requests_per_s >= REACHED * rate

    if not reached(first):
        raise ProcessError(f"the generator does not reach {first:,g}/s")
    good, bad = first, math.inf
    while good < most and bad == math.inf:
        tried = min(most, good * 2)
        if reached(tried):
            good = tried
        else:
            bad = tried
    for _ in range(HALVINGS if bad < math.inf else 0):
        middle = (good + bad) / 2
        if reached(middle):
            good = middle
        else:
            bad = middle
    return good


def beside_kafka_user(place: Place, sizes: Sizes) -> Figures:
    """Alternate between broker-load, at the highest rate that one process reaches, and KafkaUser."""
    found: dict[str, list[float]] = {}

    def note(**figures: float) -> None:
        for name, value in figures.items():
            found.setdefault(name, []).append(value)

    with place.broker() as (directory, bootstrap, target):

        def ours(rate: float) -> Loaded:
            return load(directory, producing("gevent", users=CONNECTIONS, rate=rate), bootstrap, sizes.seconds)

        rate = highest_rate(ours, sizes.first_rate, sizes.most_rate)
        theirs = f"{TOPIC}-kafka-user"
        target.create_topic(theirs, 4)
        for _ in range(sizes.pairs):
            mine = ours(rate)
            note(load_requests_per_s=mine.requests_per_s, load_core_requests_per_s=mine.per_core_s)
            sent = {
                form: kafka_user.send(form, bootstrap, theirs, seconds=sizes.seconds, directory=directory)
                for form in kafka_user.FORMS
            }
            for form, each in sent.items():
                note(**{
                    f"kafka_user_{form}_per_s": each.per_s,
                    f"kafka_user_{form}_core_per_s": each.per_core_s,
                    f"load_to_kafka_user_{form}_ratio": mine.requests_per_s / each.per_s,
                })  # fmt: skip
            native = load(directory, producing("librdkafka", users=CONNECTIONS), bootstrap, sizes.seconds)
            note(
                load_librdkafka_per_s=native.records_per_s,
                load_librdkafka_core_per_s=native.per_core_s,
                load_librdkafka_to_polled_ratio=native.per_core_s / sent["polled"].per_core_s,
            )
    return {"load_schedule_per_s": rate, **found}


def raw(place: Place, sizes: Sizes) -> Figures:
    """Measure acknowledged records of one worker with the engine raw, with and without verification in turn."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    with place.broker() as (directory, bootstrap, _):
        for _ in range(sizes.pairs):
            for verify, found in rates.items():
                scenario = producing(
                    "raw", users=1, records=RECORDS, options=f"connections = {CONNECTIONS}", verify=verify
                )
                found.append(load(directory, scenario, bootstrap, sizes.seconds).records_per_s)
    return {"load_raw_verified_records_per_s": rates[True], "load_raw_records_per_s": rates[False]}


def lateness(place: Place, sizes: Sizes) -> Figures:
    """Measure the generator's own delay with many users."""
    with place.broker() as (directory, bootstrap, _):
        scenario = producing("gevent", users=sizes.users, rate=sizes.rate)
        found = [load(directory, scenario, bootstrap, sizes.seconds) for _ in range(sizes.pairs)]
    return {
        "load_lateness_p99_ms": [each.lateness_ms for each in found],
        "load_hub_lag_p99_ms": [float(each.result["hub_lag"]["p99_ms"]) for each in found],
    }


def beside_broker_bench(place: Place, sizes: Sizes) -> Figures:
    """Alternate between broker-bench and broker-load with one schedule, each with a new broker."""
    found: dict[str, list[float]] = {"bench": [], "raw": [], "gevent": []}
    scenarios = {
        "raw": producing("raw", users=1, rate=sizes.rate, options=f"connections = {CONNECTIONS}", verify=False),
        "gevent": producing("gevent", users=CONNECTIONS, rate=sizes.rate, verify=False),
    }
    for _ in range(sizes.pairs):
        for name, values in found.items():
            with place.broker() as (directory, bootstrap, _):
                if name == "bench":
                    p99_ms = bench_p99_ms(
                        directory, bootstrap, rate=sizes.rate, connections=CONNECTIONS, seconds=sizes.seconds
                    )
                else:
                    p99_ms = load(directory, scenarios[name], bootstrap, sizes.seconds).latency_ms("p99_ms")
                values.append(p99_ms)
    figures: Figures = {f"same_schedule_{name}_p99_ms": values for name, values in found.items()}
    for name in scenarios:
        figures[f"load_{name}_to_bench_p99_ratio"] = [
            mine / theirs for mine, theirs in zip(found[name], found["bench"], strict=True)
        ]
    return figures


def frozen(place: Place, sizes: Sizes) -> Figures:
    """Stop the broker for FROZEN_S in the middle of a schedule, and return the figures of each engine."""
    figures: Figures = {}
    for engine, users, options in (("gevent", CONNECTIONS, ""), ("raw", 1, f"connections = {CONNECTIONS}")):
        with place.broker() as (directory, bootstrap, target):
            scenario = producing(engine, users=users, rate=FROZEN_RATE, options=options)
            running = Running(directory, scenario, bootstrap, sizes.seconds + FROZEN_S + 2 * GRACE_S)
            try:
                _wait_for_load(running, directory / "data")
                time.sleep(GRACE_S)
                target.node.child.send_signal(signal.SIGSTOP)
                time.sleep(FROZEN_S)
            finally:
                target.node.child.send_signal(signal.SIGCONT)
            figures[f"load_{engine}_frozen_max_ms"] = running.finish().latency_ms("max_ms")
    return figures


def _wait_for_load(running: Running, data: Path) -> None:
    """Wait until the first records are in the log."""
    until_s = time.monotonic() + 60
    while not any(path.stat().st_size for path in data.glob(f"{TOPIC}-*/*.log")):
        if running.child.returncode is not None or time.monotonic() > until_s:
            running.finish()
            raise ProcessError("broker-load wrote nothing")
        time.sleep(0.01)


def idle_connections(place: Place, sizes: Sizes) -> Figures:
    """Measure the memory of a process that holds idle connections."""
    with place.broker() as (directory, bootstrap, _):
        running = Running(directory, idle(sizes.connections), bootstrap, IDLE_S)
        try:
            resident = running.hold(sizes.connections, sizes.seconds)
        finally:
            loaded = running.finish()
    return {"load_idle_connections": loaded.operation["requests"], "load_idle_mb": resident / 1e6}


def verification(place: Place, sizes: Sizes) -> Figures:
    """Alternate between runs with and without verification; the cost is the decrease of requests per second of CPU."""
    figures: Figures = {}
    with place.broker() as (directory, bootstrap, _):
        for engine, (users, records, options, rate) in VERIFIED.items():
            costs = []
            for _ in range(sizes.pairs):
                with_it, without = (
                    load(
                        directory,
                        producing(engine, users=users, rate=rate, records=records, options=options, verify=verify),
                        bootstrap,
                        sizes.seconds,
                    ).per_core_s
                    for verify in (True, False)
                )
                costs.append((1 - with_it / without) * 100)
            figures[f"load_verify_{engine}_percent"] = costs
    return figures


PARTS: dict[str, Callable[[Place, Sizes], Figures]] = {
    "kafka-user": beside_kafka_user,
    "raw": raw,
    "lateness": lateness,
    "bench": beside_broker_bench,
    "frozen": frozen,
    "idle": idle_connections,
    "verify": verification,
}
