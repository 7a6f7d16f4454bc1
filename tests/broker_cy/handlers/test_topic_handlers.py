"""CreateTopics, DeleteTopics and CreatePartitions, seen by a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import (  # noqa: F401 - importing registers them
    create_partitions,
    create_topics,
    delete_topics,
    init_producer_id,
)
from broker_cy.storage import disk
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, create, with_broker
from tests.support.images import topic_in


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, a client of this version would not be able to create topics, or not see why."""

    async def work(broker: MetadataBroker) -> None:
        result = await create(broker, "t", 2, version)
        assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (2, 1)
            assert {c.name: c.value for c in result.configs}["cleanup.policy"] == "delete"
        if version >= 7:
            assert result.topic_id == topic_in(broker.image, "t").topic_id
        result = await create(broker, "t", 2, version)
        assert ErrorCode(result.error_code) is ErrorCode.TOPIC_ALREADY_EXISTS
        assert result.error_message == "Topic 't' already exists."
        assert (await create(broker, "dry", 1, version, validate_only=True)).error_code == 0
        assert broker.image.topics.by_name("dry") is None

    with_broker(tmp_path, work)


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, a client of this version would delete nothing, or not see why."""

    async def work(broker: MetadataBroker) -> None:
        made = await create(broker, "t")
        await create(broker, "u")
        if version >= 6:
            state = messages.DeleteTopicsRequest.DeleteTopicState
            topics = [state(name=None, topic_id=made.topic_id), state(name="u"), state(name="none")]
            request = messages.DeleteTopicsRequest(topics=topics)
        else:
            request = messages.DeleteTopicsRequest(topic_names=["t", "u", "none"])
        response = await broker.call(request, version)
        assert {r.name: ErrorCode(r.error_code).name for r in response.responses} == {
            "t": "NONE",
            "u": "NONE",
            "none": "UNKNOWN_TOPIC_OR_PARTITION",
        }
        if version >= 6:
            assert made.topic_id in {r.topic_id for r in response.responses}
        assert len(broker.image.topics) == 0

    with_broker(tmp_path, work)


def test_delete_topics_disabled(tmp_path: Path) -> None:
    """If this fails, delete.topic.enable=false would be ignored."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        for version, code in [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")]:
            response = await broker.call(messages.DeleteTopicsRequest(topic_names=["t"]), version)
            assert [ErrorCode(r.error_code).name for r in response.responses] == [code]
        assert broker.image.topics.by_name("t") is not None

    with_broker(tmp_path, work, {"delete.topic.enable": "false"})


@pytest.mark.parametrize("version", range(4))
def test_create_partitions_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, a client of this version could not grow a topic, or not see why."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        wanted = messages.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=1, assignments=None)
        response = await broker.call(messages.CreatePartitionsRequest(topics=[wanted]), version)
        (result,) = response.results
        assert ErrorCode(result.error_code) is ErrorCode.INVALID_PARTITIONS
        assert result.error_message == "Topic already has 1 partition(s)."
        wanted.count = 2
        response = await broker.call(messages.CreatePartitionsRequest(topics=[wanted], validate_only=True), version)
        assert response.results[0].error_code == 0
        assert len(topic_in(broker.image, "t").partitions) == 1

    with_broker(tmp_path, work)


def test_admin_errors_are_of_each_topic_when_the_disk_fails(tmp_path: Path) -> None:
    """If this fails, the connection would close without a response."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        disk.set_write_budget(0, 28)
        try:
            created = await create(broker, "u")
            deleted = await broker.call(messages.DeleteTopicsRequest(topic_names=["t"]), 5)
            wanted = messages.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2, assignments=None)
            grown = await broker.call(messages.CreatePartitionsRequest(topics=[wanted]), 3)
            producer = await broker.call(messages.InitProducerIdRequest(transactional_id=None), 4)
        finally:
            disk.set_write_budget(-1, 0)
        codes = [created, deleted.responses[0], grown.results[0], producer]
        assert {ErrorCode(part.error_code).name for part in codes} == {"KAFKA_STORAGE_ERROR"}
        assert "cannot write" in created.error_message

    with_broker(tmp_path, work)
