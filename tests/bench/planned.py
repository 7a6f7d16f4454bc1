"""A target and a load in the process of a test, in planned time: no child process, no socket, no clock.

A window takes exactly the requested seconds, and each request takes SERVICE_NS. So the figures of a mode are known in
advance, even on a busy machine, and a run costs a few milliseconds. The same tests run with real targets under `make
test-all`.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from bench.drivers.base import SAMPLE_S, DriverResult, Sample
from bench.measuring import proc
from bench.measuring.histogram import Histogram
from bench.modes import lifecycle, recovery
from bench.report.measured import Spent
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target
from bench.targets.faults import Freeze
from bench.window import engine

NS = 1_000_000_000
SERVICE_NS = 2_000_000
CLOSED_PER_S = 1_000
"""Requests per second of a load that is as fast as possible."""
READ_BYTES_PER_S = 100_000_000
CPU_SHARE = 0.25
"""The share of a core that the target uses, and that the generator uses."""
START_S = 0.25
RESIDENT_BYTES = 50_000_000
FROM_DISK_BYTES = 1 << 40
"""All read bytes count as read from the disk."""
PORTS = iter(range(1, 1 << 16))


class Clock:
    """Stands for the module `time`; `least_s` passes in each sleep."""

    def __init__(self, least_s: float = 0.0) -> None:
        self.now_s, self.least_s = 1_000.0, least_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, self.least_s)


class PlannedTarget(Target):
    """Remembers how many records each partition has, also across `kill` and `start`."""

    compiles = False

    def __init__(self, directory: Path, name: str, clock: Clock) -> None:
        super().__init__(directory)
        self.name, self.clock = name, clock
        self.ends: dict[str, dict[int, int]] = {}
        self.runs = False

    def start(self) -> None:
        assert not self.runs
        self.directory.mkdir(parents=True, exist_ok=True)
        self.clock.sleep(START_S)
        self.runs, self.pid, self.address, self.first_answer_s = True, os.getpid(), ("planned", next(PORTS)), START_S

    def stop(self) -> None:
        self.runs = False

    def kill(self) -> None:
        self.runs = False

    def alive(self) -> bool:
        return self.runs

    def version(self) -> str:
        return "planned"

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        assert self.runs
        assert topic not in self.ends
        self.ends[topic] = dict.fromkeys(range(partitions), 0)
        self.probe(topic, partitions)

    def probe(self, topic: str, partitions: int) -> dict[int, int]:
        found = dict(self.ends[topic])
        self.clock.sleep(SERVICE_NS / NS)
        self.append(topic, len(found))
        return found

    def append(self, topic: str, records: int) -> None:
        """Add records, in turn to each partition."""
        ends = self.ends[topic]
        each, rest = divmod(records, len(ends))
        for partition in ends:
            ends[partition] += each + (partition < rest)

    def delete_topic(self, topic: str) -> None:
        assert self.runs
        del self.ends[topic]


class PlannedDriver:
    """LoadDriver (bench.drivers.base) of a PlannedTarget."""

    def __init__(self, world: World, target: PlannedTarget, topic: str, workload: Workload) -> None:
        self.world, self.target, self.topic, self.workload = world, target, topic, workload

    def prepare(self) -> None:
        assert len(self.target.ends[self.topic]) == self.workload.partitions

    def close(self) -> None:
        pass

    def run(
        self, seconds: float, on_sample: Callable[[Sample], None] | None = None, stop: Event | None = None
    ) -> DriverResult:
        assert self.target.runs
        result = DriverResult(processes=0)
        while result.seconds < seconds and not (stop is not None and stop.is_set()):
            step = self._step(result.seconds, min(SAMPLE_S, seconds - result.seconds))
            result.append(step)
            if on_sample is not None:
                on_sample(result.samples[-1])
        return result

    def _step(self, at_s: float, seconds: float) -> DriverResult:
        """Return the events in `seconds` of the window, from `at_s` on."""
        workload = self.workload
        found = DriverResult(seconds=seconds, cpu_s=CPU_SHARE * seconds)
        each = max(1, workload.batch_bytes // workload.record_size.most)
        if workload.producers:
            rate: float = CLOSED_PER_S
            if not workload.rate.unlimited:
                rate = workload.rate.start / (each if workload.rate.unit == "records" else 1)
            due = [number / rate for number in range(round(at_s * rate), round((at_s + seconds) * rate))]
            found.requests, found.records = len(due), len(due) * each
            self.target.append(self.topic, found.records)
            for due_s in due:
                found.latency.add(self.world.latency_ns(due_s))
        else:
            found.requests = round(READ_BYTES_PER_S * seconds / workload.fetch_bytes) or 1
            found.records = max(1, workload.fetch_bytes // workload.record_size.most) * found.requests
            for _ in range(found.requests):
                found.latency.add(SERVICE_NS)
        found.bytes = found.records * workload.record_size.most
        if workload.producers and workload.consumers:
            found.consumed_records, found.consumed_bytes, found.consumed_s = found.records, found.bytes, seconds
            found.end_to_end = Histogram()
            for due_s in due:
                found.end_to_end.add(self.world.latency_ns(due_s) + SERVICE_NS)
        found.samples = [
            Sample(
                seconds, found.records, found.bytes, found.requests, 0, found.latency,
                found.consumed_records, found.consumed_bytes,
            )
        ]  # fmt: skip
        return found


class PlannedSpending:
    """Stands for engine.Spending: a part of a core."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pieces = 0

    @contextlib.contextmanager
    def piece(self, shift_s: float) -> Iterator[None]:
        self.pieces += 1
        yield

    def latest(self) -> None:
        return None

    def spent(self) -> Spent:
        usage = usage_of(self.pieces * CPU_SHARE)
        return Spent(usage, [proc.Sampled(0.0, 0.0, RESIDENT_BYTES, 30)], RESIDENT_BYTES, 30, False, 0.0)


