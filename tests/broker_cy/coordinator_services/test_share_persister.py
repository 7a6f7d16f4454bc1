"""The client of the share coordinator: requests to this broker and to others, what shares a request, and retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
import uvloop

from broker_cy.coordinator.share_state.answers import Outcome, StateRead, SummaryRead
from broker_cy.coordinator.share_state.state import SharePartitionKey, StateBatch
from broker_cy.coordinator_services import share_persister
from broker_cy.coordinator_services.share_persister import ATTEMPTS, SharePersister
from broker_cy.core.errors import ErrorCode
from broker_cy.core.randomness import Randomness
from broker_cy.wire import messages as m
from tests.broker_cy.coordinator_services.other_brokers import FakeLinks
from tests.broker_cy.coordinator_services.test_share_state_service import ShareBroker, until

TOPIC_ID = UUID(int=7)
OTHER = 2
DENIED = "not today"


def key(partition: int, group_id: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group_id, TOPIC_ID, partition)


class ElsewhereService:
    """A service whose share partitions are all coordinated by the broker OTHER."""

    async def ensure_topic(self) -> ErrorCode:
        return ErrorCode.NONE

    def other_coordinator(self, text: str) -> int | None:
        return OTHER


class Rig:
    """A persister, and the broker OTHER, which answers each write with the next of `codes`, then with NONE."""

    def __init__(self) -> None:
        self.links = FakeLinks()
        self.links.brokers[OTHER] = self.answer
        self.codes: list[ErrorCode] = []
        self.persister = SharePersister(
            asyncio.get_running_loop(),
            cast(Any, ElsewhereService()),
            cast(Any, self.links),
            Randomness(random.Random(1)),
        )

    def write(self, of: SharePartitionKey) -> asyncio.Future[Outcome]:
        return self.persister.write(of, 1, 2, 3, 4, [StateBatch(5, 6, 1, 2)])

    async def answer(self, request: m.WriteShareGroupStateRequest) -> Any:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        response = m.WriteShareGroupStateResponse
        return response(
            results=[
                response.WriteStateResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        response.PartitionResult(
                            partition=each.partition, error_code=code, error_message=DENIED if code else None
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    @property
    def sent(self) -> list[tuple[str, list[int]]]:
        """The group and the partitions of each request."""
        return [
            (request.group_id, [each.partition for topic in request.topics for each in topic.partitions])
            for _, request in self.links.sent
        ]


def with_rig(work: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        rig = Rig()
        try:
            await work(rig)
        finally:
            await rig.persister.close()

    uvloop.run(run())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_persister, "PAUSE_S", 0.0)


def test_a_write_reaches_another_broker() -> None:
    """If this fails, acknowledgements are lost if the coordinator is another broker."""

    async def work(rig: Rig) -> None:
        assert await rig.write(key(3)) == Outcome()
        ((broker_id, request),) = rig.links.sent
        (topic,) = request.topics
        (partition,) = topic.partitions
        assert (broker_id, request.group_id, topic.topic_id) == (OTHER, "g", TOPIC_ID)
        assert (partition.partition, partition.state_epoch, partition.leader_epoch) == (3, 1, 2)
        assert (partition.start_offset, partition.delivery_complete_count) == (3, 4)
        (batch,) = partition.state_batches
        assert (batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state) == (5, 6, 1, 2)

    with_rig(work)


def test_waiting_requests_share_the_next_one() -> None:
    """If this fails, each acknowledgement costs a request between brokers. A request has one group, as in Kafka."""

    async def work(rig: Rig) -> None:
        rig.links.hold = asyncio.Event()
        first = rig.write(key(0))
        await until(lambda: len(rig.sent) == 1)
        waiting = [rig.write(key(1)), rig.write(key(2)), rig.write(key(0)), rig.write(key(0)), rig.write(key(1, "h"))]
        await asyncio.sleep(0.01)
        assert rig.sent == [("g", [0])], "two requests of a kind are under way to one broker"
        rig.links.hold.set()
        assert await asyncio.gather(first, *waiting) == [Outcome()] * 6
        assert rig.sent == [("g", [0]), ("g", [1, 2, 0]), ("h", [1]), ("g", [0])]

    with_rig(work)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_coordinator_that_is_not_ready_is_asked_again(code: ErrorCode) -> None:
    """If this fails, a failover of the coordinator fails the acknowledgements of share consumers."""

    async def work(rig: Rig) -> None:
        rig.codes = [code] * (ATTEMPTS - 1)
        assert await rig.write(key(0)) == Outcome()
        assert len(rig.sent) == ATTEMPTS
        rig.codes = [code] * ATTEMPTS
        failed = await rig.write(key(0))
        assert failed == Outcome(code, "Exhausted max retries to complete write state RPC without success.")

    with_rig(work)


def test_a_refusal_is_final() -> None:
    """If this fails, a fenced leader repeats its write instead of giving up."""

    async def work(rig: Rig) -> None:
        rig.codes = [ErrorCode.FENCED_LEADER_EPOCH]
        assert await rig.write(key(0)) == Outcome(ErrorCode.FENCED_LEADER_EPOCH, DENIED)
        assert len(rig.sent) == 1

    with_rig(work)


def test_a_broker_that_cannot_be_reached_is_given_up() -> None:
    """If this fails, a share partition waits for ever for a coordinator that is gone."""

    async def work(rig: Rig) -> None:
        del rig.links.brokers[OTHER]
        assert (await rig.write(key(0))).code is ErrorCode.NETWORK_EXCEPTION
        assert len(rig.sent) == ATTEMPTS

    with_rig(work)


def test_a_persister_that_is_closed_answers() -> None:
    """If this fails, a broker does not stop while a share coordinator hangs."""

    async def work(rig: Rig) -> None:
        rig.links.hold = asyncio.Event()
        waiting = rig.write(key(0))
        await until(lambda: len(rig.sent) == 1)
        await rig.persister.close()
        assert (await waiting).code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_rig(work)


def test_this_broker_is_asked_without_a_request(tmp_path: Path) -> None:
    """If this fails, share groups do not work on a single broker. The first request creates the topic."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            await broker.prepare("t")
            topic = broker.server.broker.image.topics.by_name("t")
            assert topic is not None
            of = SharePartitionKey("readers", topic.topic_id, 1)
            persister = broker.server.broker.share_persister
            assert await persister.initialize(of, 1, 10) == Outcome()
            assert await persister.write(of, 1, 0, 10, 2, [StateBatch(10, 11, 1, 2)]) == Outcome()
            assert await persister.read(of, 5) == StateRead(
                state_epoch=1, start_offset=10, batches=(StateBatch(10, 11, 1, 2),)
            )
            assert await persister.read_summary(of) == SummaryRead(
                state_epoch=1, leader_epoch=5, start_offset=10, delivery_complete_count=2
            )
            assert (await persister.write(of, 1, 4, -1, 2, [])).code is ErrorCode.FENCED_LEADER_EPOCH
            assert await persister.delete(of) == Outcome()

    uvloop.run(work())
