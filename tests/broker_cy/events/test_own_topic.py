"""The topics that brokers write themselves, when metadata arrives late."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.events import own_topic
from broker_cy.events.own_topic import OwnTopic
from broker_cy.wire import messages

TOPIC = "__cluster_events"


class LateMetadata:
    """A topic with a leader on another broker; this broker's metadata shows it after `late` look-ups."""

    may_grow = False

    def __init__(self, late: int) -> None:
        self.late = late
        self.batches: asyncio.Queue[bytes] = asyncio.Queue()

    def exists(self, topic: str) -> bool:
        self.late -= 1
        return self.late < 0

    def replicas(self) -> int:
        return 3

    def elsewhere(self, topic: str) -> int:
        return 2

    async def write(self, leader: int, topic: str, batch: bytes) -> None:
        assert (leader, topic) == (2, TOPIC)
        await self.batches.put(batch)


class NoReplicas:
    def get(self, topic: str, partition: int) -> None:
        return None


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_the_only_record_is_written_when_the_topic_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """If this fails, a broker's start event is written with its next event, hours later, or is lost with the broker."""
    monkeypatch.setattr(own_topic, "RETRY_S", 0.001)

    async def create(_: Any) -> messages.CreateTopicsResponse:
        topic = messages.CreateTopicsResponse.CreatableTopicResult(name=TOPIC, error_code=code)
        return messages.CreateTopicsResponse(topics=[topic])

    async def scenario() -> None:
        leader: Any = LateMetadata(late=5)
        replicas: Any = NoReplicas()
        config = BrokerConfig.from_properties({"log.dirs": str(tmp_path)})
        loop = asyncio.get_running_loop()
        topic = OwnTopic(TOPIC, config, ManualClock(), loop, replicas, create, leader)
        topic.write(b"key", b"the start", 1)
        assert b"the start" in await asyncio.wait_for(leader.batches.get(), 60)
        await topic.stop()
        assert topic.dropped == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "attempts"), [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1), (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)]
)
def test_what_is_refused_for_lack_of_rights_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode, attempts: int
) -> None:
    """If this fails, an unauthorized node sends its events forever, and each denial is another event; or a node whose
    leader has just changed loses its events.
    """
    monkeypatch.setattr(own_topic, "RETRY_S", 0.001)
    config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": str(tmp_path)})

    class Refusing(LateMetadata):
        sent = 0

        async def write(self, leader: int, topic: str, batch: bytes) -> None:
            self.sent += 1
            if self.sent == 1:
                raise KafkaError(code, "no")

    async def work() -> None:
        leader = Refusing(0)
        leader.exists = lambda topic: True  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        topic = OwnTopic(TOPIC, config, ManualClock(), loop, NoReplicas(), None, leader)  # type: ignore[arg-type]
        topic.write(b"k", b"v", 1)
        topic.flush()
        async with asyncio.timeout(30):
            while topic._waiting or topic._sending is None or not topic._sending.done():
                await asyncio.sleep(0.001)
        assert leader.sent == attempts
        assert topic.dropped == (1 if attempts == 1 else 0)
        await topic.stop()

    asyncio.run(work())
