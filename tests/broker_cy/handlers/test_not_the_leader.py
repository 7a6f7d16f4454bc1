"""Requests to a broker that does not lead the partition, or does not have it: the answer names the leader (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import CoreHarness
from tests.broker_cy.coordinator_services.other_brokers import broker_image, change, partition_image

TOPIC_ID = UUID(int=1 << 100)


@pytest.fixture
def broker() -> Iterator[CoreHarness]:
    """A broker that has no partition, in a cluster where brokers 2 and 3 lead those of topic t."""
    harness = CoreHarness()
    harness.image.topics.put(TopicImage("t", TOPIC_ID, {}))
    change(
        harness.image,
        [broker_image(2, rack="r2"), broker_image(3, fenced=True)],
        {("t", 0): partition_image(2, (2,), 7), ("t", 1): partition_image(3, (3,), 8)},
    )
    yield harness
    harness.close()


def produce(broker: CoreHarness, version: int, name: str = "t", topic_id: UUID = TOPIC_ID) -> messages.ProduceResponse:
    """Produce to partitions 0, 1 and 2 of the topic; partition 2 does not exist."""
    batch = encode_batch([Record(0, 1_000, b"k", b"v", [])])
    topic = messages.ProduceRequest.TopicProduceData(
        partition_data=[messages.ProduceRequest.PartitionProduceData(index=index, records=batch) for index in range(3)]
    )
    if version >= 13:
        topic.topic_id = topic_id
    else:
        topic.name = name
    request = messages.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])
    response = broker.client().call(request, ApiKey.PRODUCE, version, messages.ProduceResponse)
    found: messages.ProduceResponse = response
    # Decode like a strict client: every byte of the response belongs to a field.
    assert codec.decode(messages.ProduceResponse, version, codec.encode(found, version)) == found
    return found


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_names_the_current_leader(broker: CoreHarness, version: int) -> None:
    """If this fails, a producer whose leader moved treats the topic as deleted, or needs another Metadata request."""
    response = produce(broker, version)
    answers = response.responses[0].partition_responses
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [each.error_code for each in answers] == [moved, moved, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if version >= 10:
        leaders = [(each.current_leader.leader_id, each.current_leader.leader_epoch) for each in answers]
        assert leaders == [(2, 7), (3, 8), (-1, -1)]
        # A fenced broker has no address to go to.
        (node,) = response.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (2, "host-2", 9092, "r2")


def test_produce_to_a_topic_that_does_not_exist(broker: CoreHarness) -> None:
    """If this fails, a producer to a deleted topic is sent to a leader that does not exist."""
    (first, _, _) = produce(broker, 12, "u").responses[0].partition_responses
    assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (first, _, _) = produce(broker, 13, topic_id=UUID(int=5)).responses[0].partition_responses
    assert first.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_names_the_current_leader(broker: CoreHarness, version: int) -> None:
    """If this fails, a consumer whose leader moved treats the topic as deleted, or needs another Metadata request."""
    topic = messages.FetchRequest.FetchTopic(
        partitions=[
            messages.FetchRequest.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
            for index in range(3)
        ]
    )
    if version >= 13:
        topic.topic_id = TOPIC_ID
    else:
        topic.topic = "t"
    request = messages.FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[topic])
    if version >= 7:
        request.session_epoch = -1
    response = broker.client().call(request, ApiKey.FETCH, version, messages.FetchResponse)
    answers: list[Any] = response.responses[0].partitions
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [each.error_code for each in answers] == [moved, moved, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if version >= 16:
        leaders = [(each.current_leader.leader_id, each.current_leader.leader_epoch) for each in answers]
        assert leaders == [(2, 7), (3, 8), (-1, -1)]
        (node,) = response.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (2, "host-2", 9092, "r2")
