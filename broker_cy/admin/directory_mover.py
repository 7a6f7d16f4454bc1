"""Moves replicas between the directories of brokers (KIP-113), by the steps of a MoveRun.

The brokers copy by themselves; a run only starts moves, and looks how far they are. If the process dies, the moves that
it started go on, and the next plan sees them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from broker_cy.admin.caller import Outcome
from broker_cy.admin.directory_plan import DirectoryMove
from broker_cy.admin.log_dirs import BrokerReplica, LogDir, LogDirCalls
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_run import MoveRun, Pace
from broker_cy.admin.throttles import SetThrottle, ThrottleCalls
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """A replica in the answers of its broker: the directory that it is in, and the one that it moves to, with the bytes
    of that copy and the offsets that it lacks. `path` is None if its directory is offline, or it is gone.
    """

    path: str | None = None
    future_path: str | None = None
    future_bytes: int = 0
    offset_lag: int = 0
    size_bytes: int = 0


def seen_in(directories: Iterable[LogDir]) -> dict[BrokerReplica, Seen]:
    """The replicas in these directories."""
    found: dict[BrokerReplica, Seen] = {}
    for directory in directories:
        for each in directory.replicas:
            key = BrokerReplica(directory.broker_id, TopicPartition(each.topic, each.partition))
            now = found.get(key, Seen())
            if each.is_future:
                found[key] = Seen(now.path, directory.path, each.size_bytes, each.offset_lag, now.size_bytes)
            else:
                found[key] = Seen(
                    directory.path, now.future_path, now.future_bytes, now.offset_lag, each.size_bytes
                )  # fmt: skip
    return found


class DirectoryMover(MoveRun[BrokerReplica, DirectoryMove]):
    """A run of moves between directories. `concurrent` is a number for each broker."""

    def __init__(
        self, log_dirs: LogDirCalls, throttles: ThrottleCalls, moves: Iterable[DirectoryMove], **pace: Unpack[Pace]
    ) -> None:
        """Raises ClientError for a number outside of its range."""
        super().__init__(throttles, moves, **pace)
        self._log_dirs = log_dirs

    @staticmethod
    def _key_of(move: DirectoryMove) -> BrokerReplica:
        return move.replica

    @staticmethod
    def _partition_of(key: BrokerReplica) -> TopicPartition:
        return key.partition

    @staticmethod
    def _bytes_of(move: DirectoryMove) -> int:
        return move.size_bytes

    async def _plan_throttle(self, bytes_per_s: int) -> SetThrottle:
        brokers = sorted({move.replica.broker_id for move in self.moves})
        now = await self._throttles.directory_rates(brokers)
        return self._throttles.plan_directories(brokers, bytes_per_s, now)

    async def _cancel_under_way(self) -> None:
        outcome = await self._log_dirs.alter({key: move.source for key, move in self._under_way.items()})
        self.left_behind += outcome.failed.values()
        self._under_way.clear()

    def _next(self) -> list[DirectoryMove]:
        busy = Counter(key.broker_id for key in self._under_way)
        found: list[DirectoryMove] = []
        kept: deque[DirectoryMove] = deque()
        for move in self._waiting:
            is_free = busy[move.replica.broker_id] < self._concurrent
            busy[move.replica.broker_id] += is_free
            (found if is_free else kept).append(move)
        self._waiting = kept
        return found

    async def _start(self, moves: list[DirectoryMove]) -> Outcome[BrokerReplica, Any]:
        return await self._log_dirs.alter({move.replica: move.target for move in moves})

    async def _look(self) -> Mapping[BrokerReplica, int]:
        brokers = sorted({key.broker_id for key in self._under_way})
        copied: dict[BrokerReplica, int] = {}
        if not brokers:
            return copied
        topics = sorted({key.partition.topic for key in self._under_way})
        outcome = await self._log_dirs.describe(brokers, topics=topics)
        for error in outcome.failed.values():
            if len(outcome.failed) == len(brokers):
                raise error
        seen = seen_in(each for directories in outcome.found.values() for each in directories)
        for key, move in list(self._under_way.items()):
            if key.broker_id not in outcome.found:
                continue
            now = seen.get(key, Seen())
            if now.path == move.target and now.future_path is None:
                self._complete(key)
            elif now.future_path == move.target:
                self._missing[key] = 0
                copied[key] = min(now.future_bytes, move.size_bytes)
            elif self._is_missed(key):
                self._end(move, now)
        return copied

    def _end(self, move: DirectoryMove, now: Seen) -> None:
        """The broker does not copy the replica: another client cancelled that, or its directory failed."""
        del self._under_way[move.replica]
        where = f"it is in {now.path}" if now.path is not None else "its directory is offline, or it is gone"
        self.failed[move.replica] = ClientError(
            Failure.REFUSED, f"the broker no longer moves it to {move.target}; {where}", what=str(move.replica)
        )


class DirectoryMoverCalls:
    """`client.directory_mover`: makes runs of plans."""

    def __init__(self, log_dirs: LogDirCalls, throttles: ThrottleCalls) -> None:
        self._log_dirs = log_dirs
        self._throttles = throttles

    def of(self, moves: Iterable[DirectoryMove], **pace: Unpack[Pace]) -> DirectoryMover:
        """A run of these moves, which starts with `run`. Raises ClientError for a number outside of its range."""
        return DirectoryMover(self._log_dirs, self._throttles, moves, **pace)
