"""Moves the replicas of a plan between brokers, as reassignments of partitions (KIP-455), by the steps of a MoveRun."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Unpack

from broker_cy.admin.caller import Outcome
from broker_cy.admin.cluster import ClusterCalls
from broker_cy.admin.log_dirs import LogDirCalls
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.admin.move_run import MoveRun, Pace
from broker_cy.admin.placement import Move
from broker_cy.admin.reassignments import ReassignmentCalls
from broker_cy.admin.throttles import SetThrottle, ThrottleCalls
from broker_cy.admin.topics import TopicCalls
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass

# After so many misses of a move, no other one is started. A complete move is missing as well, until brokers know it.
MISSING_SUSPECT: Final = 2


@dataclass(frozen=True, slots=True)
class MoverParts:
    """The calls that a run makes."""

    cluster: ClusterCalls
    reassignments: ReassignmentCalls
    topics: TopicCalls
    log_dirs: LogDirCalls
    throttles: ThrottleCalls


class Mover(MoveRun[TopicPartition, Move]):
    """A run of moves between brokers. If another client cancels a move, no further move is started and `run` raises
    ClientError, because that client removes the throttle as well.
    """

    def __init__(self, parts: MoverParts, moves: Iterable[Move], **pace: Unpack[Pace]) -> None:
        """Raises ClientError for a number outside of its range."""
        super().__init__(parts.throttles, moves, **pace)
        self._parts = parts
        # The moves that another client has cancelled.
        self._cancelled: list[TopicPartition] = []

    @staticmethod
    def _key_of(move: Move) -> TopicPartition:
        return move.partition

    @staticmethod
    def _partition_of(key: TopicPartition) -> TopicPartition:
        return key

    @staticmethod
    def _bytes_of(move: Move) -> int:
        return move.copied_bytes

    async def _plan_throttle(self, bytes_per_s: int) -> SetThrottle:
        concerned = {each for move in self.moves if move.added for each in (*move.before, *move.added)}
        described = await self._parts.cluster.describe()
        # A broker that is away neither copies nor sends, and its settings cannot be changed.
        alive = sorted(concerned & {each.broker_id for each in described.brokers if not each.is_fenced})
        now = await self._throttles.describe(alive, sorted({move.partition.topic for move in self.moves}))
        return self._throttles.plan(self.moves, alive, bytes_per_s, now)

    async def _cancel_under_way(self) -> None:
        cancelled = dict(self._under_way)
        outcome = await self._parts.reassignments.alter(dict.fromkeys(cancelled))
        self._under_way.clear()
        # Kafka leaves the old replicas in another order, with another preferred leader.
        ordered = await self._parts.reassignments.alter({key: cancelled[key].before for key in outcome.found})
        self.left_behind += ordered.failed.values()
        for key, error in outcome.failed.items():
            # It was complete before the cancellation arrived, as the plan wanted.
            if error.code is not None and error.code.name == "NO_REASSIGNMENT_IN_PROGRESS":
                self.done.append(cancelled[key])
            else:
                self.left_behind.append(error)

    @property
    def _is_over(self) -> bool:
        return not self._under_way and bool(self._cancelled or not self._waiting)

    async def _move_all(self, progress: Callable[[MoveProgress], None]) -> None:
        await super()._move_all(progress)
        if self._waiting:
            raise ClientError(
                Failure.REFUSED,
                f"another client cancelled the reassignment of {self._cancelled[0]}, which ends the plan; "
                "run it again to continue",
            )

    def _next(self) -> list[Move]:
        if self._cancelled or any(self._missing[key] >= MISSING_SUSPECT for key in self._under_way):
            return []
        count = min(self._concurrent - len(self._under_way), len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    async def _start(self, moves: list[Move]) -> Outcome[TopicPartition, Any]:
        changes = any(len(move.before) != len(move.after) for move in moves)
        wanted = {move.partition: move.after for move in moves}
        return await self._parts.reassignments.alter(wanted, may_change_factor=changes)

    async def _look(self) -> Mapping[TopicPartition, int]:
        listed = {each.partition for each in await self._parts.reassignments.list_all()}
        ended = [key for key in self._under_way if key not in listed]
        if ended:
            outcome = await self._parts.topics.describe(sorted({key.topic for key in ended}))
            now = {
                TopicPartition(name, part.partition): part.replicas
                for name, topic in outcome.found.items()
                for part in topic.partitions
            }
            for key in ended:
                self._end(key, now.get(key), outcome.failed.get(key.topic))
        return await self._measure()

    def _end(self, key: TopicPartition, replicas: tuple[int, ...] | None, error: ClientError | None) -> None:
        move = self._under_way[key]
        if replicas == move.after:
            self._complete(key)
            return
        if not self._is_missed(key) and (error is None or error.retriable):
            return
        del self._under_way[key]
        if replicas is not None and set(replicas) == set(move.before):
            self._cancelled.append(key)
        shown = ",".join(map(str, replicas or ())) or "none"
        self.failed[key] = error or ClientError(
            Failure.REFUSED,
            f"another client cancelled or replaced the reassignment; the replicas are {shown}",
            what=f"partition {key}",
        )

    async def _measure(self) -> dict[TopicPartition, int]:
        copying = {key: move for key, move in self._under_way.items() if move.added and move.size_bytes}
        sizes: dict[TopicPartition, int] = {}
        if copying:
            brokers = sorted({each for move in copying.values() for each in move.added})
            topics = sorted({key.topic for key in copying})
            dirs = await self._parts.log_dirs.describe(brokers, topics=topics)
            for broker, directories in dirs.found.items():
                for directory in directories:
                    for replica in directory.replicas:
                        key = TopicPartition(replica.topic, replica.partition)
                        if key in copying and broker in copying[key].added:
                            sizes[key] = sizes.get(key, 0) + min(replica.size_bytes, copying[key].size_bytes)
        return sizes


class MoverCalls:
    """`client.mover`: makes runs of plans."""

    def __init__(self, parts: MoverParts) -> None:
        self._parts = parts

    def of(self, moves: Iterable[Move], **pace: Unpack[Pace]) -> Mover:
        """A run of these moves, which starts with `run`. Raises ClientError for a number outside of its range."""
        return Mover(self._parts, moves, **pace)
