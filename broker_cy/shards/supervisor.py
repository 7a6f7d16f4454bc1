"""A parent's supervision of its shards, as a pure state machine: events in, actions out. Times are milliseconds of any
monotonic clock.

Each shard has a slot, which is always in one phase:

    WAITING    no process; one is started at `due_ms`
    STARTING   a process, which must send HELLO within HELLO_MS (an adopted one ADOPTED_HELLO_MS), and then loads
    READY      it serves clients
    STOPPING   it was asked to end, and is killed STOP_MS later
    GONE       no process, and none will be started: the parent stops

A shard that ends is started again, after BACKOFF_MS_MIN; the pause doubles up to BACKOFF_MS_MAX each time until the
shard was ready for STEADY_MS. The first start differs: if a shard ends by itself before all were ready once, and none
was adopted, its settings or files are at fault, so the parent stops, too, and reports failure.

Invariants: a slot has at most one process; only the slot's own process is terminated or killed, except a second one
that reports to be this shard (terminated); no process is started while the parent stops; the shard with the controller
is asked to end when all others have ended, because they need it to hand over their leadership.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

BACKOFF_MS_MIN: Final = 100
# So a shard that cannot start costs one start per ten seconds, and runs soon after the cause is removed.
BACKOFF_MS_MAX: Final = 10_000
STEADY_MS: Final = 60_000
# The limit for a new process: an interpreter starts in less than a second, and even on a loaded machine in much less
# than this.
HELLO_MS: Final = 60_000
# The limit for a process that already runs and tries to connect each second.
ADOPTED_HELLO_MS: Final = 10_000
# An orderly stop takes up to 10 s for the controller and a few for the files.
STOP_MS: Final = 45_000
# The number of the signal that a parent stops a shard with.
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

    shard: int
    pid: int


class SpawnFailed(NamedTuple):
    shard: int


class Hello(NamedTuple):
    """A process has connected as this shard. `is_current`: it runs with the settings of this parent."""

    shard: int
    pid: int
    is_current: bool


class Ready(NamedTuple):
    shard: int
    pid: int


class Ended(NamedTuple):
    """A process has ended. `code` is its exit code, negative the signal, None if it is not known (adopted); `epoch` its
    broker epoch, -1 if it had none.
    """

    shard: int
    pid: int
    code: int | None
    epoch: int


class Still(NamedTuple):
    """A process stands still (stillness)."""

    shard: int
    pid: int
    why: str


class StopAsked(NamedTuple):
    """A signal."""


class Clock(NamedTuple):
    """Time has passed."""


Event = Started | SpawnFailed | Hello | Ready | Ended | Still | StopAsked | Clock

# --- actions


class Spawn(NamedTuple):
    shard: int


class Terminate(NamedTuple):
    shard: int
    pid: int
    why: str


class Kill(NamedTuple):
    shard: int
    pid: int
    why: str


class Restarting(NamedTuple):
    """For the log: a process has ended, and another one is started in `delay_ms`."""

    shard: int
    pid: int
    code: int | None
    delay_ms: int


class TellEnded(NamedTuple):
    """Tell all other shards that this incarnation of a shard has ended."""

    shard: int
    epoch: int


class AllReady(NamedTuple):
    """All shards were ready for the first time."""


class Exit(NamedTuple):
    """The parent ends; no shard runs."""

    code: int


Action = Spawn | Terminate | Kill | Restarting | TellEnded | AllReady | Exit


@dataclass(slots=True)
class Slot:
    phase: Phase = Phase.WAITING
    pid: int = 0  # 0 without a process
    adopted: bool = False
    greeted: bool = False
    current: bool = True
    due_ms: int = 0  # of the next start, hello or kill; see the phase
    ready_ms: int = -1  # since when it serves; -1 if this process never did
    failures: int = 0  # ends without STEADY_MS in between
    pending: bool = False  # a Spawn is under way


class Supervisor:
    """`begin`, then `take` with each event; `next_ms` is when a Clock is due."""

    def __init__(self, count: int, *, has_controller: bool) -> None:
        self.slots = [Slot() for _ in range(count)]
        self._last = 0 if has_controller else -1  # the shard that stops last
        self._were_ready = False
        self._stopping = False
        self._failed = False
        self._exited = False
        self._has_adopted = False

    def begin(self, running: dict[int, int], now_ms: int) -> list[Action]:
        """`running` are the processes to adopt, by shard."""
        self._has_adopted = bool(running)
        for shard, pid in running.items():
            slot = self.slots[shard]
            slot.phase, slot.pid, slot.adopted = Phase.STARTING, pid, True
            slot.due_ms = now_ms + ADOPTED_HELLO_MS
        for slot in self.slots:
            if slot.phase is Phase.WAITING:
                slot.due_ms = now_ms
        return self.take(Clock(), now_ms)

    @property
    def is_ready(self) -> bool:
        """Whether all shards serve clients."""
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
        match event:
            case Started(shard, pid):
                self._started(self.slots[shard], shard, pid, now_ms, actions)
            case SpawnFailed(shard):
                slot = self.slots[shard]
                slot.pending = False
                self._ended(slot, shard, None, now_ms, actions)
            case Hello(shard, pid, is_current):
                self._hello(self.slots[shard], shard, pid, is_current, actions)
            case Ready(shard, pid):
                slot = self.slots[shard]
                if slot.pid == pid and slot.phase is Phase.STARTING:
                    slot.phase, slot.ready_ms = Phase.READY, now_ms
            case Ended(shard, pid, code, epoch):
                slot = self.slots[shard]
                if slot.pid == pid:
                    if epoch >= 0 and not self._stopping:
                        actions.append(TellEnded(shard, epoch))
                    self._ended(slot, shard, code, now_ms, actions)
            case Still(shard, pid, why):
                if self.slots[shard].pid == pid:
                    actions.append(Kill(shard, pid, why))
            case StopAsked():
                self._stopping = True
            case Clock():
                pass
        if self._stopping:
            self._stop(now_ms, actions)
        else:
            self._roll(now_ms, actions)
            if self.is_ready and not self._were_ready:
                self._were_ready = True
                actions.append(AllReady())
        self._deadlines(now_ms, actions)
        return actions

    # --- events

    def _started(self, slot: Slot, shard: int, pid: int, now_ms: int, actions: list[Action]) -> None:
        slot.pending = False
        slot.phase, slot.pid, slot.adopted, slot.greeted, slot.current = Phase.STARTING, pid, False, False, True
        slot.due_ms, slot.ready_ms = now_ms + HELLO_MS, -1

    def _hello(self, slot: Slot, shard: int, pid: int, is_current: bool, actions: list[Action]) -> None:
        if slot.pid != pid:
            actions.append(Terminate(shard, pid, "another process is this shard"))
            return
        slot.greeted, slot.current = True, is_current

    def _ended(self, slot: Slot, shard: int, code: int | None, now_ms: int, actions: list[Action]) -> None:
        pid, phase = slot.pid, slot.phase
        slot.pid = 0
        if self._stopping:
            slot.phase = Phase.GONE
            # A process that has not served yet has no handler for SIGTERM, and nothing to do in order.
            was_starting = code == -SIGTERM and slot.ready_ms < 0
            self._failed |= not (code == 0 or was_starting or (code is None and slot.adopted))
            return
        if not self._were_ready and not self._has_adopted and code is not None and code >= 0:
            # It has printed the reason.
            slot.phase, self._stopping, self._failed = Phase.GONE, True, True
            return
        was_replaced = phase is Phase.STOPPING
        if was_replaced or (phase is Phase.READY and now_ms - slot.ready_ms >= STEADY_MS):
            slot.failures = 0
        delay_ms = 0 if was_replaced else self._backoff_ms(slot.failures)
        if not was_replaced:
            slot.failures += 1
        slot.phase, slot.due_ms = Phase.WAITING, now_ms + delay_ms
        actions.append(Restarting(shard, pid, code, delay_ms))

    @staticmethod
    def _backoff_ms(failures: int) -> int:
        return min(BACKOFF_MS_MIN << min(failures, 16), BACKOFF_MS_MAX)

    # --- actions that follow from the state

    def _roll(self, now_ms: int, actions: list[Action]) -> None:
        """End one shard that was adopted and runs with other settings, if all others serve. One that this parent has
        started would not run with the parent's settings after another start either: the file was changed since.
        """
        if not self.is_ready:
            return
        for shard, slot in enumerate(self.slots):
            if slot.adopted and not slot.current:
                slot.phase, slot.due_ms = Phase.STOPPING, now_ms + STOP_MS
                actions.append(Terminate(shard, slot.pid, "it runs with other settings"))
                return

    def _stop(self, now_ms: int, actions: list[Action]) -> None:
        for shard, slot in enumerate(self.slots):
            if slot.phase is Phase.WAITING and not slot.pending:
                slot.phase = Phase.GONE
            elif slot.phase in (Phase.STARTING, Phase.READY) and self._may_stop(shard):
                slot.phase, slot.due_ms = Phase.STOPPING, now_ms + STOP_MS
                actions.append(Terminate(shard, slot.pid, "the node stops"))
        if not self._exited and all(slot.phase is Phase.GONE for slot in self.slots):
            self._exited = True
            actions.append(Exit(1 if self._failed else 0))

    def _may_stop(self, shard: int) -> bool:
        others = (slot for each, slot in enumerate(self.slots) if each != shard)
        return shard != self._last or all(slot.phase is Phase.GONE for slot in others)

    @staticmethod
    def _has_deadline(slot: Slot) -> bool:
        return (
            (slot.phase is Phase.WAITING and not slot.pending)
            or (slot.phase is Phase.STARTING and not slot.greeted)
            or slot.phase is Phase.STOPPING
        )

    def _deadlines(self, now_ms: int, actions: list[Action]) -> None:
        for shard, slot in enumerate(self.slots):
            if not self._has_deadline(slot) or slot.due_ms > now_ms:
                continue
            if slot.phase is Phase.WAITING:
                slot.pending = True
                actions.append(Spawn(shard))
                continue
            actions.append(
                Kill(
                    shard,
                    slot.pid,
                    "it did not stop in time" if slot.phase is Phase.STOPPING else "it does not answer the parent",
                )
            )
            # Its end is reported; if not, it is killed again.
            slot.due_ms = now_ms + STOP_MS
