"""Moves the replicas of a plan: a bounded number of partitions at a time, with a throttle and with progress. The
throttle is removed when the plan ends. If the plan ends early, the partitions not yet moved are unchanged.

Steps: set the throttle; keep `concurrent` moves under way until all are done; remove the throttle. If the caller stops
or fails, the mover first cancels the moves under way: without the throttle they would use the whole network. If another
client cancels a move, no further move is started, because that client removes the throttle as well.
The same plan, computed again, continues from there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from broker_cy.admin.cluster import ClusterCalls
from broker_cy.admin.log_dirs import LogDirCalls
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import CopyRate, MoveProgress, finish
from broker_cy.admin.placement import Move
from broker_cy.admin.reassignments import ReassignmentCalls
from broker_cy.admin.throttles import SetThrottle, ThrottleCalls
from broker_cy.admin.topics import TopicCalls
from broker_cy.client.errors import ClientError, Failure

CONCURRENT_DEFAULT: Final = 10
CONCURRENT_MAX: Final = 1_000
# The controller answers for thousands of moves, the brokers for the sizes of their replicas: not more often than this.
EVERY_S: Final = 1.0
# How often a move may be missing at the controller, while brokers still report the old replicas, until it counts as
# cancelled: brokers learn of its end a little later.
MISSING_MAX: Final = 10
# After so many misses of a move, no other one is started. A complete move is missing as well, until brokers know it.
MISSING_SUSPECT: Final = 2
# After so many failed calls in a row, the mover stops.
FAILURES_MAX: Final = 10


@dataclass(slots=True)
class _State:
    """The state of each move."""

    waiting: deque[Move]
    under_way: dict[TopicPartition, Move] = field(default_factory=dict)
    done: list[Move] = field(default_factory=list)
    failed: dict[TopicPartition, ClientError] = field(default_factory=dict)
    missing: dict[TopicPartition, int] = field(default_factory=dict)
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    rate: CopyRate = field(default_factory=CopyRate)
    cancelled: list[TopicPartition] = field(default_factory=list)
    """The moves that another client has cancelled."""

    @property
    def may_start(self) -> bool:
        """Whether no other client seems to have cancelled a move."""
        suspects = (self.missing.get(key, 0) >= MISSING_SUSPECT for key in self.under_way)
        return not self.cancelled and not any(suspects)


@dataclass(frozen=True, slots=True)
class MoverParts:
    """The calls that a run makes."""

    cluster: ClusterCalls
    reassignments: ReassignmentCalls
    topics: TopicCalls
    log_dirs: LogDirCalls
    throttles: ThrottleCalls


def check_pace(concurrent: int, throttle_bytes_per_s: int | None) -> None:
    """Raises ClientError for a number outside of its range."""
    if not 1 <= concurrent <= CONCURRENT_MAX:
        raise ClientError(Failure.INVALID, f"{concurrent} moves at a time: 1 to {CONCURRENT_MAX} are allowed")
    if throttle_bytes_per_s is not None and throttle_bytes_per_s < 1:
        raise ClientError(Failure.INVALID, f"a throttle of {throttle_bytes_per_s} bytes/s: 1 or more is needed")


class Mover:
    """One run of a plan. `run` yields progress; afterwards `done`, `failed` and `untouched` say what happened."""

    def __init__(
        self,
        parts: MoverParts,
        moves: Iterable[Move],
        *,
        concurrent: int = CONCURRENT_DEFAULT,
        throttle_bytes_per_s: int | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        """Raises ClientError for a number outside of its range."""
        check_pace(concurrent, throttle_bytes_per_s)
        self._parts = parts
        self._concurrent = concurrent
        self._throttle = throttle_bytes_per_s
        self._every_s = every_s
        self.moves = tuple(moves)
        self._state = _State(deque(self.moves))
        self._total_bytes = sum(move.copied_bytes for move in self.moves)
        # Failures that left a throttle, or a move, behind.
        self.left_behind: list[ClientError] = []

    @property
    def done(self) -> tuple[Move, ...]:
        return tuple(self._state.done)

    @property
    def failed(self) -> dict[TopicPartition, ClientError]:
        return dict(self._state.failed)

    @property
    def untouched(self) -> tuple[Move, ...]:
        """The moves that were not started, or were cancelled."""
        ended = {move.partition for move in self._state.done} | set(self._state.failed)
        return tuple(move for move in self.moves if move.partition not in ended)

    async def run(self, progress: Callable[[MoveProgress], None]) -> None:
        """Carry out all moves, and call `progress` after each check of the cluster. Raises ClientError if the cluster
        no longer answers, or if another client cancelled a move, which ends the plan. Raises CancelledError if the task
        is cancelled, after the moves under way were cancelled.
        """
        async with self._throttled():
            try:
                await self._move_all(progress)
            except BaseException:
                await finish(self._cancel_under_way(), self.left_behind)
                raise

    @asynccontextmanager
    async def _throttled(self) -> AsyncIterator[None]:
        if self._throttle is None or not self._total_bytes:
            yield
            return
        plan = await self._plan_throttle(self._throttle)
        try:
            (await self._parts.throttles.alter(plan.start)).whole()
            yield
        finally:
            await finish(self._end_throttle(plan), self.left_behind)

    async def _plan_throttle(self, bytes_per_s: int) -> SetThrottle:
        concerned = {each for move in self.moves if move.added for each in (*move.before, *move.added)}
        described = await self._parts.cluster.describe()
        # A broker that is away neither copies nor sends, and its settings cannot be changed.
        alive = sorted(concerned & {each.broker_id for each in described.brokers if not each.is_fenced})
        now = await self._parts.throttles.describe(alive, sorted({move.partition.topic for move in self.moves}))
        return self._parts.throttles.plan(self.moves, alive, bytes_per_s, now)

    async def _end_throttle(self, plan: SetThrottle) -> None:
        outcome = await self._parts.throttles.alter(plan.end)
        self.left_behind += outcome.failed.values()

    async def _cancel_under_way(self) -> None:
        cancelled = dict(self._state.under_way)
        outcome = await self._parts.reassignments.alter(dict.fromkeys(cancelled))
        self._state.under_way.clear()
        # Kafka leaves the old replicas in another order, with another preferred leader.
        ordered = await self._parts.reassignments.alter({key: cancelled[key].before for key in outcome.found})
        self.left_behind += ordered.failed.values()
        for key, error in outcome.failed.items():
            # It was complete before the cancellation arrived, as the plan wanted.
            if error.code is not None and error.code.name == "NO_REASSIGNMENT_IN_PROGRESS":
                self._state.done += [move for move in self.moves if move.partition == key]
            else:
                self.left_behind.append(error)

    async def _move_all(self, progress: Callable[[MoveProgress], None]) -> None:
        self._state.rate.note(asyncio.get_running_loop().time(), 0)
        failures = 0
        while self._state.under_way or (self._state.waiting and not self._state.cancelled):
            try:
                await self._start_some()
                progress(self._progress())
                await asyncio.sleep(self._every_s)
                await self._look()
                failures = 0
            except ClientError as error:
                failures += 1
                if failures >= FAILURES_MAX or not error.retriable:
                    raise
                await asyncio.sleep(self._every_s)
        progress(self._progress())
        if self._state.waiting:
            key = self._state.cancelled[0]
            raise ClientError(
                Failure.REFUSED,
                f"another client cancelled the reassignment of {key}, which ends the plan; run it again to continue",
            )

    async def _start_some(self) -> None:
        state = self._state
        batch: list[Move] = []
        while state.waiting and state.may_start and len(state.under_way) + len(batch) < self._concurrent:
            batch.append(state.waiting.popleft())
        if not batch:
            return
        # Under way from here on: an answer that is lost does not hide a move from the clean-up.
        state.under_way.update({move.partition: move for move in batch})
        changes = any(len(move.before) != len(move.after) for move in batch)
        outcome = await self._parts.reassignments.alter(
            {move.partition: move.after for move in batch}, may_change_factor=changes
        )
        for key, error in outcome.failed.items():
            # Without an answer it may have started: the next look finds out.
            if error.failure is Failure.REFUSED:
                del state.under_way[key]
                state.failed[key] = error

    async def _look(self) -> None:
        """Find the complete moves, and the bytes that the others have copied."""
        state = self._state
        listed = {each.partition for each in await self._parts.reassignments.list_all()}
        ended = [key for key in state.under_way if key not in listed]
        if ended:
            outcome = await self._parts.topics.describe(sorted({key.topic for key in ended}))
            now = {
                TopicPartition(name, part.partition): part.replicas
                for name, topic in outcome.found.items()
                for part in topic.partitions
            }
            for key in ended:
                self._end(key, now.get(key), outcome.failed.get(key.topic))
        await self._measure()

    def _end(self, key: TopicPartition, replicas: tuple[int, ...] | None, error: ClientError | None) -> None:
        state = self._state
        move = state.under_way[key]
        if replicas == move.after:
            del state.under_way[key]
            state.done.append(move)
            return
        state.missing[key] = state.missing.get(key, 0) + 1
        if state.missing[key] < MISSING_MAX and (error is None or error.retriable):
            return
        del state.under_way[key]
        if replicas is not None and set(replicas) == set(move.before):
            state.cancelled.append(key)
        shown = ",".join(map(str, replicas or ())) or "none"
        state.failed[key] = error or ClientError(
            Failure.REFUSED,
            f"another client cancelled or replaced the reassignment; the replicas are {shown}",
            what=f"partition {key}",
        )

    async def _measure(self) -> None:
        state = self._state
        copying = {key: move for key, move in state.under_way.items() if move.added and move.size_bytes}
        brokers = sorted({each for move in copying.values() for each in move.added})
        sizes: dict[TopicPartition, int] = {}
        if copying:
            topics = sorted({key.topic for key in copying})
            dirs = await self._parts.log_dirs.describe(brokers, topics=topics)
            for broker, directories in dirs.found.items():
                for directory in directories:
                    for replica in directory.replicas:
                        key = TopicPartition(replica.topic, replica.partition)
                        if key in copying and broker in copying[key].added:
                            sizes[key] = sizes.get(key, 0) + min(replica.size_bytes, copying[key].size_bytes)
        state.copied = sizes
        state.rate.note(asyncio.get_running_loop().time(), self._copied_bytes())

    def _copied_bytes(self) -> int:
        return sum(move.copied_bytes for move in self._state.done) + sum(self._state.copied.values())

    def _progress(self) -> MoveProgress:
        state = self._state
        return MoveProgress(
            len(self.moves),
            len(state.done),
            len(state.failed),
            tuple(state.under_way),
            self._copied_bytes(),
            self._total_bytes,
            state.rate.bytes_per_s,
        )


class MoverCalls:
    """`client.mover`: makes runs of plans."""

    def __init__(self, parts: MoverParts) -> None:
        self._parts = parts

    def of(
        self,
        moves: Iterable[Move],
        *,
        concurrent: int = CONCURRENT_DEFAULT,
        throttle_bytes_per_s: int | None = None,
        every_s: float = EVERY_S,
    ) -> Mover:
        """A run of these moves, which starts with `run`. Raises ClientError for a number outside of its range."""
        return Mover(
            self._parts, moves, concurrent=concurrent, throttle_bytes_per_s=throttle_bytes_per_s, every_s=every_s
        )
