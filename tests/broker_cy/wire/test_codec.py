"""If these fail, the broker sends bytes that Kafka would not send, or accepts bytes that Kafka would not accept."""

import copy
import pickle
import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core.errors import Truncated, WireError
from broker_cy.core.writer import Writer
from broker_cy.schemas import tables
from broker_cy.wire import codec, messages
from broker_cy.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMemberMetadataValue,
    FetchRequest,
    FetchResponse,
    LeaderAndIsrRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchRequest,
    ProduceRequest,
    TransactionLogValue,
)


def varint(number: int) -> bytes:
    writer = Writer()
    writer.write_uvarint(number)
    return writer.getvalue()


# ---- the classes


def test_a_new_message_has_kafkas_defaults() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch, request.rack_id) == (-1, 0x7FFFFFFF, -1, "")
    assert (request.cluster_id, request.topics) == (None, [])
    assert request.replica_state == FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert FetchRequest.FetchTopic().topic_id == UUID(int=0)
    assert FetchResponse.PartitionData().records is None
    assert MetadataRequest().allow_auto_topic_creation is True


def test_defaults_are_not_shared_between_messages() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(FetchRequest.FetchTopic())
    one.replica_state.replica_id = 5
    assert other == FetchRequest()


def test_messages_compare_by_type_and_value() -> None:
    assert ApiVersionsRequest(client_software_name="a") == ApiVersionsRequest(client_software_name="a")
    assert ApiVersionsRequest(client_software_name="a") != ApiVersionsRequest(client_software_name="b")
    assert ApiVersionsRequest() != MetadataRequest()
    assert ApiVersionsRequest(_unknown_tags=((1, b""),)) != ApiVersionsRequest()
    with pytest.raises(TypeError, match="unhashable"):
        hash(ApiVersionsRequest())


def test_a_message_prints_its_fields() -> None:
    request = ApiVersionsRequest(client_software_name="kcat", _unknown_tags=((9, b"x"),))
    assert repr(request) == (
        "ApiVersionsRequest(client_software_name='kcat', client_software_version='', _unknown_tags=((9, b'x'),))"
    )
    assert FetchRequest.FetchTopic.__qualname__ == "FetchRequest.FetchTopic"


def test_a_message_can_be_copied() -> None:
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="a")])
    deep = copy.deepcopy(request)
    assert deep == request
    assert deep.topics[0] is not request.topics[0]
    assert pickle.loads(pickle.dumps(request)) == request


def test_structures_of_columns_are_those_of_the_constructor() -> None:
    """If this fails, the partitions of a member in records and answers are those of another topic."""
    cls = ConsumerGroupHeartbeatResponse.TopicPartitions
    ids, partitions = [UUID(int=1), UUID(int=2)], [[0, 3], [1]]
    made = codec.structures(cls, iter(ids), map(sorted, partitions))
    assert made == [cls(topic_id=ids[0], partitions=[0, 3]), cls(topic_id=ids[1], partitions=[1])]
    assert codec.structures(cls, [], []) == []
    with pytest.raises(TypeError, match="TopicPartitions has the fields topic_id, partitions; there are 1 columns"):
        codec.structures(cls, ids)
    with pytest.raises(ValueError, match="the columns of TopicPartitions differ in length"):
        codec.structures(cls, ids, partitions[:1])
    with pytest.raises(TypeError, match="is not a message class"):
        codec.structures(codec.Message)


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="FetchRequest has no field 'topcs'; it has cluster_id, "):
        FetchRequest(topcs=[])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().topcs = []  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no message called FetchRequst"):
        messages.FetchRequst  # type: ignore[attr-defined]  # noqa: B018


def test_classes_have_what_their_table_says() -> None:
    assert (FetchRequest.API_KEY, FetchRequest.VERSIONS) == (1, (4, 18))
    assert (messages.PartitionRecord.API_KEY, messages.PartitionRecord.VERSIONS) == (3, (0, 2))
    assert set(dir(messages)) == set(tables.message_files())


# ---- versions


def test_a_version_that_does_not_exist_is_named() -> None:
    for version in (3, 19, -1, 40000):
        with pytest.raises(WireError, match=f"FetchRequest: version {version} does not exist; 4 to 18 exist"):
            codec.encode(FetchRequest(), version)
        with pytest.raises(WireError, match=f"FetchRequest: version {version} does not exist"):
            codec.decode(FetchRequest, version, b"")
    with pytest.raises(WireError, match="version 0 does not exist; the message has no versions"):
        codec.encode(LeaderAndIsrRequest(), 0)


