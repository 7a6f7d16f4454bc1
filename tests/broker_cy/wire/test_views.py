"""The hand-written Produce and Fetch views read everything that the spec-driven codec writes, and reject the same
bytes.
"""

from __future__ import annotations

import uuid
from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages
from broker_cy.wire.fetch import parse_fetch
from broker_cy.wire.fetch_response import parse_fetch_response
from broker_cy.wire.produce import parse_produce

names = st.text(min_size=1, max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
# The fields that are plain numbers, of the view and of the codec's message.
Number = Literal["max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch"]
NUMBERS: tuple[Number, ...] = get_args(Number)
FetchedTopic = messages.FetchRequest.FetchTopic | messages.FetchRequest.ForgottenTopic


@st.composite
def produce_requests(draw: st.DrawFn) -> tuple[int, messages.ProduceRequest]:
    version = draw(st.integers(3, 13))
    topics = []
    for _ in range(draw(st.integers(0, 3))):
        topic = messages.ProduceRequest.TopicProduceData(
            partition_data=[
                messages.ProduceRequest.PartitionProduceData(
                    index=draw(int32s), records=draw(st.none() | st.binary(max_size=300))
                )
                for _ in range(draw(st.integers(0, 3)))
            ]
        )
        if version >= 13:
            topic.topic_id = draw(st.uuids())
        else:
            topic.name = draw(names)
        topics.append(topic)
    request = messages.ProduceRequest(
        transactional_id=draw(st.none() | st.text(max_size=10)),
        acks=draw(st.integers(-(2**15), 2**15 - 1)),
        timeout_ms=draw(int32s),
        topic_data=topics,
    )
    return version, request


@given(produce_requests())
@settings(max_examples=300, deadline=None)
def test_produce_view_reads_what_the_codec_writes(case: tuple[int, messages.ProduceRequest]) -> None:
    """If this fails, records are written to the wrong partition, or are cut."""
    version, request = case
    acks, timeout_ms, transactional, topics = parse_produce(codec.encode(request, version), version)
    assert (acks, timeout_ms) == (request.acks, request.timeout_ms)
    assert transactional == (request.transactional_id is not None)
    expected = [
        (
            topic.topic_id.bytes if version >= 13 else topic.name.encode(),
            [(p.index, p.records) for p in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    assert topics == expected


@given(
    st.integers(3, 13),
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.tuples(st.integers(-1, 3), st.none() | st.binary(max_size=3)))),
        max_size=5,
    ),
)
@settings(max_examples=300, deadline=None)
def test_a_partition_counts_once_in_produce(
    version: int, named: list[tuple[int, list[tuple[int, bytes | None]]]]
) -> None:
    """If this fails, a partition that is named twice gets other records than with Kafka, which takes the last ones, or
    a client does not understand the answer.
    """
    request = messages.ProduceRequest(acks=-1, timeout_ms=1)
    expected: dict[bytes, dict[int, bytes | None]] = {}
    for number, parts in named:
        topic = messages.ProduceRequest.TopicProduceData(
            partition_data=[
                messages.ProduceRequest.PartitionProduceData(index=index, records=records) for index, records in parts
            ]
        )
        if version >= 13:
            topic.topic_id = uuid.UUID(int=number)
            key = topic.topic_id.bytes
        else:
            topic.name = f"t{number}"
            key = topic.name.encode()
        request.topic_data.append(topic)
        expected.setdefault(key, {}).update(dict(parts))
    *_, topics = parse_produce(codec.encode(request, version), version, True)
    found = [(key, parts) for key, parts in topics if parts]
    assert found == [(key, list(parts.items())) for key, parts in expected.items() if parts]


@st.composite
def fetch_requests(draw: st.DrawFn) -> tuple[int, messages.FetchRequest]:
    version = draw(st.integers(4, 18))
    request = messages.FetchRequest(
        max_wait_ms=draw(int32s),
        min_bytes=draw(int32s),
        max_bytes=draw(int32s),
        isolation_level=draw(st.integers(0, 1)),
    )
    if version >= 7:
        request.session_id, request.session_epoch = draw(int32s), draw(int32s)
    if version >= 11:
        request.rack_id = draw(st.text(max_size=5))
    replica_id = draw(st.integers(-1, 5))
    if version >= 15:
        request.replica_state = messages.FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=draw(int64s))
    else:
        request.replica_id = replica_id
    for _ in range(draw(st.integers(0, 3))):
        topic = messages.FetchRequest.FetchTopic()
        name_topic(draw, topic, version)
        for _ in range(draw(st.integers(0, 3))):
            part = messages.FetchRequest.FetchPartition(
                partition=draw(int32s), fetch_offset=draw(int64s), partition_max_bytes=draw(int32s)
            )
            if version >= 9:
                part.current_leader_epoch = draw(int32s)
            if version >= 12:
                part.last_fetched_epoch = draw(int32s)
            if version >= 5:
                part.log_start_offset = draw(int64s)
            if version >= 17 and draw(st.booleans()):
                part.replica_directory_id = draw(st.uuids())
            topic.partitions.append(part)
        request.topics.append(topic)
    if version >= 7:
        for _ in range(draw(st.integers(0, 2))):
            forgotten = messages.FetchRequest.ForgottenTopic(partitions=draw(st.lists(int32s, max_size=3)))
            name_topic(draw, forgotten, version)
            request.forgotten_topics_data.append(forgotten)
    return version, request


