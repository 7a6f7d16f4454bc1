"""A hanging transaction, as a defective client leaves it."""

from __future__ import annotations

import uuid

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import problem_of
from broker_cy.wire import messages
from broker_cy.wire.records import Record, encode_batch


async def leave_hanging(client: AdminClient, name: str) -> int:
    """Leave an open transaction in partition 0 of a new topic that no coordinator knows; returns its producer id."""
    topic = (await client.topics.create([NewTopic(name, 1)])).whole()[name]
    identity = await client.caller.ask(
        messages.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
        ),
        messages.InitProducerIdResponse,
        # Kafka has no producer ids for a moment after its start.
        lambda got: problem_of(got.error_code),
    )
    # Kafka announces a leader before it has created the log; the request below is sent only once.
    (await client.offsets.latest([TopicPartition(name, 0)])).whole()
    batch = encode_batch(
        [Record(timestamp=1, value=b"hangs")],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    part = messages.ProduceRequest.PartitionProduceData(index=0, records=batch)
    data = messages.ProduceRequest.TopicProduceData(name=name, topic_id=topic.topic_id, partition_data=[part])
    request = messages.ProduceRequest(
        transactional_id=f"forgotten-{uuid.uuid4().hex}", acks=-1, timeout_ms=20_000, topic_data=[data]
    )
    deadline = client.caller.deadline()
    peer = await client.caller.metadata.any_peer(deadline)
    # Version 12 and later would add the partition to a transaction first (KIP-890).
    answer, _ = await client.caller.pool.ask(peer, request, messages.ProduceResponse, deadline, at_most=11)
    assert [part.error_code for each in answer.responses for part in each.partition_responses] == [0]
    return identity.producer_id
