"""The write side: any number of instances write the topic, and each has read all before it writes.

    take the right      see `rights`: no earlier writer appends after that
    read to the end     the state is then that of all earlier writers
    plan                operations that wait, as long as they do not meet
    append, commit      all together; fails if another instance has taken the right in the meantime
    own read            the answers are given when the reader has applied the records

An instance that keeps the right is up to date without reading to the end again: no other instance can have written. One
that loses it plans its operations again. After a commit without an answer, the reader tells its outcome when the right
has been taken again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from broker_cy.admin import ClientError
from broker_cy.admin.topic_log import TopicLog
from broker_cy.client.errors import Failure
from broker_cy.client.transaction import WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness
from broker_cy.wire.records import Record
from broker_registry.checker import Checker
from broker_registry.errors import Code, RegistryError
from broker_registry.operations.plan import Claims, Ids, Operation, Plan
from broker_registry.rights import Right
from broker_registry.store.applied import Applied

T = TypeVar("T")

PLANS_MAX: Final = 200
"""Operations of one transaction."""
BATCH_BYTES_MAX: Final = 700_000
"""Records of one transaction, unless one operation has more: a batch may have about 1 MB."""
WAITING_MAX: Final = 10_000
"""Operations that wait for the writer."""
# Two instances that write at the same time wait for a random part of this before they take the right back.
_BACK_OFF_S: Final = (0.005, 0.05)
_REFUSALS: Final = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class _Waiting(NamedTuple):
    operation: Operation[Any]
    answer: asyncio.Future[Any]


class _Planned(NamedTuple):
    answer: asyncio.Future[Any]
    plan: Plan[Any]


@dataclass(slots=True)
class _Open:
    """A transaction whose outcome is not known: the offset of its first record."""

    offset: int
    planned: Sequence[_Planned]


class Writer:
    """See the module. `start` it in a running loop, and close it there."""

    def __init__(
        self,
        right: Right,
        log: TopicLog,
        applied: Applied,
        checker: Checker,
        *,
        timeout_s: float,
        randomness: Randomness = MACHINE_RANDOMNESS,
    ) -> None:
        """An operation has `timeout_s` from its call to its answer."""
        self._right, self._log, self._applied, self._checker = right, log, applied, checker
        self._timeout_s = timeout_s
        self._randomness = randomness
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(WAITING_MAX)
        self._is_held = False
        self._open: _Open | None = None
        self._task: asyncio.Task[None] | None = None
        # How often this instance has taken the right.
        self.takeovers = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self, operation: Operation[T]) -> T:
        """Return the answer of an operation, after its records can be read by all instances. Raises RegistryError: with
        TIMED_OUT the operation may have been carried out. Raises NotLeader if another instance has to carry it out.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                plan = await self._plan_at_end(operation)
                if not plan.records:
                    return plan.reply
                self._right.check()
                answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
                try:
                    self._waiting.put_nowait(_Waiting(operation, answer))
                except asyncio.QueueFull:
                    raise RegistryError(Code.TIMED_OUT, f"{WAITING_MAX:,} changes are waiting") from None
                return await answer
        except TimeoutError:
            text = f"Register operation timed out: no answer within {self._timeout_s:g} s"
            raise RegistryError(Code.TIMED_OUT, text) from None
        except ClientError as error:
            raise store_error(error) from None

    async def _plan_at_end(self, operation: Operation[T]) -> Plan[T]:
        """Return a plan, of the state as it is if it changes nothing; a refusal is that of the newest state."""
        try:
            return await self._checker.plan(operation, self._applied.state, Ids(self._applied.state))
        except RegistryError:
            self._right.check()
            if not self._is_held:
                await self._log.read_to_end()
            return await self._checker.plan(operation, self._applied.state, Ids(self._applied.state))

    # ------------------------------------------------------------------------------------------------ the loop

    async def _work(self) -> None:
        while True:
            waiting = [await self._waiting.get()]
            while len(waiting) < PLANS_MAX and not self._waiting.empty():
                waiting.append(self._waiting.get_nowait())
            try:
                await self._carry_out(waiting)
            except Exception as error:
                for each in waiting:
                    if not each.answer.done():
                        each.answer.set_exception(error)

    async def _carry_out(self, waiting: list[_Waiting]) -> None:
        """Answer all of them; those that are given up by their callers are dropped."""
        while waiting := [each for each in waiting if not each.answer.done()]:
            try:
                await self._hold()
                waiting = await self._carry_out_together(waiting)
            except (ClientError, WrongState) as error:
                self._is_held = False
                if isinstance(error, ClientError) and _is_lasting(error):
                    for each in waiting:
                        if not each.answer.done():
                            each.answer.set_exception(store_error(error))
                    return
                await asyncio.sleep(self._randomness.between(*_BACK_OFF_S))

    async def _hold(self) -> None:
        """Take the right to write, unless this instance has it, and read what others wrote."""
        if self._is_held:
            return
        await self._right.take()
        await self._log.read_to_end()
        before, self._open = self._open, None
        if before is not None and self._applied.has(before.offset):
            _answer(before.planned)
        self._is_held = True
        self.takeovers += 1

    async def _carry_out_together(self, waiting: Sequence[_Waiting]) -> list[_Waiting]:
        """Carry out those that may share a transaction; returns the others."""
        state = self._applied.state
        ids, claims = Ids(state), Claims()
        planned: list[_Planned] = []
        later: list[_Waiting] = []
        size_bytes = 0
        for each in waiting:
            if each.answer.done():
                continue
            trial = ids.copy()
            try:
                plan = await self._checker.plan(each.operation, state, trial)
            except Exception as error:
                if not each.answer.done():
                    each.answer.set_exception(error)
                continue
            if not plan.records:
                if not each.answer.done():
                    each.answer.set_result(plan.reply)
                continue
            more_bytes = sum(len(key) + len(value or b"") for key, value in plan.records)
            if (planned and size_bytes + more_bytes > BATCH_BYTES_MAX) or not claims.take(plan):
                later.append(each)
                continue
            ids, size_bytes = trial, size_bytes + more_bytes
            planned.append(_Planned(each.answer, plan))
        if planned:
            await self._commit(planned)
        return later

    async def _commit(self, planned: Sequence[_Planned]) -> None:
        now_ms = time.time_ns() // 1_000_000
        records = [
            Record(timestamp=now_ms, key=key, value=value) for each in planned for key, value in each.plan.records
        ]
        try:
            appended = await self._right.append(records)
        except ClientError as error:
            if error.code not in _TOO_LARGE:
                raise
            await self._right.abort()
            await self._split(planned)
            return
        assert appended.base_offset is not None
        self._open = _Open(appended.base_offset, planned)
        await self._right.commit()
        await self._log.read_to(appended.base_offset + len(records))
        self._open = None
        _answer(planned)

    async def _split(self, planned: Sequence[_Planned]) -> None:
        """Commit the plans of a batch that was too large one by one; refuse one that is too large itself."""
        if len(planned) > 1:
            for each in planned:
                await self._commit([each])
            return
        text = "Register operation failed because schema is too large"
        if not planned[0].answer.done():
            planned[0].answer.set_exception(RegistryError(Code.SCHEMA_TOO_LARGE, text))


def store_error(error: ClientError) -> RegistryError:
    """Return the answer to a client when the cluster refused or did not answer."""
    code = Code.TIMED_OUT if error.failure in (Failure.TIMED_OUT, Failure.UNREACHABLE) else Code.STORE
    return RegistryError(code, f"the topic of the schemas: {error}")


def _answer(planned: Sequence[_Planned]) -> None:
    for each in planned:
        if not each.answer.done():
            each.answer.set_result(each.plan.reply)


def _is_lasting(error: ClientError) -> bool:
    return error.failure in (Failure.MALFORMED, Failure.INVALID, Failure.UNSUPPORTED) or error.code in _REFUSALS
