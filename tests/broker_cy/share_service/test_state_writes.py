"""The writes of one share partition: their order, and what shares a write."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import uvloop

from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.share import acknowledging
from broker_cy.share.sessions import TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey
from broker_cy.share_service.state_writes import StateWrites
from tests.broker_cy.share.partitions import acquire, partition

KEY = ShareKey("g", TopicPartition(UUID(int=1), 0))


class Persister:
    """Keeps each write until `answer`."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, list[tuple[int, int, int, int]]]] = []
        self.futures: list[asyncio.Future[Outcome]] = []

    def write(self, key: object, _state: int, _leader: int, start: int, _count: int, batches: Any) -> Any:
        self.sent.append((start, [tuple(batch) for batch in batches]))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.futures.pop(0).set_result(Outcome(code, "why" if code else None))
        await asyncio.sleep(0)


async def written(share: SharePartition, persister: Persister) -> tuple[StateWrites, list[Any]]:
    """Acknowledge offsets 0, 1 and 2 of ten, in three requests; returns the errors of those that have ended."""
    ended: list[Any] = []
    writes = StateWrites(KEY, cast(Any, persister), lambda key, share, error, wakes: ended.append(("wakes", wakes)))
    for offset in range(3):
        write = acknowledging.acknowledge(share, "a", [(offset, offset, b"\1")], 5)
        assert write is not None
        writes.add(share, write, ended.append)
    return writes, ended


def test_writes_that_wait_share_the_next_one() -> None:
    """If this fails, each acknowledgement of a busy partition waits for all before it, or overtakes one of them."""

    async def work() -> None:
        share, persister = partition(), Persister()
        acquire(share, (0, 9))
        writes, ended = await written(share, persister)
        assert persister.sent == [(0, [(0, 0, 1, 2)])]
        await persister.answer()
        assert persister.sent[1:] == [(0, [(1, 1, 1, 2), (2, 2, 1, 2)])]
        assert ended == [("wakes", True), None]
        assert not writes.is_idle
        waiting = asyncio.create_task(writes.drained())
        await persister.answer()
        await asyncio.wait_for(waiting, 10)
        assert (share.start_offset, ended[2:]) == (3, [("wakes", True), ("wakes", True), None, None])

    uvloop.run(work())


def test_a_failed_write_fails_all_that_share_it() -> None:
    """If this fails, a member takes a record for settled that is delivered again."""

    async def work() -> None:
        share, persister = partition(), Persister()
        acquire(share, (0, 9))
        _, ended = await written(share, persister)
        await persister.answer()
        await persister.answer(ErrorCode.FENCED_STATE_EPOCH)
        errors = [each for each in ended if isinstance(each, KafkaError)]
        assert [(error.code, error.message) for error in errors] == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, "why")] * 2
        assert share.start_offset == 1

    uvloop.run(work())


def test_two_states_of_a_record_are_written_one_after_the_other() -> None:
    """If this fails, the share coordinator gets two states of one record at once, and may keep the older one."""

    async def work() -> None:
        share, persister = partition(), Persister()
        acquire(share, (0, 0))
        writes = StateWrites(KEY, cast(Any, persister), lambda *_: None)
        write = acknowledging.acknowledge(share, "a", [(0, 0, b"\2")], 5)
        assert write is not None
        for _ in range(3):
            writes.add(share, write)
        assert len(persister.sent) == 1
        await persister.answer()
        assert [batches for _, batches in persister.sent] == [[(0, 0, 1, 0)]] * 2

    uvloop.run(work())


def test_those_that_wait_for_the_writes_may_be_cancelled() -> None:
    """If this fails, the broker fails when a write ends after the request that waited for it was cancelled."""

    async def work() -> None:
        share, persister = partition(), Persister()
        acquire(share, (0, 9))
        writes, _ = await written(share, persister)
        waits = [asyncio.ensure_future(writes.drained()) for _ in range(2)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await persister.answer()
        await persister.answer()
        await waits[1]
        assert waits[0].cancelled()

    uvloop.run(work())
