"""The figures of one process: the meters of its users, and the cost of generating the load."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from bench.measuring.histogram import Histogram
from loadgen.figures.meter import Meter
from loadgen.pace.pacer import Pacer

# Different operations of a run, each with its own line in the report.
METERS_MAX = 200


class Book:
    """All meters of a process. `take` is called once a second; its answer is plain data for the conductor."""

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}
        self._pacers: list[tuple[str, Pacer]] = []
        self.hub_lag = Histogram()
        self._cpu_s = time.process_time()
        self._at_s = time.monotonic()
        # Events of the interval that are not operations: rebalances of members, kills, ...
        self._counts: dict[str, int] = {}
        self._start_ns = 0

    def measure_from(self, start_ns: int) -> None:
        """Leave out operations that were due before this time, the end of the warm-up, and end later. 0: no warm-up."""
        self._start_ns = start_ns
        for each in self._meters.values():
            each.start_ns = start_ns

    def meter(self, name: str) -> Meter:
        """Return the meter of this name. Raises ValueError beyond METERS_MAX."""
        found = self._meters.get(name)
        if found is None:
            if len(self._meters) >= METERS_MAX:
                raise ValueError(f"more than {METERS_MAX} kinds of operations in one run: {name!r}")
            found = self._meters[name] = Meter(name, self._start_ns)
        return found

    def follow(self, name: str, pacer: Pacer) -> None:
        """Report the lateness of the pacer of the scenario's entry `name`, and operations that it did not hand out."""
        self._pacers.append((name, pacer))

    def count(self, name: str, number: int = 1) -> None:
        """Count an event that is not an operation."""
        self._counts[name] = self._counts.get(name, 0) + number

    @property
    def meters(self) -> Iterable[Meter]:
        return self._meters.values()

    def take(self, second: int) -> dict[str, Any]:
        """Return the interval that began at `second` of the run, and begin the next one."""
        lateness = Histogram()
        queued = 0
        unsent: dict[str, int] = {}
        for name, pacer in self._pacers:
            lateness.merge(pacer.lateness)
            queued += pacer.queued
            if pacer.unsent:
                unsent[name] = unsent.get(name, 0) + pacer.unsent
            pacer.lateness, pacer.queued, pacer.unsent = Histogram(), 0, 0
        now_s, cpu_s = time.monotonic(), time.process_time()
        interval = {
            "second": second,
            "seconds": now_s - self._at_s,
            "cpu_s": cpu_s - self._cpu_s,
            "operations": {name: state for name, each in self._meters.items() if (state := each.take())},
            "lateness": lateness.state(),
            "queued": queued,
            "unsent": unsent,
            "hub_lag": self.hub_lag.state(),
            "counts": self._counts,
        }
        self._at_s, self._cpu_s, self.hub_lag, self._counts = now_s, cpu_s, Histogram(), {}
        return interval
