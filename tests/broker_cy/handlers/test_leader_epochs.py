"""A partition whose leader epoch or role changes while clients use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.group_commit import GroupCommit
from broker_cy.replica.replica import Role
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.connections.harness import CoreHarness, fetch_from, fetch_request, produce_request, produce_to
from tests.broker_cy.handlers.test_group_commit import HeldJobs


@pytest.fixture
def broker() -> Iterator[CoreHarness]:
    harness = CoreHarness()
    yield harness
    harness.close()


def batch() -> bytes:
    return encode_batch([Record(0, 1_000, b"k", b"v", [])])


def partition_of(broker: CoreHarness, topic: str) -> Any:
    return broker.table.by_name[topic.encode()][0]


def test_batches_have_the_epoch_of_their_append(broker: CoreHarness) -> None:
    """If this fails, a follower cannot tell which leader wrote a batch, and keeps what a deposed one wrote."""
    broker.topic("t")
    client, partition = broker.client(), partition_of(broker, "t")
    produce_to(client, "t", batch())
    broker.on_loop(lambda: partition.lead(7))
    produce_to(client, "t", batch())
    found = decode_batches(fetch_from(client, "t", 0).records)
    assert [each.leader_epoch for each in found] == [0, 7]
    with pytest.raises(ValueError, match="leader epoch 6 is over"):
        broker.on_loop(lambda: partition.lead(6))


def test_a_waiting_fetch_of_the_epoch_before_is_refused(broker: CoreHarness) -> None:
    """If this fails, a consumer that waits at the end of the log is not told of the new leader before its max.wait."""
    broker.topic("t")
    client, partition = broker.client(), partition_of(broker, "t")
    request = fetch_request("t", 0, 0, max_wait_ms=60_000)
    request.topics[0].partitions[0].current_leader_epoch = 0
    client.send(client.encode(request, ApiKey.FETCH, 11))
    broker.wait_until(lambda: broker.core.requests == 1)
    broker.on_loop(lambda: partition.lead(1))
    _, response = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert response.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_what_waits_for_a_sync_is_not_acknowledged_by_a_replica_that_no_longer_leads(broker: CoreHarness) -> None:
    """If this fails, a deposed leader acknowledges what the new one does not have."""
    jobs = HeldJobs()
    broker.core.commit = GroupCommit(broker.core, {"": jobs}, 1)
    broker.topic("t", 1, LogConfig(flush_messages=1))
    client, partition = broker.client(), partition_of(broker, "t")
    client.send(client.encode(produce_request("t", 0, batch()), ApiKey.PRODUCE, 9))
    broker.wait_until(lambda: len(jobs.held) == 1)
    future = broker.on_loop(lambda: partition.append_records(batch(), 1))

    def depose_and_sync() -> None:
        partition.replica.become(Role.FOLLOWER, 1)
        for job in jobs.held:
            job()

    broker.on_loop(depose_and_sync)
    _, response = client.receive(ApiKey.PRODUCE, 9, messages.ProduceResponse)
    result = response.responses[0].partition_responses[0]
    # As in Kafka, the answer says where the record was.
    assert (result.error_code, result.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert partition.high_watermark == 0
    broker.wait_until(future.done)
    assert broker.on_loop(future.exception).code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce_to(client, "t", batch()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