def test_a_field_the_version_lacks_must_be_at_its_default_or_ignorable() -> None:
    # ClusterId is ignorable, ReplicaState is not.
    codec.encode(FetchRequest(cluster_id="c"), 4)
    with pytest.raises(WireError, match=r"FetchRequest.replica_state: version 14 has no such field"):
        codec.encode(FetchRequest(replica_state=FetchRequest.ReplicaState(replica_epoch=3)), 14)
    with pytest.raises(WireError, match=r"OffsetFetchRequest.groups: version 7 has no such field"):
        codec.encode(OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup()]), 7)


def test_a_transaction_state_that_an_old_version_cannot_hold_is_not_lost_silently() -> None:
    # In Kafka 4.3, these tagged fields have the versions of the tag.
    codec.encode(TransactionLogValue(), 0)
    with pytest.raises(WireError, match="previous_producer_id: version 0 has no such field"):
        codec.encode(TransactionLogValue(previous_producer_id=5), 0)


def test_decoding_gives_defaults_for_fields_the_version_lacks() -> None:
    back = codec.decode(FetchRequest, 4, codec.encode(FetchRequest(cluster_id="c", max_wait_ms=9), 4))
    assert back == FetchRequest(max_wait_ms=9)


# ---- tagged fields


def test_tagged_fields_at_their_default_are_not_written() -> None:
    plain = codec.encode(FetchRequest(), 17)
    assert plain.endswith(b"\0")
    tagged = codec.encode(FetchRequest(cluster_id="c", replica_state=FetchRequest.ReplicaState(replica_id=1)), 17)
    assert tagged == plain[:-1] + b"\2" + b"\0\2\2c" + b"\1\x0d" + struct.pack(">iq", 1, -1) + b"\0"


@pytest.mark.parametrize("size", [0, 125, 126, 127, 16380, 16381, 16382, 16383, 32767])
def test_a_tagged_field_of_any_size_has_its_size_in_front(size: int) -> None:
    request = FetchRequest(cluster_id="c" * size)
    data = codec.encode(request, 17)
    text = varint(size + 1) + b"c" * size
    assert data.endswith(b"\1\0" + varint(len(text)) + text)
    assert codec.decode(FetchRequest, 17, data) == request


