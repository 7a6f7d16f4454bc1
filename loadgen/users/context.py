"""The shared state of one process's users in one run: figures, ledger, pacers, engines, and the rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gevent
from gevent.event import Event

from loadgen.engines.base import Engine, Work
from loadgen.engines.registry import engine_of
from loadgen.figures.book import Book
from loadgen.pace.pacer import Pacer
from loadgen.pace.timer import NS
from loadgen.scenario.model import Scenario, UserSpec
from loadgen.scenario.profile import RateProfile
from loadgen.scenario.share import Share, shares
from loadgen.verify.ledger import Ledger

# Kinds whose records an engine sends.
PRODUCING = ("producer", "hot-key")
# The name of their figures.
PRODUCE = "Produce"
# The delay after `begin` arrived, so that all workers have it before the first operation is due.
LEAD_S = 0.2
LOOK_S = 0.01
# The extra time for users that still wait for answers after the timeout.
ENDING_S = 1.0


@dataclass(frozen=True)
class Plan:
    """A worker's part of a run, as the conductor gives it."""

    scenario: Scenario
    bootstrap: tuple[tuple[str, int], ...]
    partitions: int
    run: int
    worker: int
    workers: int


@dataclass
class Shared:
    """State that the users of one scenario entry share."""

    spec: UserSpec
    pacer: Pacer
    work: Work
    engine: Engine | None
    users: int = 0  # that have joined


class Lobby:
    """Where the users of a process find the context of the current run: `environment.broker_load`."""

    def __init__(self) -> None:
        self._context: Context | None = None
        self._opened = Event()

    def open(self, context: Context) -> None:
        """Let users in."""
        self._context = context
        self._opened.set()

    def shut(self) -> None:
        """Let users wait for the next run."""
        self._context = None
        self._opened.clear()

    def context(self) -> Context:
        """Wait for the context of the run."""
        while self._context is None:
            self._opened.wait()
        return self._context


@dataclass
class _Round:
    number: int = 0
    start_ns: int = 0
    begun: Event = field(default_factory=Event)


class Context:
    """One process of one run."""

    def __init__(self, plan: Plan) -> None:
        """Prepare the engines; raises EngineError."""
        self.plan = plan
        scenario = plan.scenario
        self.book = Book()
        self.ledger = Ledger() if scenario.verify != "off" else None
        self.ready = 0
        self.problem: str | None = None
        self._active = 0
        self._round = _Round()
        self._shared: dict[str, Shared] = {}
        try:
            counts = [spec.count for spec in scenario.users]
            for spec, share in zip(scenario.users, shares(counts, plan.worker, plan.workers), strict=True):
                self._shared[spec.name] = self._share(spec, share)
        except BaseException:
            self.close()
            raise

    def _share(self, spec: UserSpec, share: Share) -> Shared:
        plan = self.plan
        pacer = Pacer(share)
        self.book.follow(spec.name, pacer)
        work = Work(
            plan.bootstrap,
            plan.scenario,
            spec,
            plan.partitions,
            plan.run,
            plan.worker,
            share,
            pacer,
            self.book.meter(PRODUCE),
            self.book,
            self.ledger,
        )
        engine = None
        if spec.kind in PRODUCING:
            engine = engine_of(work)
            engine.prepare()
        return Shared(spec, pacer, work, engine)

    def join(self, name: str) -> tuple[Shared, int]:
        """Return the shared state of an entry's users, and the number of a new user in this process."""
        shared = self._shared[name]
        number = shared.users
        shared.users += 1
        return shared, number

    def joined(self, problem: str | None) -> None:
        """Note that a user is ready, or why it never will be."""
        if problem is None:
            self.ready += 1
        else:
            self.problem = self.problem or problem

    def begin(self, rates: dict[str, RateProfile], warm_up_s: float, seconds: float) -> int:
        """Begin a round: users perform operations for `warm_up_s` and then for `seconds`; returns the time at which
        the warm-up ends. `rates` replace those of the scenario.
        """
        first_ns = time.monotonic_ns() + int(LEAD_S * NS)
        start_ns = first_ns + int(warm_up_s * NS)
        self.book.measure_from(start_ns if warm_up_s else 0)
        for name, shared in self._shared.items():
            profile = rates.get(name, shared.spec.rate)
            led = None if profile is None else profile.led_by(warm_up_s)
            shared.pacer.begin(led, first_ns, start_ns + int(seconds * NS))
        if self._round.number == 0:
            # The figures do not include the connecting of users.
            self.book.take(-1)
        ended, self._round = self._round, _Round(self._round.number + 1, first_ns)
        ended.begun.set()
        return start_ns

    def await_round(self, number: int) -> int:
        """Wait until the round after `number` begins; returns its number."""
        while self._round.number <= number:
            self._round.begun.wait()
        gevent.sleep(max(0.0, (self._round.start_ns - time.monotonic_ns()) / NS))
        return self._round.number

    @contextmanager
    def active(self) -> Iterator[None]:
        """Mark a user as busy with a round."""
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def finish(self, timeout_s: float, *, now: bool) -> bool:
        """Wait for the end of the round, or end it `now`: users still perform the operations that are due, and complete
        those in progress. Returns whether all did within the timeout.
        """
        end_ns = 0
        for shared in self._shared.values():
            if now:
                shared.pacer.cut(time.monotonic_ns())
            end_ns = max(end_ns, shared.pacer.end_ns)
        gevent.sleep(max(0.0, (end_ns - time.monotonic_ns()) / NS))
        until_s = time.monotonic() + timeout_s
        while self._active and time.monotonic() < until_s:
            gevent.sleep(LOOK_S)
        for shared in self._shared.values():
            shared.pacer.end()
        # Users that only end with their pacer note the outcomes of their records.
        until_ended_s = time.monotonic() + ENDING_S
        while self._active and time.monotonic() < until_ended_s:
            gevent.sleep(LOOK_S)
        for shared in self._shared.values():
            if shared.engine is not None:
                shared.engine.settle(max(0.0, until_s - time.monotonic()))
        return self._active == 0

    def close(self) -> None:
        """Close engines and timers."""
        for shared in self._shared.values():
            shared.pacer.close()
            if shared.engine is not None:
                shared.engine.close()

    def ledger_state(self) -> list[Any]:
        """Return the outcome of each record as plain data."""
        return [] if self.ledger is None else self.ledger.state()
