"""A parent's supervision of its shards, as a pure state machine: events in, actions out. Times are milliseconds of any
monotonic clock. `core.supervision` starts, watches, restarts and stops them. This module adds what only shards have:

- the shard with the controller is asked to end when all others have ended, because they need it to hand over their
  leadership;
- the first start must succeed: if a shard ends by itself, its settings or files are at fault, so the parent stops, too;
- a shard that stands still is killed; a second process that reports to be a shard is terminated;
- all other shards learn of the end of an incarnation of a shard;
- a shard that another parent has started, with other settings, is replaced.
"""

from __future__ import annotations

from typing import Final

from broker_cy.core import supervision
from broker_cy.core.classes import NamedTuple
from broker_cy.core.supervision import Clock, Greeted, Kill, Limits, Slot, Terminate

# The limit for a new process: an interpreter starts in less than a second, and even on a loaded machine in much less
# than this.
HELLO_MS: Final = 60_000
# The limit for a process that already runs and tries to connect each second.
ADOPTED_HELLO_MS: Final = 10_000
# An orderly stop takes up to 10 s for the controller and a few for the files.
STOP_MS: Final = 45_000


class Hello(NamedTuple):
    """A process has connected as this shard. `is_current`: it runs with the settings of this parent."""

    shard: int
    pid: int
    is_current: bool


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


Event = (
    supervision.Started
    | supervision.SpawnFailed
    | supervision.Ready
    | supervision.StopAsked
    | supervision.Clock
    | Hello
    | Ended
    | Still
)


class TellEnded(NamedTuple):
    """Tell all other shards that this incarnation of a shard has ended."""

    shard: int
    epoch: int


Action = supervision.Action | TellEnded


class ShardSupervisor:
    """`begin`, then `take` with each event; `next_ms` is when a Clock is due."""

    def __init__(self, count: int, *, has_controller: bool) -> None:
        self._supervisor = supervision.Supervisor(
            count,
            Limits(HELLO_MS, ADOPTED_HELLO_MS, STOP_MS),
            last=0 if has_controller else None,
            must_start=True,
            outdated=self._outdated,
        )
        # The processes that run with other settings, by shard.
        self._outdated_pids: dict[int, int] = {}

    def begin(self, running: dict[int, int], now_ms: int) -> list[Action]:
        """`running` are the processes to adopt, by shard."""
        return [*self._supervisor.begin(running, now_ms)]

    @property
    def slots(self) -> list[Slot]:
        return self._supervisor.slots

    @property
    def is_ready(self) -> bool:
        """Whether all shards serve clients."""
        return self._supervisor.is_ready

    @property
    def is_stopping(self) -> bool:
        return self._supervisor.is_stopping

    def next_ms(self) -> int | None:
        """When a Clock is due, None if only other events can change anything."""
        return self._supervisor.next_ms()

    def take(self, event: Event, now_ms: int) -> list[Action]:
        first: list[Action] = []
        match event:
            case Hello(shard, pid, is_current):
                first = self._hello(shard, pid, is_current)
                found: supervision.Event = Greeted(shard, pid)
            case Still(shard, pid, why):
                if self.slots[shard].pid == pid:
                    first.append(Kill(shard, pid, why))
                found = Clock()
            case Ended(shard, pid, code, epoch):
                if self.slots[shard].pid == pid and epoch >= 0 and not self.is_stopping:
                    first.append(TellEnded(shard, epoch))
                found = supervision.Ended(shard, pid, code)
            case _:
                found = event
        return [*first, *self._supervisor.take(found, now_ms)]

    def _hello(self, shard: int, pid: int, is_current: bool) -> list[Action]:
        if self.slots[shard].pid != pid:
            return [Terminate(shard, pid, "another process is this shard")]
        self._outdated_pids[shard] = 0 if is_current else pid
        return []

    def _outdated(self, shard: int) -> str:
        """Return why a shard is to be replaced. One that this parent has started would not run with the parent's
        settings after another start either: the file was changed since.
        """
        slot = self.slots[shard]
        other = slot.adopted and slot.pid == self._outdated_pids.get(shard)
        return "it runs with other settings" if other else ""
