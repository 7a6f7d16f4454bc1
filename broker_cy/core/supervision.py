"""Supervision of what must keep running: the child processes of a parent, and long-lived tasks.

`Supervisor` decides about child processes as a pure state machine: events in, actions out. Times are milliseconds of
any monotonic clock. Each child has a slot, which is always in one phase:

    WAITING    no process; one is started at `due_ms`
    STARTING   a process, which must greet within `Limits.start_ms` (an adopted one `adopted_ms`), and then prepares
    READY      it serves
    STOPPING   it was asked to end, and is killed `Limits.stop_ms` later
    GONE       no process, and none will be started: the parent stops

A child that ends is started again, after BACKOFF_MS_MIN; the pause doubles up to BACKOFF_MS_MAX each time until the
child was ready for STEADY_MS.

Invariants: a slot has at most one process; only the slot's own process is terminated or killed; no process is started
while the parent stops; the child `last` is asked to end when all others have ended; at most one child is replaced at a
time.

`keep_running` is for tasks: a defect must not end them for good, and not unnoticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final

from broker_cy.core.classes import NamedTuple, dataclass

# Short at first, because a heartbeat must not miss its session.
BACKOFF_MS_MIN: Final = 100
# So a child that cannot start costs one start per ten seconds, and runs soon after the cause is removed; a task that
# always fails takes neither the loop nor the log.
BACKOFF_MS_MAX: Final = 10_000
STEADY_MS: Final = 60_000
# The number of the signal that a parent stops a child with.
SIGTERM: Final = 15


class Phase(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    GONE = "gone"


# --- events


class Started(NamedTuple):
    """The process of a Spawn."""

    child: int
    pid: int


class SpawnFailed(NamedTuple):
    child: int


class Greeted(NamedTuple):
    """The process of a child answers: from now on, no limit applies to its start."""

    child: int
    pid: int


class Ready(NamedTuple):
    child: int
    pid: int


class Ended(NamedTuple):
    """A process has ended. `code` is its exit code, negative the signal, None if it is not known (adopted)."""

    child: int
    pid: int
    code: int | None


class StopAsked(NamedTuple):
    """A signal."""


class Clock(NamedTuple):
    """Time has passed."""


Event = Started | SpawnFailed | Greeted | Ready | Ended | StopAsked | Clock

# --- actions


class Spawn(NamedTuple):
    child: int


class Terminate(NamedTuple):
    child: int
    pid: int
    why: str


class Kill(NamedTuple):
    child: int
    pid: int
    why: str


class Restarting(NamedTuple):
    """For the log: a process has ended, and another one is started in `delay_ms`."""

    child: int
    pid: int
    code: int | None
    delay_ms: int


class AllReady(NamedTuple):
    """All children were ready for the first time."""


class Exit(NamedTuple):
    """The parent ends; no child runs."""

    code: int


Action = Spawn | Terminate | Kill | Restarting | AllReady | Exit


class Limits(NamedTuple):
    """`start_ms` and `adopted_ms`: until a process greets that the parent has started, or found. `stop_ms`: until a
    process that was asked to end is killed.
    """

    start_ms: int
    adopted_ms: int
    stop_ms: int


@dataclass(slots=True)
class Slot:
    phase: Phase = Phase.WAITING
    pid: int = 0  # 0 without a process
    adopted: bool = False
    greeted: bool = False
    due_ms: int = 0  # of the next start, greeting or kill; see the phase
    ready_ms: int = -1  # since when it serves; -1 if this process never did
    failures: int = 0  # ends without STEADY_MS in between
    pending: bool = False  # a Spawn is under way


def backoff_ms(failures: int) -> int:
    """Return the pause before what has failed so many times before is started again."""
    return min(BACKOFF_MS_MIN << min(failures, 16), BACKOFF_MS_MAX)


class Supervisor:
    """`begin`, then `take` with each event; `next_ms` is when a Clock is due."""

    def __init__(
        self,
        count: int,
        limits: Limits,
        *,
        last: int | None = None,
        must_start: bool = False,
        pause_ms: Callable[[int, int], int] | None = None,
        outdated: Callable[[int], str] = lambda _: "",
    ) -> None:
        """`last`: the child that the others need until they have ended. `must_start`: if a child ends by itself before
        all were ready once, and none was adopted, the parent stops and reports failure. `pause_ms` is instead of
        `backoff_ms`. `outdated` returns why a ready child is to be replaced; empty if it is not.
        """
        self.slots = [Slot() for _ in range(count)]
        self._limits = limits
        self._last = last
        self._must_start = must_start
        self._pause_ms = pause_ms or (lambda child, failures: backoff_ms(failures))
        self._outdated = outdated
        self._were_ready = False
        self._stopping = False
        self._failed = False
        self._exited = False

    def begin(self, running: dict[int, int], now_ms: int) -> list[Action]:
        """`running` are the processes to adopt, by child."""
        self._must_start = self._must_start and not running
        for child, pid in running.items():
            slot = self.slots[child]
            slot.phase, slot.pid, slot.adopted = Phase.STARTING, pid, True
            slot.due_ms = now_ms + self._limits.adopted_ms
        for slot in self.slots:
            if slot.phase is Phase.WAITING:
                slot.due_ms = now_ms
        return self.take(Clock(), now_ms)

    @property
    def is_ready(self) -> bool:
        """Whether all children serve."""
        return all(slot.phase is Phase.READY for slot in self.slots)

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def next_ms(self) -> int | None:
        """When a Clock is due, None if only other events can change anything."""
        due = [slot.due_ms for slot in self.slots if self._has_deadline(slot)]
        return min(due, default=None)

    def take(self, event: Event, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        self._happened(event, now_ms, actions)
        if self._stopping:
            self._stop(now_ms, actions)
        else:
            self._replace(now_ms, actions)
            if self.is_ready and not self._were_ready:
                self._were_ready = True
                actions.append(AllReady())
        self._deadlines(now_ms, actions)
        return actions

    # --- events

    def _happened(self, event: Event, now_ms: int, actions: list[Action]) -> None:
        match event:
            case Started(child, pid):
                self._started(self.slots[child], pid, now_ms)
            case SpawnFailed(child):
                self.slots[child].pending = False
                self._failed |= self._stopping
                self._ended(child, None, now_ms, actions)
            case Greeted(child, pid):
                if self.slots[child].pid == pid:
                    self.slots[child].greeted = True
            case Ready(child, pid):
                slot = self.slots[child]
                if slot.pid == pid and slot.phase is Phase.STARTING:
                    slot.phase, slot.ready_ms = Phase.READY, now_ms
            case Ended(child, pid, code):
                if self.slots[child].pid == pid:
                    self._ended(child, code, now_ms, actions)
            case StopAsked():
                self._stopping = True
            case Clock():
                pass

    def _started(self, slot: Slot, pid: int, now_ms: int) -> None:
        slot.pending = False
        slot.phase, slot.pid, slot.adopted, slot.greeted = Phase.STARTING, pid, False, False
        slot.due_ms, slot.ready_ms = now_ms + self._limits.start_ms, -1

    def _ended(self, child: int, code: int | None, now_ms: int, actions: list[Action]) -> None:
        slot = self.slots[child]
        pid, phase = slot.pid, slot.phase
        slot.pid = 0
        if self._stopping:
            slot.phase = Phase.GONE
            # A process that has not served yet has no handler for SIGTERM, and nothing to do in order.
            was_starting = code == -SIGTERM and slot.ready_ms < 0
            self._failed |= not (code == 0 or was_starting or code is None)
            return
        if self._must_start and not self._were_ready and code is not None and code >= 0:
            # It has printed the reason.
            slot.phase, self._stopping, self._failed = Phase.GONE, True, True
            return
        was_replaced = phase is Phase.STOPPING
        if was_replaced or (phase is Phase.READY and now_ms - slot.ready_ms >= STEADY_MS):
            slot.failures = 0
        delay_ms = 0 if was_replaced else self._pause_ms(child, slot.failures)
        if not was_replaced:
            slot.failures += 1
        slot.phase, slot.due_ms = Phase.WAITING, now_ms + delay_ms
        actions.append(Restarting(child, pid, code, delay_ms))

    # --- actions that follow from the state

    def _replace(self, now_ms: int, actions: list[Action]) -> None:
        """End one outdated child, if all others serve."""
        if not self.is_ready:
            return
        for child, slot in enumerate(self.slots):
            if why := self._outdated(child):
                slot.phase, slot.due_ms = Phase.STOPPING, now_ms + self._limits.stop_ms
                actions.append(Terminate(child, slot.pid, why))
                return

    def _stop(self, now_ms: int, actions: list[Action]) -> None:
        for child, slot in enumerate(self.slots):
            if slot.phase is Phase.WAITING and not slot.pending:
                slot.phase = Phase.GONE
            elif slot.phase in (Phase.STARTING, Phase.READY) and self._may_stop(child):
                slot.phase, slot.due_ms = Phase.STOPPING, now_ms + self._limits.stop_ms
                actions.append(Terminate(child, slot.pid, "its parent stops"))
        if not self._exited and all(slot.phase is Phase.GONE for slot in self.slots):
            self._exited = True
            actions.append(Exit(1 if self._failed else 0))

    def _may_stop(self, child: int) -> bool:
        others = (slot for each, slot in enumerate(self.slots) if each != child)
        return child != self._last or all(slot.phase is Phase.GONE for slot in others)

    @staticmethod
    def _has_deadline(slot: Slot) -> bool:
        return (
            (slot.phase is Phase.WAITING and not slot.pending)
            or (slot.phase is Phase.STARTING and not slot.greeted)
            or slot.phase is Phase.STOPPING
        )

    def _deadlines(self, now_ms: int, actions: list[Action]) -> None:
        for child, slot in enumerate(self.slots):
            if not self._has_deadline(slot) or slot.due_ms > now_ms:
                continue
            if slot.phase is Phase.WAITING:
                slot.pending = True
                actions.append(Spawn(child))
                continue
            why = "it did not stop in time" if slot.phase is Phase.STOPPING else "it does not answer the parent"
            actions.append(Kill(child, slot.pid, why))
            # Its end is reported; if not, it is killed again.
            slot.due_ms = now_ms + self._limits.stop_ms


def keep_running(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]], name: str
) -> asyncio.Task[None]:
    """Run `work()` as a task until it returns, or until the task is cancelled. Any other exception is a defect: the
    loop's exception handler gets it (by default it logs the traceback), and `work()` is called again after a while.

    `name` is that of the task, and names the failed work in the log. The work itself must handle expected errors.
    """
    return loop.create_task(_run(loop, work, name), name=name)


async def _run(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    failures = 0
    while True:
        began_s = loop.time()
        try:
            await work()
            return
        except Exception as error:
            if loop.time() - began_s >= STEADY_MS / 1000:
                failures = 0
            again_s = backoff_ms(failures) / 1000
            loop.call_exception_handler(
                {"message": f"{name} failed, and begins again in {again_s:g} s", "exception": error}
            )
        await asyncio.sleep(again_s)
        failures += 1
