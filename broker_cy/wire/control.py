"""Control records: transaction markers in partitions, and the quorum's own records in the metadata log and snapshots.

A control batch holds control records only. The key is version int16 (0) and type int16; the value is one of the
messages below (Kafka's EndTxnMarker, LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord,
KRaftVersionRecord, VotersRecord). A value starts with its version; all values except the marker's have the flexible
encoding (KIP-482). Unknown tagged fields are skipped.
"""

import struct
import uuid
from enum import IntEnum

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.core.writer import Writer
from broker_cy.wire.records import Record

_KEY = struct.Struct(">hh")
_NO_DIRECTORY = uuid.UUID(int=0)


class ControlType(IntEnum):
    """The types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction in one partition; the type of the record is commit or abort."""

    commit: bool
    coordinator_epoch: int


class Voter(NamedTuple):
    """A voter of the metadata quorum. The directory id is all zeros in version 0."""

    voter_id: int
    directory_id: uuid.UUID = _NO_DIRECTORY


class LeaderChange(NamedTuple):
    """The first record of a leader's epoch. Version 1 has directory ids (KIP-853)."""

    leader_id: int
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]
    version: int = 0


class SnapshotHeader(NamedTuple):
    """The first record of a snapshot: the append time, in ms, of the last record that the snapshot contains."""

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """The last record of a snapshot."""


class KraftVersion(NamedTuple):
    """The quorum's protocol version (the feature kraft.version)."""

    kraft_version: int


class VoterEndpoint(NamedTuple):
    """The address of a voter on one listener."""

    name: str
    host: str
    port: int


class VoterSetEntry(NamedTuple):
    """A voter in the voter set, with the kraft versions that it supports."""

    voter_id: int
    directory_id: uuid.UUID
    endpoints: tuple[VoterEndpoint, ...]
    min_kraft_version: int
    max_kraft_version: int


class KraftVoters(NamedTuple):
    """The voter set (KIP-853)."""

    voters: tuple[VoterSetEntry, ...]


ControlMessage = EndTxnMarker | LeaderChange | SnapshotHeader | SnapshotFooter | KraftVersion | KraftVoters


def control_type(record: Record) -> ControlType | int:
    """The type in a control record's key; a plain number for an unknown type, whose records readers must skip.

    Raises WireError for a record that is not a control record.
    """
    if record.key is None or len(record.key) < _KEY.size:
        raise WireError(
            f"control record at offset {record.offset} has the key {record.key!r}; a version and a type are expected"
        )
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise WireError(f"control record at offset {record.offset} has key version {version}; it must not be negative")
    try:
        return ControlType(number)
    except ValueError:
        return int(number)


def encode_control(message: ControlMessage, timestamp: int) -> Record:
    """The control record of `message`, with `timestamp` in ms, for encode_batch(..., control=True)."""
    out = Writer()
    kind = _put_message(out, message)
    return Record(timestamp=timestamp, key=_KEY.pack(0, kind), value=out.getvalue())


def decode_control(record: Record) -> ControlMessage | None:
    """The message of a control record; None for an unknown type, whose records readers must skip.

    Raises WireError for a record that is not a control record or whose value is malformed.
    """
    kind = control_type(record)
    if not isinstance(kind, ControlType):
        return None
    if record.value is None:
        raise WireError(f"control record {kind.name} at offset {record.offset} has no value")
    cursor = Cursor(record.value)
    version = cursor.read_i16()
    if version < 0:
        raise WireError(
            f"control record {kind.name} at offset {record.offset} has version {version}; it must not be negative"
        )
    return _take_message(cursor, kind, version)


def _put_message(out: Writer, message: ControlMessage) -> ControlType:
    match message:
        case EndTxnMarker(commit, epoch):
            out.write_i16(0)
            out.write_i32(epoch)
            return ControlType.COMMIT if commit else ControlType.ABORT
        case LeaderChange():
            _put_leader_change(out, message)
            return ControlType.LEADER_CHANGE
        case SnapshotHeader(timestamp):
            out.write_i16(0)
            out.write_i64(timestamp)
            kind = ControlType.SNAPSHOT_HEADER
        case SnapshotFooter():
            out.write_i16(0)
            kind = ControlType.SNAPSHOT_FOOTER
        case KraftVersion(version):
            out.write_i16(0)
            out.write_i16(version)
            kind = ControlType.KRAFT_VERSION
        case KraftVoters():
            _put_voters(out, message)
            return ControlType.KRAFT_VOTERS
    _put_no_tags(out)
    return kind


