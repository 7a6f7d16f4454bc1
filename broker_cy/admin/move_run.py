"""One run of a plan of moves, between brokers (admin.mover) or between directories (admin.directory_mover): a bounded
number of moves at a time, with a throttle and with progress.

Steps: set the throttle; keep as many moves under way as may be until all have ended; remove the throttle. If the caller
stops or fails, the run first cancels the moves under way, because without the throttle they would use the whole network
or disk. Moves that were not started are unchanged, and the same plan, computed again, continues from there.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

from broker_cy.admin.caller import Outcome
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import CopyRate, MoveProgress, finish
from broker_cy.admin.throttles import SetThrottle, ThrottleCalls
from broker_cy.client.errors import ClientError, Failure

CONCURRENT_DEFAULT: Final = 10
CONCURRENT_MAX: Final = 1_000
# The controller answers for thousands of moves, the brokers for the sizes of their replicas: not more often than this.
EVERY_S: Final = 1.0
# How often a move may be missing at the server, without having reached its goal, until it counts as cancelled: brokers
# learn of its end a little later.
MISSING_MAX: Final = 10
# After so many failed calls in a row, the run stops.
FAILURES_MAX: Final = 10

KeyT = TypeVar("KeyT", bound=Hashable)
MoveT = TypeVar("MoveT")


class Pace(TypedDict, total=False):
    """How fast a run goes: moves at a time, bytes per second that they copy (None: as fast as they can), and seconds
    between two looks at the cluster.
    """

    concurrent: int
    throttle_bytes_per_s: int | None
    every_s: float


class MoveRun(ABC, Generic[KeyT, MoveT]):
    """One run of a plan. `run` reports progress; afterwards `done`, `failed` and `untouched` say what happened, and
    `left_behind` which failures left a throttle, or a move, behind.
    """

    def __init__(self, throttles: ThrottleCalls, moves: Iterable[MoveT], **pace: Unpack[Pace]) -> None:
        """Raises ClientError for a number outside of its range."""
        concurrent = pace.get("concurrent", CONCURRENT_DEFAULT)
        throttle_bytes_per_s = pace.get("throttle_bytes_per_s")
        if not 1 <= concurrent <= CONCURRENT_MAX:
            raise ClientError(Failure.INVALID, f"{concurrent} moves at a time: 1 to {CONCURRENT_MAX} are allowed")
        if throttle_bytes_per_s is not None and throttle_bytes_per_s < 1:
            raise ClientError(Failure.INVALID, f"a throttle of {throttle_bytes_per_s} bytes/s: 1 or more is needed")
        self._throttles = throttles
        self._concurrent = concurrent
        self._throttle = throttle_bytes_per_s
        self._every_s = pace.get("every_s", EVERY_S)
        self.moves = tuple(moves)
        self.done: list[MoveT] = []
        self.failed: dict[KeyT, ClientError] = {}
        self.left_behind: list[ClientError] = []
        self._waiting = deque(self.moves)
        self._under_way: dict[KeyT, MoveT] = {}
        self._missing: Counter[KeyT] = Counter()
        self._copied: dict[KeyT, int] = {}
        self._total_bytes = sum(map(self._bytes_of, self.moves))
        self._rate = CopyRate()

    # --- one kind of moves

    @staticmethod
    @abstractmethod
    def _key_of(move: MoveT) -> KeyT: ...

    @staticmethod
    @abstractmethod
    def _partition_of(key: KeyT) -> TopicPartition: ...

    @staticmethod
    @abstractmethod
    def _bytes_of(move: MoveT) -> int:
        """The bytes that a move copies."""

    @abstractmethod
    async def _plan_throttle(self, bytes_per_s: int) -> SetThrottle:
        """The changes of settings that begin and end the throttle. Raises ClientError."""

    @abstractmethod
    def _next(self) -> list[MoveT]:
        """Take the moves that may start now from those that wait."""

    @abstractmethod
    async def _start(self, moves: list[MoveT]) -> Outcome[KeyT, Any]:
        """Start moves. Raises ClientError."""

    @abstractmethod
    async def _look(self) -> Mapping[KeyT, int]:
        """Find the moves that have ended (`_complete`, `_miss`); returns the bytes that others have copied. Raises
        ClientError.
        """

    @abstractmethod
    async def _cancel_under_way(self) -> None:
        """Cancel all moves under way. Raises ClientError."""

    # --- the run

    @property
    def untouched(self) -> tuple[MoveT, ...]:
        """The moves that were not started, or were cancelled."""
        ended = {self._key_of(move) for move in self.done} | self.failed.keys()
        return tuple(move for move in self.moves if self._key_of(move) not in ended)

    async def run(self, progress: Callable[[MoveProgress], None]) -> None:
        """Carry out all moves, and call `progress` after each look at the cluster. Raises ClientError if the cluster no
        longer answers; CancelledError if the task is cancelled, after the moves under way were cancelled.
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
            (await self._throttles.alter(plan.start)).whole()
            yield
        finally:
            await finish(self._end_throttle(plan), self.left_behind)

    async def _end_throttle(self, plan: SetThrottle) -> None:
        self.left_behind += (await self._throttles.alter(plan.end)).failed.values()

    @property
    def _is_over(self) -> bool:
        return not self._under_way and not self._waiting

    async def _move_all(self, progress: Callable[[MoveProgress], None]) -> None:
        self._note_rate()
        failures = 0
        while not self._is_over:
            try:
                await self._start_some()
                progress(self._progress())
                await asyncio.sleep(self._every_s)
                self._copied = dict(await self._look())
                self._note_rate()
                failures = 0
            except ClientError as error:
                failures += 1
                if failures >= FAILURES_MAX or not error.retriable:
                    raise
                await asyncio.sleep(self._every_s)
        progress(self._progress())

    async def _start_some(self) -> None:
        moves = self._next()
        if not moves:
            return
        # Under way from here on: an answer that is lost does not hide a move from the clean-up.
        self._under_way.update({self._key_of(move): move for move in moves})
        for key, error in (await self._start(moves)).failed.items():
            # Without an answer it may have started: the next look finds out.
            if error.failure is Failure.REFUSED:
                del self._under_way[key]
                self.failed[key] = error

    def _complete(self, key: KeyT) -> None:
        """A move has reached its goal."""
        self.done.append(self._under_way.pop(key))

    def _is_missed(self, key: KeyT) -> bool:
        """The server does not know a move, which has not reached its goal. Returns whether it counts as cancelled."""
        self._missing[key] += 1
        return self._missing[key] >= MISSING_MAX

    def _copied_bytes(self) -> int:
        return sum(map(self._bytes_of, self.done)) + sum(self._copied.values())

    def _note_rate(self) -> None:
        self._rate.note(asyncio.get_running_loop().time(), self._copied_bytes())

    def _progress(self) -> MoveProgress:
        return MoveProgress(
            len(self.moves),
            len(self.done),
            len(self.failed),
            tuple(map(self._partition_of, self._under_way)),
            self._copied_bytes(),
            self._total_bytes,
            self._rate.bytes_per_s,
        )
