"""Requests and batches, built from the fields that a script sets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.wire import messages
from tests.compat.differential.script import TIMEOUT_MS, Run
from tests.support.raw_wire import RawBatch, RawRecord

# Batches of scripts have times around this one, so that responses are the same in every run.
TIME_MS = 1_700_000_000_000
UNKNOWN_ID = uuid.UUID("5f8f1f0e-6f1d-4a6e-9d0b-0c1e5a9b7d11")
PRODUCE_BY_ID, FETCH_BY_ID = 13, 13
NOTHING = b""


def batch(*values: bytes | None, time_ms: int = TIME_MS, **fields: Any) -> bytes:
    """Make one batch of magic 2 with a record for each value, a millisecond apart."""
    records = [RawRecord(key=b"k", value=value, timestamp_delta=at) for at, value in enumerate(values)]
    return RawBatch(records=records, base_timestamp=time_ms, **fields).encode()


def id_of(run: Run, topic: str) -> uuid.UUID:
    """Return the id of a topic, or an unused id."""
    run.names.give("unknown topic", UNKNOWN_ID)
    return run.topic_ids.get(topic, UNKNOWN_ID)


def produce(
    run: Run,
    version: int,
    topics: Mapping[str, Mapping[int, bytes | None]] | Sequence[tuple[str, Sequence[tuple[int, bytes | None]]]],
    acks: int = -1,
    transactional_id: str | None = None,
) -> messages.ProduceRequest:
    """Topics by name, or by id from version 13 on; pairs instead of mappings may name something twice."""
    request = messages.ProduceRequest
    data = []
    for name, parts in topics.items() if isinstance(topics, Mapping) else topics:
        pairs = parts.items() if isinstance(parts, Mapping) else parts
        data.append(
            request.TopicProduceData(
                name=name,
                topic_id=id_of(run, name) if version >= PRODUCE_BY_ID else uuid.UUID(int=0),
                partition_data=[request.PartitionProduceData(index=i, records=records) for i, records in pairs],
            )
        )
    return request(transactional_id=transactional_id, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=data)


def put(run: Run, topic: str, partition: int, *batches: bytes) -> None:
    """Produce batches one by one; each must succeed. Responses are not recorded."""
    for data in batches:
        answer = run.quietly(produce(run, 9, {topic: {partition: data}}), 9)
        result = answer.responses[0].partition_responses[0]
        assert result.error_code == 0, f"{topic}-{partition}: error {result.error_code}: {result.error_message}"


def part(
    index: int, offset: int = 0, max_bytes: int = 1 << 20, epoch: int = -1, fetched_epoch: int = -1
) -> messages.FetchRequest.FetchPartition:
    """One partition of a Fetch request."""
    return messages.FetchRequest.FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
        last_fetched_epoch=fetched_epoch,
    )


def fetch(
    run: Run,
    version: int,
    topics: Mapping[str, Sequence[messages.FetchRequest.FetchPartition]],
    forget: Mapping[str, Sequence[int]] | None = None,
    **fields: Any,
) -> messages.FetchRequest:
    """Topics by name, or by id from version 13 on. It does not wait, unless `fields` say so."""
    request = messages.FetchRequest
    by_id = version >= FETCH_BY_ID
    return request(
        topics=[
            request.FetchTopic(topic=name, topic_id=id_of(run, name), partitions=list(parts))
            if by_id
            else request.FetchTopic(topic=name, partitions=list(parts))
            for name, parts in topics.items()
        ],
        forgotten_topics_data=[
            request.ForgottenTopic(topic=name, topic_id=id_of(run, name), partitions=list(parts))
            if by_id
            else request.ForgottenTopic(topic=name, partitions=list(parts))
            for name, parts in (forget or {}).items()
        ],
        **{"max_wait_ms": 0, "min_bytes": 0, **fields},
    )


def list_offsets(
    topics: Mapping[str, Sequence[tuple[int, int]] | Sequence[tuple[int, int, int]]], **fields: Any
) -> messages.ListOffsetsRequest:
    """Partitions as (index, timestamp) or (index, timestamp, leader epoch)."""
    request = messages.ListOffsetsRequest
    return request(
        topics=[
            request.ListOffsetsTopic(
                name=name,
                partitions=[
                    request.ListOffsetsPartition(
                        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch[0] if epoch else -1
                    )
                    for index, timestamp, *epoch in parts
                ],
            )
            for name, parts in topics.items()
        ],
        **{"replica_id": -1, **fields},
    )


def delete_records(topics: Mapping[str, Sequence[tuple[int, int]]]) -> messages.DeleteRecordsRequest:
    """Partitions as (index, offset)."""
    request = messages.DeleteRecordsRequest
    return request(
        topics=[
            request.DeleteRecordsTopic(
                name=name,
                partitions=[request.DeleteRecordsPartition(partition_index=i, offset=offset) for i, offset in parts],
            )
            for name, parts in topics.items()
        ],
        timeout_ms=TIMEOUT_MS,
    )


def metadata(
    names: Sequence[str] | None, auto_create: bool = False, ids: Sequence[uuid.UUID] = (), **fields: Any
) -> messages.MetadataRequest:
    """All topics if `names` is None."""
    topic = messages.MetadataRequest.MetadataRequestTopic
    asked = None if names is None else [topic(name=name) for name in names]
    if ids:
        asked = [*(asked or []), *(topic(name=None, topic_id=each) for each in ids)]
    return messages.MetadataRequest(topics=asked, allow_auto_topic_creation=auto_create, **fields)


def new_topic(
    name: str,
    partitions: int = 1,
    replication: int = 1,
    assignments: Mapping[int, Sequence[int]] | Sequence[tuple[int, Sequence[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> messages.CreateTopicsRequest.CreatableTopic:
    """One topic of a CreateTopics request; assignments as partition index and broker ids."""
    request = messages.CreateTopicsRequest
    pairs = assignments.items() if isinstance(assignments, Mapping) else assignments
    return request.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[request.CreatableReplicaAssignment(partition_index=i, broker_ids=list(ids)) for i, ids in pairs],
        configs=[request.CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create(*topics: messages.CreateTopicsRequest.CreatableTopic, **fields: Any) -> messages.CreateTopicsRequest:
    return messages.CreateTopicsRequest(topics=list(topics), **{"timeout_ms": TIMEOUT_MS, **fields})