def _take_message(cursor: Cursor, kind: ControlType, version: int) -> ControlMessage:
    message: ControlMessage
    match kind:
        case ControlType.ABORT | ControlType.COMMIT:
            return EndTxnMarker(kind is ControlType.COMMIT, cursor.read_i32())
        case ControlType.LEADER_CHANGE:
            leader_id = cursor.read_i32()
            voters, granting = _take_voters(cursor, version), _take_voters(cursor, version)
            message = LeaderChange(leader_id, voters, granting, version)
        case ControlType.SNAPSHOT_HEADER:
            message = SnapshotHeader(cursor.read_i64())
        case ControlType.SNAPSHOT_FOOTER:
            message = SnapshotFooter()
        case ControlType.KRAFT_VERSION:
            message = KraftVersion(cursor.read_i16())
        case ControlType.KRAFT_VOTERS:
            message = KraftVoters(tuple(_take_voter_entry(cursor) for _ in range(_take_count(cursor))))
    _skip_tags(cursor)
    return message


def _put_no_tags(out: Writer) -> None:
    out.write_uvarint(0)


def _skip_tags(cursor: Cursor) -> None:
    for _ in range(cursor.read_uvarint()):
        cursor.read_uvarint()
        cursor.read_bytes(cursor.read_uvarint())


def _put_count(out: Writer, count: int) -> None:
    out.write_uvarint(count + 1)


def _take_count(cursor: Cursor) -> int:
    count = cursor.read_uvarint() - 1
    # An element takes at least one byte, so a larger count is invalid and nothing is allocated for it.
    if not 0 <= count <= cursor.left:
        raise WireError(f"an array or a string has length {count}, but {cursor.left} bytes are left")
    return count


def _put_text(out: Writer, text: str) -> None:
    data = text.encode()
    _put_count(out, len(data))
    out.write_bytes(data)


def _take_text(cursor: Cursor) -> str:
    return cursor.read_bytes(_take_count(cursor)).decode("utf-8", "replace")


def _take_uuid(cursor: Cursor) -> uuid.UUID:
    return uuid.UUID(bytes=cursor.read_bytes(16))


def _put_leader_change(out: Writer, message: LeaderChange) -> None:
    if message.version not in (0, 1):
        raise ValueError(f"LeaderChange cannot be written in version {message.version}; 0 and 1 are supported")
    out.write_i16(message.version)
    out.write_i32(message.leader_id)
    for voters in (message.voters, message.granting_voters):
        _put_count(out, len(voters))
        for voter in voters:
            out.write_i32(voter.voter_id)
            if message.version >= 1:
                out.write_bytes(voter.directory_id.bytes)
            _put_no_tags(out)
    _put_no_tags(out)


def _take_voters(cursor: Cursor, version: int) -> tuple[Voter, ...]:
    voters = []
    for _ in range(_take_count(cursor)):
        voter_id = cursor.read_i32()
        voters.append(Voter(voter_id, _take_uuid(cursor) if version >= 1 else _NO_DIRECTORY))
        _skip_tags(cursor)
    return tuple(voters)


def _put_voters(out: Writer, message: KraftVoters) -> None:
    out.write_i16(0)
    _put_count(out, len(message.voters))
    for voter in message.voters:
        out.write_i32(voter.voter_id)
        out.write_bytes(voter.directory_id.bytes)
        _put_count(out, len(voter.endpoints))
        for endpoint in voter.endpoints:
            _put_text(out, endpoint.name)
            _put_text(out, endpoint.host)
            out.write_u16(endpoint.port)
            _put_no_tags(out)
        out.write_i16(voter.min_kraft_version)
        out.write_i16(voter.max_kraft_version)
        _put_no_tags(out)
        _put_no_tags(out)
    _put_no_tags(out)


def _take_voter_entry(cursor: Cursor) -> VoterSetEntry:
    voter_id, directory_id = cursor.read_i32(), _take_uuid(cursor)
    endpoints = []
    for _ in range(_take_count(cursor)):
        endpoints.append(VoterEndpoint(_take_text(cursor), _take_text(cursor), cursor.read_u16()))
        _skip_tags(cursor)
    lowest, highest = cursor.read_i16(), cursor.read_i16()
    _skip_tags(cursor)
    _skip_tags(cursor)
    return VoterSetEntry(voter_id, directory_id, tuple(endpoints), lowest, highest)