def name_topic(draw: st.DrawFn, topic: FetchedTopic, version: int) -> None:
    if version >= 13:
        topic.topic_id = draw(st.uuids())
    else:
        topic.topic = draw(names)


def key_of(topic: FetchedTopic, version: int) -> bytes:
    return topic.topic_id.bytes if version >= 13 else topic.topic.encode()


@given(fetch_requests())
@settings(max_examples=300, deadline=None)
def test_fetch_view_reads_what_the_codec_writes(case: tuple[int, messages.FetchRequest]) -> None:
    """If this fails, a consumer reads from an offset that it did not request."""
    version, request = case
    view = parse_fetch(codec.encode(request, version), version)
    assert view["replica_id"] == (request.replica_state.replica_id if version >= 15 else request.replica_id)
    for name in NUMBERS:
        assert view[name] == getattr(request, name)
    assert view["topics"] == [
        (
            key_of(topic, version),
            [
                (
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    assert view["forgotten"] == [(key_of(t, version), t.partitions) for t in request.forgotten_topics_data]


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_cut_produce_request_is_refused(version: int) -> None:
    """A request that is truncated anywhere closes the connection, and never makes the broker read beyond the received
    bytes.
    """
    topic = messages.ProduceRequest.TopicProduceData(
        partition_data=[messages.ProduceRequest.PartitionProduceData(index=0, records=b"x" * 40)]
    )
    if version >= 13:
        topic.topic_id = uuid.uuid4()
    else:
        topic.name = "t"
    body = codec.encode(messages.ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), version)
    for end in range(len(body)):
        with pytest.raises(WireError):
            parse_produce(body[:end], version)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_cut_fetch_request_is_refused(version: int) -> None:
    """As for Produce."""
    topic = messages.FetchRequest.FetchTopic(partitions=[messages.FetchRequest.FetchPartition(partition=1)])
    if version >= 13:
        topic.topic_id = uuid.uuid4()
    else:
        topic.topic = "t"
    body = codec.encode(messages.FetchRequest(topics=[topic]), version)
    for end in range(len(body)):
        with pytest.raises(WireError):
            parse_fetch(body[:end], version)


@given(st.binary(max_size=200), st.integers(3, 13), st.integers(4, 18))
@settings(max_examples=1000, deadline=None)
def test_random_bytes_are_read_or_refused(data: bytes, produce_version: int, fetch_version: int) -> None:
    """Only WireError is raised, for any bytes: another exception would be logged as a defect of the broker."""
    for parse, version in ((parse_produce, produce_version), (parse_fetch, fetch_version)):
        try:
            parse(data, version)
        except WireError:
            pass


@pytest.mark.parametrize("version", [3, 9])
def test_number_of_partitions_is_bounded(version: int) -> None:
    """A request of 100 MB that contains only partitions without records must not become gigabytes of results."""
    empty = [messages.ProduceRequest.PartitionProduceData(index=0, records=None)] * 1_000_001
    topic = messages.ProduceRequest.TopicProduceData(name="t", partition_data=empty)
    body = codec.encode(messages.ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), version)
    with pytest.raises(WireError, match="more than 1000000 elements"):
        parse_produce(body, version)
    with pytest.raises(WireError, match="more than 1000000 elements"):
        codec.decode(messages.ProduceRequest, version, body)


@st.composite
def fetch_responses(draw: st.DrawFn) -> tuple[int, messages.FetchResponse]:
    version = draw(st.integers(12, 18))
    response = messages.FetchResponse(error_code=draw(st.integers(-1, 120)), session_id=draw(int32s))
    for _ in range(draw(st.integers(0, 3))):
        topic = messages.FetchResponse.FetchableTopicResponse()
        if version >= 13:
            topic.topic_id = draw(st.uuids())
        else:
            topic.topic = draw(names)
        for _ in range(draw(st.integers(0, 3))):
            data = messages.FetchResponse.PartitionData(
                partition_index=draw(int32s),
                error_code=draw(st.integers(-1, 120)),
                high_watermark=draw(int64s),
                last_stable_offset=draw(int64s),
                log_start_offset=draw(int64s),
                preferred_read_replica=draw(int32s),
                records=draw(st.none() | st.binary(max_size=300)),
            )
            aborted = messages.FetchResponse.AbortedTransaction(producer_id=draw(int64s), first_offset=draw(int64s))
            data.aborted_transactions = draw(st.sampled_from([None, [], [aborted, aborted]]))
            data.diverging_epoch.epoch = draw(st.just(-1) | st.integers(0, 100))
            data.diverging_epoch.end_offset = draw(int64s) if data.diverging_epoch.epoch >= 0 else -1
            data.current_leader.leader_id = draw(st.integers(-1, 3))
            topic.partitions.append(data)
        response.responses.append(topic)
    if version >= 16 and draw(st.booleans()):
        response.node_endpoints = [messages.FetchResponse.NodeEndpoint(node_id=1, host=draw(names), port=9092)]
    return version, response


@given(fetch_responses())
@settings(max_examples=300, deadline=None)
def test_fetch_response_view_reads_what_the_codec_writes(case: tuple[int, messages.FetchResponse]) -> None:
    """If this fails, a follower appends other records than its leader sent, or truncates valid records."""
    version, response = case
    expected = [
        (
            topic.topic_id.bytes if version >= 13 else topic.topic.encode(),
            [
                (
                    each.partition_index,
                    each.error_code,
                    each.high_watermark,
                    each.log_start_offset,
                    each.diverging_epoch.epoch,
                    each.diverging_epoch.end_offset,
                    each.records or b"",
                )
                for each in topic.partitions
            ],
        )
        for topic in response.responses
    ]
    found = parse_fetch_response(codec.encode(response, version), version)
    assert (found["error_code"], found["session_id"]) == (response.error_code, response.session_id)
    assert found["topics"] == expected


@given(fetch_responses(), st.data())
@settings(max_examples=300, deadline=None)
def test_fetch_response_view_refuses_what_is_cut_or_too_long(
    case: tuple[int, messages.FetchResponse], data: st.DataObject
) -> None:
    """If this fails, a follower reads memory behind an answer."""
    version, response = case
    body = codec.encode(response, version)
    with pytest.raises(WireError):
        parse_fetch_response(body[: data.draw(st.integers(0, len(body) - 1))], version)
    with pytest.raises(WireError):
        parse_fetch_response(body + b"\0", version)
