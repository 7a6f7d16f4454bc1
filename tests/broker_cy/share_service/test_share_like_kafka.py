"""The same conversation of share consumers with Apache Kafka 4.3.1 and with this broker: the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.broker_cy.share_service.share_broker import ShareBroker
from tests.broker_cy.share_service.share_script import Conversation
from tests.support import needs, recorded
from tests.support.kafka_peer import KafkaPeer

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.record.lock.duration.ms": "30000",
}
NAME = "share_fetches"


async def talk(host: str, port: int) -> list[Any]:
    conversation = Conversation(host, port)
    await conversation.run()
    return conversation.told


def test_the_answers_are_kafkas(tmp_path: Path) -> None:
    """If this fails, share consumers get other records or other errors than from Kafka."""

    async def run() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            told = recorded.as_recorded(await talk("127.0.0.1", broker.server.listeners[0].port))
        wanted = recorded.of_kafka(NAME)
        assert [ours[0] for ours in told] == [kafkas[0] for kafkas in wanted]
        different = [
            f"Kafka {kafkas}\n  we    {ours}" for ours, kafkas in zip(told, wanted, strict=True) if ours != kafkas
        ]
        assert not different, "\n" + "\n".join(different)

    uvloop.run(run())


@pytest.mark.full
@needs.kafka
def test_the_recorded_answers_are_current(tmp_path: Path) -> None:
    """If this fails, the test above compares with answers that Kafka does not give."""
    kafka = KafkaPeer(tmp_path, SETTINGS)
    kafka.start()
    try:
        recorded.check(NAME, uvloop.run(talk(kafka.host, kafka.port)))
    finally:
        kafka.close()