def test_unknown_tags_are_kept_and_written_back_in_order() -> None:
    plain = codec.encode(FetchRequest(), 17)[:-1]
    cluster = b"\0\2\2c"
    data = plain + b"\3" + cluster + b"\5\1x" + b"\xac\2\0"
    request = codec.decode(FetchRequest, 17, data)
    assert request._unknown_tags == ((5, b"x"), (300, b""))
    assert request.cluster_id == "c"
    assert codec.encode(request, 17) == data
    # Kafka also reads tags in any order; they are written in ascending order.
    assert codec.encode(codec.decode(FetchRequest, 17, plain + b"\3" + b"\xac\2\0" + b"\5\1x" + cluster), 17) == data


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (b"\2\0\2\2c\0\2\2c", "tag 0 occurs twice"),
        (b"\2\5\0\5\0", "tag 5 occurs twice"),
        (b"\1\0\3\2c", "bytes"),
        (b"\1\0\3\2cx", "1 bytes of tag 0 are left over"),
        (b"\1\0\1\2c", "bytes"),
        (b"\1\5\x7fx", "the 127 bytes of tag 5 do not fit in the remaining 1"),
        (b"\xff\xff\xff\xff\x0f", "4294967295 tagged fields do not fit"),
        (b"\xff\xff\xff\xff\xff\x01", "more than 5 bytes"),
    ],
)
def test_bad_tagged_fields_are_refused(tags: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        codec.decode(FetchRequest, 17, codec.encode(FetchRequest(), 17)[:-1] + tags)


def test_unknown_tags_that_cannot_be_written_are_refused() -> None:
    cases: list[tuple[Any, str]] = [
        (((0, b""),), "tag 0 belongs to a known field"),
        (((5, b""), (5, b"")), "tag 5 occurs twice"),
        (((-1, b""),), "tag -1 is out of range; 0 to 2147483647 are allowed"),
        (((5, "x"),), "tag 5 must be bytes, not a str"),
    ]
    for tags, reason in cases:
        with pytest.raises(WireError, match=reason):
            codec.encode(FetchRequest(_unknown_tags=tags), 17)
    with pytest.raises(WireError, match="_unknown_tags: version 4 has no tagged fields"):
        codec.encode(FetchRequest(_unknown_tags=((5, b""),)), 4)


# ---- null


def test_null_is_refused_where_it_is_not_allowed() -> None:
    with pytest.raises(WireError, match=r"FetchRequest.topics: None is not allowed"):
        codec.encode(FetchRequest(topics=None), 17)  # type: ignore[arg-type]
    with pytest.raises(WireError, match=r"MetadataRequest.topics: None"):
        codec.encode(MetadataRequest(topics=None), 0)
    with pytest.raises(WireError, match=r"MetadataRequest.topics: null is not allowed"):
        codec.decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert codec.decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(WireError, match=r"ApiVersionsRequest.client_software_name: null"):
        codec.decode(ApiVersionsRequest, 3, b"\0\1\0")
    partitions: Any = [FetchRequest.FetchPartition(), None]
    with pytest.raises(WireError, match=r"topics\[0\].partitions\[1\]: None"):
        codec.encode(FetchRequest(topics=[FetchRequest.FetchTopic(partitions=partitions)]), 17)


def test_nullable_structures_have_a_byte_in_front() -> None:
    # KIP-893. -1 is null; in a tagged field, what a broker 4.3 writes is 0 for null.
    empty = ConsumerGroupHeartbeatResponse()
    assert codec.encode(empty, 0)[-2:] == b"\xff\0"
    assert codec.decode(ConsumerGroupHeartbeatResponse, 0, codec.encode(empty, 0)).assignment is None
    some = ConsumerGroupHeartbeatResponse(assignment=ConsumerGroupHeartbeatResponse.Assignment())
    assert codec.encode(some, 0)[-4:] == b"\1\1\0\0"
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    # As Kafka 4.3.1 wrote it for a member of the new protocol.
    assert codec.encode(value, 0) == bytes.fromhex("010101010101ffffffff0101000100")
    assert codec.decode(ConsumerGroupMemberMetadataValue, 0, codec.encode(value, 0)) == value


# ---- values


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"max_wait_ms": 2**31}, "max_wait_ms: 2147483648 is not within -2147483648 to 2147483647"),
        ({"isolation_level": 128}, "isolation_level: 128 is not within -128 to 127"),
        ({"max_wait_ms": 2**100}, "max_wait_ms: .* is not within"),
        ({"max_wait_ms": 1.5}, "max_wait_ms: an integer is expected, not a float"),
        ({"rack_id": b"x"}, "rack_id: a str is expected, not a bytes"),
        ({"rack_id": "x" * 32768}, "rack_id: the string has 32768 bytes; at most 32767 are allowed"),
        ({"rack_id": "\ud800"}, "rack_id: cannot be encoded as UTF-8: surrogates not allowed"),
        ({"topics": "x"}, "topics: a list is expected, not a str"),
        ({"topics": [FetchRequest.ForgottenTopic()]}, r"topics\[0\]: a FetchRequest.FetchTopic is expected"),
        ({"topics": [FetchRequest.FetchTopic(topic_id=1)]}, r"topics\[0\].topic_id: a uuid.UUID"),  # type: ignore[arg-type]
        (
            {"forgotten_topics_data": [FetchRequest.ForgottenTopic(partitions=[1, 2**31])]},
            r"forgotten_topics_data\[0\].partitions\[1\]: 2147483648",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_the_writer_unchanged(values: dict[str, Any], reason: str) -> None:
    writer = Writer()
    writer.write_i8(1)
    with pytest.raises(WireError, match="FetchRequest." + reason):
        codec.encode_into(writer, FetchRequest(**values), 16)
    assert writer.getvalue() == b"\1"


def test_records_are_written_from_any_buffer_and_read_as_bytes() -> None:
    for records in (b"abc", bytearray(b"abc"), memoryview(b"xabc")[1:]):
        partition = ProduceRequest.PartitionProduceData(records=records)
        request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=[partition])])
        back = codec.decode(ProduceRequest, 9, codec.encode(request, 9))
        assert back.topic_data[0].partition_data[0].records == b"abc"
    partition.records = "abc"  # type: ignore[assignment]
    with pytest.raises(WireError, match=r"records: contiguous bytes are expected, not a str"):
        codec.encode(request, 9)


