"""The records of `__consumer_offsets`: against the codec, against what a real Kafka wrote, and for groups not
served.
"""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.coordinator import admin, expiry
from broker_cy.coordinator.classic.records import group_key
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.offset_record import (
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.settings import ConsumerGroupSettings, MigrationPolicy
from broker_cy.coordinator.share import records as share_records
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import codec, messages
from broker_cy.wire.records import decode_batches
from tests.broker_cy.coordinator.harness import GROUP, Harness, durable, replayed

FIXTURE = Path(__file__).parents[2] / "fixtures/kafka-4.3.1/logdir/__consumer_offsets-0/00000000000000000000.log"

int64s = st.integers(-(1 << 63), (1 << 63) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
texts = st.text(max_size=60)
uuids = st.uuids() | st.just(UUID(int=0))


@given(texts, texts, int32s)
def test_offset_keys_are_those_of_the_codec(group: str, topic: str, partition: int) -> None:
    """If this fails, no other broker finds the committed offsets."""
    message = messages.OffsetCommitKey(group=group, topic=topic, partition=partition)
    key = encode_offset_key(group, topic, partition)
    assert key == struct.pack(">h", 1) + codec.encode(message, 0)
    assert decode_offset_key(key) == (group, topic, partition)
    assert decode_offset_key(b"\0\0" + key[2:]) == (group, topic, partition)


@given(st.integers(0, 4), int64s, int32s, texts, int64s, int64s, uuids, int64s)
def test_offset_values_are_read_as_the_codec_writes_them(
    version: int, offset: int, epoch: int, metadata: str, commit_ms: int, expire_ms: int, topic_id: UUID, at: int
) -> None:
    """If this fails, offsets that any version of Kafka has committed are lost or wrong."""
    message = messages.OffsetCommitValue(
        offset=offset,
        leader_epoch=epoch if version >= 3 else -1,
        metadata=metadata,
        commit_timestamp=commit_ms,
        expire_timestamp=expire_ms if version == 1 else -1,
        topic_id=topic_id if version >= 4 else UUID(int=0),
    )
    found = decode_offset_value(codec.encode_versioned(message, version), at)
    assert (found.committed_offset, found.metadata, found.commit_timestamp_ms) == (offset, metadata, commit_ms)
    assert (found.leader_epoch, found.expire_timestamp_ms) == (message.leader_epoch, message.expire_timestamp)
    assert (found.topic_id, found.record_offset) == (message.topic_id, at)


@given(int64s, int32s, texts, int64s, int64s, uuids)
def test_offset_values_are_written_as_the_codec_writes_them(
    offset: int, epoch: int, metadata: str, commit_ms: int, expire_ms: int, topic_id: UUID
) -> None:
    """If this fails, no other broker reads the committed offsets. Kafka writes version 1 for a commit with its own
    expiry.
    """
    value = encode_offset_value(offset, epoch, metadata, commit_ms, expire_ms, topic_id.bytes)
    version = 4 if expire_ms == -1 else 1
    message = messages.OffsetCommitValue(
        offset=offset,
        leader_epoch=epoch,
        metadata=metadata,
        commit_timestamp=commit_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )
    assert value == codec.encode_versioned(message, version)


@given(st.binary(max_size=80))
def test_damaged_records_are_refused(data: bytes) -> None:
    """If this fails, a damaged record reads foreign memory or is accepted as an offset."""
    for decode in (decode_offset_key, decode_offset_value):
        try:
            decode(data)
        except (WireError, UnicodeDecodeError):
            continue


@pytest.mark.parametrize("cut", [1, 5])
def test_cut_and_prolonged_values_are_refused(cut: int) -> None:
    """If this fails, half a record is accepted as a whole one."""
    value = encode_offset_value(1, 2, "m", 3, -1, UUID(int=9).bytes)
    with pytest.raises(WireError):
        decode_offset_value(value[:-cut])
    with pytest.raises(WireError):
        decode_offset_value(value + b"\0" * cut)
    with pytest.raises(WireError, match="version 5"):
        decode_offset_value(b"\0\5" + value[2:])


# ---- a log of a real Kafka ----


def loaded_fixture() -> Harness:
    h = Harness()
    for batch in decode_batches(FIXTURE.read_bytes()):
        for record in batch.records():
            assert record.key is not None
            h.machine.apply(record.offset, batch.producer_id, record.key, record.value)
    h.machine.loaded(h.now)
    return h


def test_log_of_a_real_kafka_is_understood() -> None:
    """If this fails, a cluster that migrates to this broker loses its groups."""
    h = loaded_fixture()
    group = h.group("classic-sample")
    assert (group.state, group.generation, group.protocol_type) == (GroupState.EMPTY, 2, "consumer")
    assert group.state_timestamp_ms == 1795239900756
    assert h.fetch(group_id="classic-sample", topic="sample").committed_offset == 100
    assert h.fetch(group_id="consumer-sample", topic="compacted").committed_offset == 100
    assert h.machine.next_offset == 14
    assert h.machine.unknown_records == 0


def test_records_of_classic_groups_are_written_as_kafka_writes_them() -> None:
    """If this fails, Kafka, or its dump tool, reads something else from our log."""
    found = [
        record
        for batch in decode_batches(FIXTURE.read_bytes())
        for record in batch.records()
        if record.key == group_key("classic-sample")
    ]
    assert len(found) == 3
    for record in found:
        value, version = codec.decode_versioned(messages.GroupMetadataValue, record.value or b"")
        assert version == 3
        assert codec.encode_versioned(value, version) == record.value
    h = Harness()
    h.join("a", group_id="classic-sample", client_id="rdkafka")
    assert h.log[0].key == found[0].key
    mine, _ = codec.decode_versioned(messages.GroupMetadataValue, h.log[0].value or b"")
    kafkas, _ = codec.decode_versioned(messages.GroupMetadataValue, found[0].value or b"")
    mine.current_state_timestamp = kafkas.current_state_timestamp
    assert mine == kafkas


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_group_records_of_every_version_are_read(version: int) -> None:
    """If this fails, groups written by an older Kafka come back without members."""
    member = messages.GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=9_000, subscription=b"s", assignment=b"a"
    )
    if version >= 1:
        member.rebalance_timeout = 70_000
    value = messages.GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol="range", leader="m", members=[member]
    )
    if version >= 2:
        value.current_state_timestamp = 123
    h = Harness()
    h.machine.apply(0, -1, group_key(GROUP), codec.encode_versioned(value, version))
    h.machine.loaded(h.now)
    group = h.group()
    assert (group.state, group.generation, group.leader_id) == (GroupState.STABLE, 5, "m")
    assert group.members["m"].rebalance_timeout_ms == (70_000 if version >= 1 else 9_000)
    assert group.state_timestamp_ms == (123 if version >= 2 else None)
    assert h.heartbeat("m", 5) is ErrorCode.NONE