def usage_of(cpu_s: float) -> proc.Usage:
    """Return the resource usage of a process in a window."""
    return proc.Usage(cpu_s, cpu_s, 0, 0, 0, 0, 0, 0, FROM_DISK_BYTES, 0)


class World:
    """All planned targets of a test, by address; `frozen` is the fault of the window that runs."""

    def __init__(self) -> None:
        self.targets: list[PlannedTarget] = []
        self.clock = Clock()
        self.frozen: Freeze | None = None

    def target(self, session: engine.Session, spec: TargetSpec) -> PlannedTarget:
        made = PlannedTarget(session.root / spec.name, spec.name, self.clock)
        self.targets.append(made)
        return made

    def driver(
        self, address: tuple[str, int], topic: str, workload: Workload, leaders: Callable[[], Any]
    ) -> PlannedDriver:
        assert set(leaders().values()) == {address}
        return PlannedDriver(self, self._at(address), topic, workload)

    def ends(self, leaders: Mapping[int, tuple[str, int]], topic: str, which: int) -> dict[int, int]:
        (address,) = set(leaders.values())
        return dict(self._at(address).ends[topic])

    def read(self, target: PlannedTarget, topic: str, ends: Mapping[int, int], records: int) -> None:
        self.clock.sleep(SERVICE_NS / NS)
        assert all(target.ends[topic][partition] >= end for partition, end in ends.items())

    def _at(self, address: tuple[str, int]) -> PlannedTarget:
        (found,) = (each for each in self.targets if each.address == address and each.runs)
        return found

    def latency_ns(self, due_s: float) -> int:
        """Return the latency of a request that is due at this time of the window."""
        fault = self.frozen
        if fault is None or not fault.at_s <= due_s < fault.at_s + fault.seconds:
            return SERVICE_NS
        return round((fault.at_s + fault.seconds - due_s) * NS) + SERVICE_NS

    def resident_bytes(self, pid: int) -> int:
        """Return a size that grows with the bytes written."""
        return RESIDENT_BYTES + sum(
            end for each in self.targets for ends in each.ends.values() for end in ends.values()
        )

    @contextlib.contextmanager
    def freeze(self, fault: Freeze) -> Iterator[None]:
        self.frozen = fault
        try:
            yield
        finally:
            self.frozen = None


def install(monkeypatch: pytest.MonkeyPatch) -> World:
    """Let every mode measure planned targets until the end of the test."""
    world = World()
    monkeypatch.setattr(engine.Session, "target", lambda session, spec: world.target(session, spec))
    monkeypatch.setattr(engine, "RawDriver", world.driver)
    monkeypatch.setattr(engine, "list_offsets", world.ends)
    monkeypatch.setattr(engine, "Spending", PlannedSpending)
    for mode in (lifecycle, recovery):
        monkeypatch.setattr(mode, "read_tail", world.read)
        monkeypatch.setattr(mode, "time", world.clock)
    monkeypatch.setattr(proc, "warm_memory", lambda *sizes: None)
    monkeypatch.setattr(proc, "resident_bytes", world.resident_bytes)
    monkeypatch.setattr(proc, "usage", lambda pid: usage_of(CPU_SHARE))
    monkeypatch.setattr(Freeze, "put_into", lambda fault, pid: world.freeze(fault))
    return world


class Interrupting(io.StringIO):
    """A stderr that raises KeyboardInterrupt once it contains a text."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when: str | None = when

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.when is not None and self.when in self.getvalue():
            self.when = None
            signal.raise_signal(signal.SIGINT)
        return written