def test_a_buffer_is_released_after_decoding() -> None:
    data = bytearray(codec.encode(FetchRequest(), 17))
    codec.decode(FetchRequest, 17, data)
    with pytest.raises(WireError):
        codec.decode(FetchRequest, 17, data[:-1])
    data.append(0)
    with pytest.raises(WireError, match="FetchRequest: 1 bytes are left over"):
        codec.decode(FetchRequest, 17, data)
    data.append(0)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WireError, match=r"client_software_name: invalid UTF-8: .* at byte 1 of 2"):
        codec.decode(ApiVersionsRequest, 3, b"\3a\xff\1\0")


@pytest.mark.parametrize("length", [-2, -(2**31), 2**31 - 1, 1000])
def test_claimed_lengths_allocate_nothing(length: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=r"MetadataRequest.topics: (negative length|\d+ elements)"):
            codec.decode(MetadataRequest, 1, struct.pack(">i", length) + b"xx")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_array_must_have_the_bytes_its_elements_need() -> None:
    # A partition of FetchRequest v17 takes at least 33 bytes, so 100 bytes cannot hold 4 of them.
    data = codec.encode(FetchRequest(topics=[FetchRequest.FetchTopic()]), 17)
    partitions_at = len(data) - 5
    assert data[partitions_at:] == b"\1\0\1\1\0"
    with pytest.raises(Truncated, match=r"topics\[0\].partitions: 4 elements of at least 33 bytes do not fit"):
        codec.decode(FetchRequest, 17, data[:partitions_at] + b"\5" + bytes(100))


def test_tables_promise_that_no_element_is_free() -> None:
    """An element of no bytes would allow few bytes to claim many objects; compiling a version checks for it."""
    for name in tables.message_files():
        cls = getattr(messages, name)
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            codec.encode(cls(), version)


def test_an_unset_or_foreign_object_is_refused() -> None:
    request = ApiVersionsRequest()
    del request.client_software_name
    with pytest.raises(WireError, match="client_software_name: the attribute has no value"):
        codec.encode(request, 3)
    with pytest.raises(TypeError, match="is not a message class"):
        codec.encode("x", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not a message class"):
        codec.decode(codec.Message, 3, b"")
    with pytest.raises(TypeError, match="is not a message class"):
        codec.decode(str, 3, b"")  # type: ignore[type-var]


def test_the_version_in_front_is_checked() -> None:
    with pytest.raises(WireError, match=r"GroupMetadataValue.version"):
        codec.decode_versioned(messages.GroupMetadataValue, b"\0")
    with pytest.raises(WireError, match="version 9 does not exist"):
        codec.decode_versioned(messages.GroupMetadataValue, b"\0\x09")


def test_api_versions_response_as_a_broker_sends_it() -> None:
    key = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)
    response = ApiVersionsResponse(api_keys=[key], finalized_features_epoch=1)
    assert codec.encode(response, 0) == bytes.fromhex("0000 00000001 0012 0000 0004")
    assert codec.encode(response, 3) == bytes.fromhex("0000 02 0012 0000 0004 00 00000000 01 01 08 0000000000000001")


def test_metadata_of_many_partitions() -> None:
    partition = MetadataResponse.MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition] * 1000)
    response = MetadataResponse(topics=[topic] * 10)
    assert codec.decode(MetadataResponse, 12, codec.encode(response, 12)) == response


def test_elements_that_were_encoded_in_parts() -> None:
    """If this fails, a client cannot read an answer with a large array, which is encoded in parts."""
    topics = [MetadataRequest.MetadataRequestTopic(name=f"topic-{number}") for number in range(5)]
    encoded = codec.EncodedElements(MetadataRequest.MetadataRequestTopic, 12)
    encoded.add(topics[:2])
    encoded.add(topics[2:])
    assert encoded.count == 5
    in_parts: Any = encoded
    assert codec.encode(MetadataRequest(topics=in_parts), 12) == codec.encode(MetadataRequest(topics=topics), 12)
    with pytest.raises(WireError, match=r"topics: encoded elements are of .* in version 12"):
        codec.encode(MetadataRequest(topics=in_parts), 11)
    with pytest.raises(WireError, match="encoded elements"):
        codec.encode(MetadataResponse(topics=in_parts), 12)
    with pytest.raises(WireError, match="encoded elements are for structures"):
        codec.encode(
            OffsetFetchRequest(topics=[OffsetFetchRequest.OffsetFetchRequestTopic(partition_indexes=in_parts)]), 5
        )