# ---- groups of other types ----


def key_of(kind: int, group_id: str, *more: str) -> bytes:
    out = struct.pack(">h", kind)
    for text in (group_id, *more):
        out += struct.pack(">h", len(text)) + text.encode()
    return out


def consumer_group(h: Harness, *, member_epoch: int | None) -> None:
    """Return a KIP-848 group at epoch 3 with one member at `member_epoch`, or without members."""
    records = [
        (key_of(3, "modern"), messages.ConsumerGroupMetadataValue(epoch=3)),
        (key_of(6, "modern"), messages.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3)),
    ]
    if member_epoch is not None:
        current = messages.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=member_epoch)
        records.append((key_of(5, "modern", "m"), messages.ConsumerGroupMemberMetadataValue(client_id="c")))
        records.append((key_of(8, "modern", "m"), current))
    for key, value in records:
        h.machine.apply(h.machine.next_offset, -1, key, codec.encode_versioned(value, 0))
    h.machine.loaded(h.now)


@pytest.mark.parametrize(("epoch", "state"), [(None, "Empty"), (3, "Stable"), (2, "Reconciling")])
def test_consumer_group_is_listed_as_what_it_is(epoch: int | None, state: str) -> None:
    """If this fails, tools show a KIP-848 group as a classic one, or not at all."""
    h = Harness()
    consumer_group(h, member_epoch=epoch)
    (found,) = h.list_groups([state.upper()], ["consumer"])
    assert (found.group_id, found.protocol_type, found.group_state, found.group_type) == (
        "modern",
        "consumer",
        state,
        "consumer",
    )
    assert h.list_groups([], ["classic"]) == []
    described = h.describe("modern", 6)
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a classic group" in (described.error_message or "")


