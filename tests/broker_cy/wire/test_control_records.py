"""Control records: transaction markers and the quorum's records, in the bytes of Kafka 4.3.1's own serializers."""

import uuid

import pytest

from broker_cy.core.errors import WireError
from broker_cy.wire.control import (
    ControlMessage,
    ControlType,
    EndTxnMarker,
    KraftVersion,
    KraftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
    VoterSetEntry,
    control_type,
    decode_control,
    encode_control,
)
from broker_cy.wire.records import Record, decode_batches, encode_batch

DIRECTORY = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
DIRECTORY_HEX = DIRECTORY.hex

# The values on the right were encoded by Kafka's generated classes.
MESSAGES: list[tuple[ControlMessage, ControlType, str]] = [
    (EndTxnMarker(commit=False, coordinator_epoch=7), ControlType.ABORT, "000000000007"),
    (EndTxnMarker(commit=True, coordinator_epoch=-1), ControlType.COMMIT, "0000ffffffff"),
    (
        LeaderChange(3, (Voter(3, DIRECTORY), Voter(4)), (Voter(3, DIRECTORY),), version=1),
        ControlType.LEADER_CHANGE,
        f"0001000000030300000003{DIRECTORY_HEX}0000000004{'00' * 16}000200000003{DIRECTORY_HEX}0000",
    ),
    (SnapshotHeader(1_700_000_000_000), ControlType.SNAPSHOT_HEADER, "00000000018bcfe5680000"),
    (SnapshotFooter(), ControlType.SNAPSHOT_FOOTER, "000000"),
    (KraftVersion(1), ControlType.KRAFT_VERSION, "0000000100"),
    (
        KraftVoters((VoterSetEntry(7, DIRECTORY, (VoterEndpoint("CONTROLLER", "localhost", 39093),), 0, 1),)),
        ControlType.KRAFT_VOTERS,
        f"00000200000007{DIRECTORY_HEX}020b434f4e54524f4c4c45520a6c6f63616c686f737498b50000000001000000",
    ),
]


@pytest.mark.parametrize(("message", "kind", "value"), MESSAGES, ids=[kind.name for _, kind, _ in MESSAGES])
def test_values_are_kafkas_bytes(message: ControlMessage, kind: ControlType, value: str) -> None:
    """Kafka's tools read our markers, metadata log and snapshots, and we read Kafka's."""
    record = encode_control(message, 1_700_000_000_000)
    assert record.key == b"\0\0\0" + bytes([kind])
    assert record.value is not None
    assert record.value.hex() == value
    (batch,) = decode_batches(encode_batch([record], control=True, leader_epoch=4))
    assert batch.is_control
    assert [decode_control(each) for each in batch] == [message]
    assert control_type(record) is kind


@pytest.mark.parametrize(("message", "kind", "value"), MESSAGES, ids=[kind.name for _, kind, _ in MESSAGES])
def test_a_damaged_value_is_reported(message: ControlMessage, kind: ControlType, value: str) -> None:
    """A truncated control record is never accepted as complete, and a changed one never crashes the reader."""
    record = encode_control(message, 0)
    assert record.value is not None
    for cut in range(len(record.value)):
        with pytest.raises(WireError):
            decode_control(Record(key=record.key, value=record.value[:cut]))
    for at in range(len(record.value)):
        damaged = bytearray(record.value)
        damaged[at] ^= 0xFF
        try:
            decode_control(Record(key=record.key, value=damaged))
        except WireError:
            pass


def test_unknown_types_are_skipped_and_broken_keys_reported() -> None:
    """A newer Kafka's control records do not stop the reader; an invalid record is named."""
    newer = Record(offset=9, key=b"\0\0\0\x63", value=b"")
    assert control_type(newer) == 99
    assert decode_control(newer) is None
    for key in (None, b"", b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(WireError, match="offset 9"):
            decode_control(Record(offset=9, key=key, value=b""))
    with pytest.raises(WireError, match="no value"):
        decode_control(Record(key=b"\0\0\0\1"))


def test_unknown_tagged_fields_are_skipped() -> None:
    """A field that a later release added leaves the known ones readable."""
    value = bytes.fromhex("00000001") + b"\x01\x00\x03abc"
    assert decode_control(Record(key=b"\0\0\0\x05", value=value)) == KraftVersion(1)
