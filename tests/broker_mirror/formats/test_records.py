"""The records of MirrorMaker 2's internal topics: exact bytes, and damaged ones. Random records are compared with its
classes in tests/broker_mirror/test_like_mirror_maker.py.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from broker_mirror.formats import checkpoints, heartbeats, offset_syncs, source_offsets
from broker_mirror.formats.checkpoints import Checkpoint
from broker_mirror.formats.fields import DamagedRecord
from broker_mirror.formats.heartbeats import Heartbeat
from broker_mirror.formats.offset_syncs import COUNT_HEADER, OffsetSync
from broker_mirror.formats.source_offsets import ReachedOffsets, SourcePartition, TopicIds


def test_an_offset_sync() -> None:
    """If this fails, MirrorMaker 2 and tools read other offsets than were written."""
    sync = OffsetSync("t", 3, 5, 7)
    assert sync.key() == b"\x00\x01t\x00\x00\x00\x03"
    assert sync.value() == bytes([0] * 7 + [5] + [0] * 7 + [7])
    assert sync.headers() == ()
    assert offset_syncs.decode(sync.key(), sync.value()) == sync


def test_the_length_of_a_range_is_in_a_header() -> None:
    """MirrorMaker 2 ignores headers. If this fails, it cannot read our syncs, or a restart loses exact offsets."""
    sync = OffsetSync("t", 3, 99, 70, count=50)
    assert sync.value() == OffsetSync("t", 3, 99, 70).value()
    assert sync.headers() == ((COUNT_HEADER, (50).to_bytes(8, "big")),)
    assert offset_syncs.decode(sync.key(), sync.value(), [("x", None), *sync.headers()]) == sync


@pytest.mark.parametrize(
    ("count", "part"),
    [(b"\x00", "ends before the end of its count"), (bytes(8), "has 0 for the pair"), (b"\x00" * 7 + b"\x09", "has 9")],
)
def test_a_wrong_length_of_a_range_is_refused(count: bytes, part: str) -> None:
    """If this fails, groups continue at offsets that were never copied."""
    sync = OffsetSync("t", 0, 7, 20)
    with pytest.raises(DamagedRecord, match=part):
        offset_syncs.decode(sync.key(), sync.value(), [(COUNT_HEADER, count)])


def test_a_checkpoint_and_a_heartbeat() -> None:
    """If this fails, RemoteClusterUtils returns other offsets, or sees no upstream clusters."""
    point = Checkpoint("g", "A.t", 1, 10, 9, "größe")
    assert checkpoints.decode(point.key(), point.value()) == point
    assert point.key() == b"\x00\x01g\x00\x03A.t\x00\x00\x00\x01"
    beat = Heartbeat("A", "B", 1234)
    assert heartbeats.decode(beat.key(), beat.value()) == beat
    assert beat.value() == b"\x00\x00" + (1234).to_bytes(8, "big")


def test_ids_of_topics_are_in_headers() -> None:
    """Kafka Connect ignores headers. If this fails, MirrorMaker 2 cannot read our offsets, or a topic that was created
    again is taken for the old one.
    """
    ids = TopicIds(UUID(int=5), UUID(int=1 << 100))
    assert source_offsets.decode_ids([("x", b"1"), *ids.headers()]) == ids
    assert source_offsets.decode_ids(()) == TopicIds()
    assert TopicIds().headers() == ()
    (header,) = TopicIds(source=UUID(int=5)).headers()
    assert header == ("brokercy.source.topic.id", bytes(15) + b"\x05")
    for damaged in (None, b"", bytes(15), bytes(17)):
        assert source_offsets.decode_ids([(header[0], damaged)]) == TopicIds()


POINT, BEAT, SYNC = Checkpoint("g", "t", 1, 10, 9, "m"), Heartbeat("A", "B", 5), OffsetSync("t", 0, 1, 1)


@pytest.mark.parametrize(
    ("decode", "key", "value", "part"),
    [
        (offset_syncs.decode, None, SYNC.value(), "the key of an offset sync is null"),
        (offset_syncs.decode, SYNC.key(), None, "the value of an offset sync is null"),
        (
            offset_syncs.decode,
            SYNC.key()[:-1],
            SYNC.value(),
            "the key of an offset sync ends before the end of its part",
        ),
        (offset_syncs.decode, b"\xff\xffabcd", SYNC.value(), "has the length -1 for its topic"),
        (offset_syncs.decode, b"\x00\x01\xff\x00\x00\x00\x00", SYNC.value(), "a topic that is not in UTF-8"),
        (checkpoints.decode, POINT.key(), b"\x00\x01" + POINT.value()[2:], "unknown version 1"),
        (
            checkpoints.decode,
            POINT.key(),
            POINT.value()[:-1],
            "the value of a checkpoint ends before the end of its meta",
        ),
        (heartbeats.decode, b"", BEAT.value(), "the key of a heartbeat ends before the end of its source alias"),
        (heartbeats.decode, BEAT.key(), BEAT.value()[:5], "the value of a heartbeat ends before the end of its time"),
    ],
)
def test_damaged_records_are_named(
    decode: Callable[[bytes | None, bytes | None], object], key: bytes | None, value: bytes | None, part: str
) -> None:
    """If this fails, one damaged record stops a mirror without a reason, or gives wrong offsets."""
    with pytest.raises(DamagedRecord, match=part):
        decode(key, value)


def test_texts_that_are_too_long_are_refused() -> None:
    """If this fails, a record is written that MirrorMaker 2 cannot read."""
    with pytest.raises(ValueError, match="the metadata has 32768 bytes"):
        Checkpoint("g", "t", 1, 10, 9, "x" * 32_768).value()


def test_an_offset_of_the_source_is_what_connect_writes() -> None:
    """If this fails, a MirrorMaker 2 that is replaced starts again, or log compaction keeps two offsets."""
    partition = SourcePartition("A", "orders", 3)
    assert partition.key() == b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
    assert source_offsets.encode_offset(41) == b'{"offset":41}'
    assert source_offsets.decode_key(partition.key()) == partition
    assert source_offsets.decode_offset(b'{"offset":41}') == 41
    assert source_offsets.decode_offset(None) is None
    assert source_offsets.decode_offset(b"null") is None
    spaced = b'[ "c", {"topic": "t", "cluster": "\\u0041", "partition": 0} ]'
    assert source_offsets.decode_key(spaced) == SourcePartition("A", "t", 0, "c")


def test_a_flow_continues_after_its_last_record() -> None:
    """If this fails, a flow that takes over from MirrorMaker 2 copies records twice, or leaves one out."""
    reached = ReachedOffsets("A")
    first, second = SourcePartition("A", "t", 0), SourcePartition("A", "t", 1)
    for partition, offset in (
        (first, 5),
        (second, 7),
        (first, 6),
        (SourcePartition("C", "t", 0), 90),
        (SourcePartition("A", "t", 0, "other"), 91),
    ):
        reached.apply(partition.key(), source_offsets.encode_offset(offset))
    reached.apply(second.key(), None)
    reached.apply(b'["MirrorHeartbeatConnector",{}]', b"{}")
    assert [reached.next_offset("t", partition) for partition in range(2)] == [7, None]
    with pytest.raises(DamagedRecord):
        reached.apply(first.key(), b"{}")
    assert reached.next_offset("t", 0) == 7


def test_keys_of_other_connectors_are_skipped() -> None:
    """If this fails, a topic that MirrorMaker 2's connectors share cannot be read."""
    for key in (
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["MirrorCheckpointConnector",{"group":"g","partition":0,"topic":"t"}]',
        b'["x",[1]]',
    ):
        assert source_offsets.decode_key(key) is None


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"{}",
        b'["a"]',
        b'[1,{"cluster":"A","partition":0,"topic":"t"}]',
        b'["a",{"cluster":1,"partition":0,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":-1,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":2147483648,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":true,"topic":"t"}]',
        b"[" * 100_000,
        b'["a",{"cluster":"\xff","partition":0,"topic":"t"}]',
    ],
)
def test_damaged_keys_of_offsets_are_refused(key: bytes | None) -> None:
    """If this fails, a flow starts from the begin although its offsets exist, or ends with an unknown error."""
    with pytest.raises(DamagedRecord, match="the key of a source offset"):
        source_offsets.decode_key(key)


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b'{"offset":-1}', b'{"offset":1.0}', b'{"offset":9223372036854775808}']
)
def test_damaged_offsets_are_refused(value: bytes) -> None:
    """If this fails, a flow continues at a wrong record."""
    with pytest.raises(DamagedRecord, match="the value of a source offset"):
        source_offsets.decode_offset(value)