def test_consumer_group_is_not_served_as_a_classic_one() -> None:
    """If this fails, a classic member overwrites a group of another protocol."""
    h = Harness(consumer=ConsumerGroupSettings(migration_policy=MigrationPolicy.DISABLED))
    consumer_group(h, member_epoch=3)
    before = durable(h.machine)
    assert h.join("j", group_id="modern", version=3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.sync("s", "m", 3, group_id="modern").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat("m", 3, group_id="modern") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.leave("l", ("x", None), group_id="modern") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.commit("c1", 1, group_id="modern") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit("c2", 1, group_id="modern", member_id="m", generation=4) is ErrorCode.STALE_MEMBER_EPOCH
    assert h.delete_groups("d", "modern") == {"modern": ErrorCode.NON_EMPTY_GROUP}
    h.run(expiry.sweep)
    assert durable(h.machine) == before
    assert h.log == []


def test_offsets_of_an_empty_consumer_group_are_an_administrators() -> None:
    """If this fails, kafka-consumer-groups cannot reset the offsets of a group that migrated from Kafka."""
    h = Harness()
    consumer_group(h, member_epoch=None)
    assert h.commit("c", 5, group_id="modern") is ErrorCode.NONE
    assert h.fetch(group_id="modern").committed_offset == 5
    assert h.fetch(group_id="modern", member_id="m", member_epoch=3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.machine.classic("modern") is None
    assert h.delete_offsets("d", "t", 0, group_id="modern").topics[0].partitions[0].error_code == ErrorCode.NONE
    assert h.fetch(group_id="modern").committed_offset == -1


def test_empty_consumer_group_is_deleted_whole() -> None:
    """If this fails, a deleted group is back after a restart, with half of its records."""
    h = Harness()
    consumer_group(h, member_epoch=None)
    h.commit("c", 5, group_id="modern")
    h.hold = True
    h.delete_groups("d", "modern")
    h.fail()
    assert "modern" in h.machine.groups
    h.hold = False
    assert h.delete_groups("again", "modern") == {"modern": ErrorCode.NONE}
    assert h.list_groups() == []
    assert [record.key[:2] for record in h.log if record.value is None][-3:] == [b"\0\6", b"\0\4", b"\0\3"]


def test_member_of_a_group_whose_deletion_fails_is_answered() -> None:
    """If this fails, a client hangs that joined a deleted consumer group, if the deletion cannot be written."""
    h = Harness()
    consumer_group(h, member_epoch=None)
    before = durable(h.machine)
    h.hold = True
    h.delete_groups("d", "modern")
    h.join("j", version=3, group_id="modern")
    assert "j" not in h.answers
    h.fail()
    assert h.answers["j"].error_code == ErrorCode.NOT_COORDINATOR
    assert durable(h.machine) == before
    assert len(h.machine.timers) == 0
    h.join("again", version=3, group_id="modern")
    h.advance(1)
    assert h.answers["again"].error_code == ErrorCode.NONE
    assert h.machine.classic("modern") is not None


def test_share_groups_are_kept_and_refused() -> None:
    """If this fails, offsets are committed in a share group, where no consumer looks for them."""
    h = Harness()
    record = share_records.epoch_record("shared", 1, 0)
    h.machine.apply(0, -1, record.key, record.value)
    h.machine.loaded(h.now)
    assert [g.group_type for g in h.list_groups()] == ["share"]
    assert h.commit("c", 1, group_id="shared") is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.fetch(group_id="shared").committed_offset == -1
    assert h.delete_offsets("o", "t", 0, group_id="shared").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_group_changes_its_type_as_kafka_writes_it() -> None:
    """If this fails, a group that was moved to or from KIP-848 is treated as its previous type."""
    h = Harness()
    h.stable("a")
    h.commit("c", 7, member_id=h.group().leader_id or "", generation=1)
    machine = replayed(h.log, h.settings, h.now)
    machine.apply(10, -1, group_key(GROUP), None)
    machine.apply(11, -1, key_of(3, GROUP), b"\0\0\0\0\0\1\0")
    machine.loaded(h.now)
    assert [g.group_type for g in admin.list_groups(machine.groups.values(), [], [])] == ["consumer"]
    machine.apply(12, -1, key_of(3, GROUP), None)
    machine.apply(13, -1, h.log[0].key, h.log[0].value)
    machine.loaded(h.now)
    assert [g.group_type for g in admin.list_groups(machine.groups.values(), [], [])] == ["classic"]
    assert machine.offsets.get(GROUP, "t", 0) is not None


def test_tombstones_without_a_group_and_unknown_records_change_nothing() -> None:
    """If this fails, loading fails for records that compaction, or a newer or older Kafka, left."""
    h = Harness()
    for kind in set(KeyType) - {KeyType.LEGACY_OFFSET_COMMIT, KeyType.OFFSET_COMMIT}:
        of_a_member = "MEMBER" in kind.name or kind is KeyType.CONSUMER_GROUP_REGULAR_EXPRESSION
        h.machine.apply(0, -1, key_of(kind, "g", *(["m"] if of_a_member else [])), None)
    assert not h.machine.groups
    h.machine.apply(0, -1, key_of(99, "g"), b"\0\0")
    assert h.machine.unknown_records == 1
