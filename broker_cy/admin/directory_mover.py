"""Moves replicas between the directories of brokers: a bounded number at a time on each broker, with a throttle and
progress (KIP-113).

The brokers copy by themselves; a run only starts moves, and looks how far they are. Its steps are those of admin.mover,
and so is its end: if the caller stops or fails, the moves under way are cancelled and the throttle is removed, and the
same plan, computed again, continues. If the process dies, the moves that it started go on, and the next plan sees them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from broker_cy.admin.directory_plan import DirectoryMove
from broker_cy.admin.log_dirs import BrokerReplica, LogDir, LogDirCalls
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import CopyRate, MoveProgress, finish
from broker_cy.admin.mover import CONCURRENT_DEFAULT, EVERY_S, FAILURES_MAX, MISSING_MAX, check_pace
from broker_cy.admin.throttles import SetThrottle, ThrottleCalls
from broker_cy.client.errors import ClientError, Failure


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


class DirectoryMover:
    """One run of a plan. `run` reports progress; afterwards `done`, `failed` and `untouched` say what happened."""

    def __init__(
        self,
        log_dirs: LogDirCalls,
        throttles: ThrottleCalls,
        moves: Iterable[DirectoryMove],
        *,
        concurrent: int = CONCURRENT_DEFAULT,
        throttle_bytes_per_s: int | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        """`concurrent` is a number for each broker. Raises ClientError for a number outside of its range."""
        check_pace(concurrent, throttle_bytes_per_s)
        self._log_dirs = log_dirs
        self._throttles = throttles
        self._concurrent = concurrent
        self._throttle = throttle_bytes_per_s
        self._every_s = every_s
        self.moves = tuple(moves)
        self.done: list[DirectoryMove] = []
        self.failed: dict[BrokerReplica, ClientError] = {}
        # Failures that left a throttle, or a move, behind.
        self.left_behind: list[ClientError] = []
        self._waiting = deque(self.moves)
        self._under_way: dict[BrokerReplica, DirectoryMove] = {}
        self._missing: Counter[BrokerReplica] = Counter()
        self._copied: dict[BrokerReplica, int] = {}
        self._rate = CopyRate()

    @property
    def untouched(self) -> tuple[DirectoryMove, ...]:
        """The moves that were not started, or were cancelled."""
        ended = {move.replica for move in self.done} | self.failed.keys()
        return tuple(move for move in self.moves if move.replica not in ended)

    async def run(self, progress: Callable[[MoveProgress], None]) -> None:
        """Carry out all moves, and call `progress` after each look at the brokers. Raises ClientError if they no longer
        answer; CancelledError if the task is cancelled, after the moves under way were cancelled.
        """
        async with self._throttled():
            try:
                await self._move_all(progress)
            except BaseException:
                await finish(self._cancel_under_way(), self.left_behind)
                raise

    @asynccontextmanager
    async def _throttled(self) -> AsyncIterator[None]:
        if self._throttle is None or not self.moves:
            yield
            return
        brokers = sorted({move.replica.broker_id for move in self.moves})
        now = await self._throttles.directory_rates(brokers)
        plan = self._throttles.plan_directories(brokers, self._throttle, now)
        try:
            (await self._throttles.alter(plan.start)).whole()
            yield
        finally:
            await finish(self._end_throttle(plan), self.left_behind)

    async def _end_throttle(self, plan: SetThrottle) -> None:
        self.left_behind += (await self._throttles.alter(plan.end)).failed.values()

    async def _cancel_under_way(self) -> None:
        outcome = await self._log_dirs.alter({key: move.source for key, move in self._under_way.items()})
        self.left_behind += outcome.failed.values()
        self._under_way.clear()

    async def _move_all(self, progress: Callable[[MoveProgress], None]) -> None:
        self._rate.note(asyncio.get_running_loop().time(), 0)
        failures = 0
        while self._under_way or self._waiting:
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

    async def _start_some(self) -> None:
        busy = Counter(key.broker_id for key in self._under_way)
        batch: list[DirectoryMove] = []
        kept: deque[DirectoryMove] = deque()
        while self._waiting:
            move = self._waiting.popleft()
            if busy[move.replica.broker_id] < self._concurrent:
                busy[move.replica.broker_id] += 1
                batch.append(move)
            else:
                kept.append(move)
        self._waiting = kept
        if not batch:
            return
        # Under way from here on: an answer that is lost does not hide a move from the clean-up.
        self._under_way.update({move.replica: move for move in batch})
        outcome = await self._log_dirs.alter({move.replica: move.target for move in batch})
        for key, error in outcome.failed.items():
            # Without an answer it may have started: the next look finds out.
            if error.failure is Failure.REFUSED:
                del self._under_way[key]
                self.failed[key] = error

    async def _look(self) -> None:
        """Find the complete moves, and the bytes that the others have copied."""
        brokers = sorted({key.broker_id for key in self._under_way})
        topics = sorted({key.partition.topic for key in self._under_way})
        if not brokers:
            return
        outcome = await self._log_dirs.describe(brokers, topics=topics)
        for error in outcome.failed.values():
            if len(outcome.failed) == len(brokers):
                raise error
        copied: dict[BrokerReplica, int] = {}
        seen = seen_in(each for directories in outcome.found.values() for each in directories)
        for key, move in list(self._under_way.items()):
            if key.broker_id not in outcome.found:
                continue
            now = seen.get(key, Seen())
            if now.path == move.target and now.future_path is None:
                del self._under_way[key]
                self.done.append(move)
            elif now.future_path == move.target:
                self._missing[key] = 0
                copied[key] = min(now.future_bytes, move.size_bytes)
            else:
                self._miss(move, now)
        self._copied = copied
        self._rate.note(asyncio.get_running_loop().time(), self._copied_bytes())

    def _miss(self, move: DirectoryMove, now: Seen) -> None:
        """The broker does not copy the replica: another client cancelled that, or its directory failed."""
        key = move.replica
        self._missing[key] += 1
        if self._missing[key] < MISSING_MAX:
            return
        del self._under_way[key]
        where = f"it is in {now.path}" if now.path is not None else "its directory is offline, or it is gone"
        self.failed[key] = ClientError(
            Failure.REFUSED, f"the broker no longer moves it to {move.target}; {where}", what=str(key)
        )

    def _copied_bytes(self) -> int:
        return sum(move.size_bytes for move in self.done) + sum(self._copied.values())

    def _progress(self) -> MoveProgress:
        return MoveProgress(
            len(self.moves),
            len(self.done),
            len(self.failed),
            tuple(key.partition for key in self._under_way),
            self._copied_bytes(),
            sum(move.size_bytes for move in self.moves),
            self._rate.bytes_per_s,
        )


class DirectoryMoverCalls:
    """`client.directory_mover`: makes runs of plans."""

    def __init__(self, log_dirs: LogDirCalls, throttles: ThrottleCalls) -> None:
        self._log_dirs = log_dirs
        self._throttles = throttles

    def of(
        self,
        moves: Iterable[DirectoryMove],
        *,
        concurrent: int = CONCURRENT_DEFAULT,
        throttle_bytes_per_s: int | None = None,
        every_s: float = EVERY_S,
    ) -> DirectoryMover:
        """A run of these moves, which starts with `run`. Raises ClientError for a number outside of its range."""
        return DirectoryMover(
            self._log_dirs,
            self._throttles,
            moves,
            concurrent=concurrent,
            throttle_bytes_per_s=throttle_bytes_per_s,
            every_s=every_s,
        )
