"""Requests, messages, the Produce and Fetch views, control records and the frames of the metadata log."""

from __future__ import annotations

import functools
import struct
import uuid
from array import array

from broker_cy.core.errors import WireError
from broker_cy.metadata import framing
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.schemas import tables
from broker_cy.wire import codec, control, messages
from broker_cy.wire.codec import Message
from broker_cy.wire.fetch import parse_fetch
from broker_cy.wire.frame import ApiKey, api_versions, parse_request_header, request_class, request_header_version
from broker_cy.wire.produce import parse_produce
from broker_cy.wire.records import Record
from tests.broker_cy.wire.random_messages import ALL, Generator
from tests.fuzz.target import Target

PRODUCE_VERSIONS = (3, 13)
FETCH_VERSIONS = (4, 18)
GROUP_RECORDS = [(name, version) for name, version in ALL if name.endswith(("Key", "Value")) and name != "EndTxnMarker"]


def exact(data: bytes) -> array[int]:
    """Return a copy without the zero that CPython keeps after bytes, so that a sanitizer detects a read of one byte too
    many.
    """
    return array("B", data)


# --- requests: header and body of every API


def request_frame(key: int, version: int, message: Message) -> bytes:
    """A request without its length."""
    header = struct.pack(">hhih", key, version, 7, 4) + b"fuzz"
    tags = b"\x00" if request_header_version(key, version) >= 2 else b""
    return header + tags + codec.encode(message, version)


def request_corpus() -> list[bytes]:
    """Requests of every API in each of its versions."""
    return [
        request_frame(key, version, Generator((key, version)).message(request_class(key).__name__, version))
        for key in ApiKey
        for version in range(api_versions(key)[0], api_versions(key)[1] + 1)
    ]


def run_request(data: bytes) -> None:
    """Parse as the server does."""
    frame = memoryview(exact(data))
    key, version, _, _, at = parse_request_header(frame)
    codec.decode(request_class(key), version, frame[at:])


# --- messages: any message or record in any version, chosen by the first two bytes


def message_corpus() -> list[bytes]:
    """One message of every kind and version."""
    return [
        struct.pack(">H", number) + codec.encode(Generator(("any", name, version)).message(name, version), version)
        for number, (name, version) in enumerate(ALL)
    ]


def run_message(data: bytes) -> None:
    """A message that is read can be written and read back unchanged."""
    name, version = ALL[int.from_bytes(data[:2]) % len(ALL)]
    cls = getattr(messages, name)
    again = codec.encode(codec.decode(cls, version, exact(data[2:])), version)
    assert codec.encode(codec.decode(cls, version, again), version) == again


# --- the hand-written views; the first byte selects the version, and the codec is the reference


def _view_corpus(name: str, low: int, high: int) -> list[bytes]:
    return [
        bytes((version - low,)) + codec.encode(Generator((name, version, i)).message(name, version), version)
        for version in range(low, high + 1)
        for i in range(8)
    ]


def run_produce_view(data: bytes) -> None:
    """If the codec accepts a request, the view reads the same from it."""
    low, high = PRODUCE_VERSIONS
    version = low + data[0] % (high - low + 1) if data else low
    body = data[1:]
    try:
        acks, timeout_ms, transactional, topics = parse_produce(body, version)
    except WireError:
        refuse_with_codec(messages.ProduceRequest, version, body)
        raise
    request = codec.decode(messages.ProduceRequest, version, body)
    assert (acks, timeout_ms, transactional) == (request.acks, request.timeout_ms, request.transactional_id is not None)
    assert topics == [
        (
            topic.topic_id.bytes if version >= 13 else topic.name.encode(),
            [(part.index, part.records) for part in topic.partition_data],
        )
        for topic in request.topic_data
    ]


def run_fetch_view(data: bytes) -> None:
    """If the codec accepts a request, the view reads the same from it."""
    low, high = FETCH_VERSIONS
    version = low + data[0] % (high - low + 1) if data else low
    body = data[1:]
    try:
        view = parse_fetch(body, version)
    except WireError:
        refuse_with_codec(messages.FetchRequest, version, body)
        raise
    request = codec.decode(messages.FetchRequest, version, body)
    for name in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch"):
        assert view[name] == getattr(request, name), name
    assert view["replica_id"] == (request.replica_id if version < 15 else request.replica_state.replica_id)
    assert view["topics"] == [
        (
            topic.topic_id.bytes if version >= 13 else topic.topic.encode(),
            [
                (
                    part.partition,
                    part.current_leader_epoch,
                    part.fetch_offset,
                    part.last_fetched_epoch,
                    part.log_start_offset,
                    part.partition_max_bytes,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    assert view["forgotten"] == [
        (topic.topic_id.bytes if version >= 13 else topic.topic.encode(), topic.partitions)
        for topic in request.forgotten_topics_data
    ]


def refuse_with_codec(cls: type[Message], version: int, body: bytes) -> None:
    """Raise AssertionError if the codec accepts a request that a view has refused."""
    try:
        codec.decode(cls, version, body)
    except WireError:
        return
    raise AssertionError(f"the codec reads what the view of {cls.__name__} v{version} refuses")


# --- control records: the key's length in the first byte, key, value


def _with_key(key: bytes, value: bytes) -> bytes:
    return bytes((len(key),)) + key + value


def control_corpus() -> list[bytes]:
    """One record of each type, and more of those with lists."""
    one, two = uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)
    endpoint = control.VoterEndpoint("CONTROLLER", "localhost", 9093)
    voters = (control.VoterSetEntry(1, one, (endpoint, endpoint), 0, 1), control.VoterSetEntry(2, two, (), 1, 1))
    all_of_them: list[control.ControlMessage] = [
        control.EndTxnMarker(True, 5),
        control.EndTxnMarker(False, -1),
        control.LeaderChange(1, (control.Voter(1), control.Voter(2)), (control.Voter(1),)),
        control.LeaderChange(1, (control.Voter(1, one), control.Voter(2, two)), (control.Voter(1, one),), 1),
        control.SnapshotHeader(1_700_000_000_000),
        control.SnapshotFooter(),
        control.KraftVersion(1),
        control.KraftVoters(voters),
    ]
    records = [control.encode_control(message, 0) for message in all_of_them]
    return [_with_key(record.key or b"", record.value or b"") for record in records]


def run_control(data: bytes) -> None:
    """Unknown types are skipped."""
    size = data[0] if data else 0
    control.decode_control(Record(key=data[1 : 1 + size], value=data[1 + size :]))


# --- records of the metadata log


@functools.cache
def _metadata_records() -> list[tuple[str, int]]:
    return [
        (name, version)
        for name in framing.RECORD_TYPES.values()
        for version in range(tables.load(name).versions.low, tables.load(name).versions.high + 1)
    ]


def metadata_corpus() -> list[bytes]:
    """One record of each type and version."""
    return [
        framing.frame(VersionedRecord(Generator(("metadata", name, version)).message(name, version), version))
        for name, version in _metadata_records()
    ]


def run_metadata(data: bytes) -> None:
    """Read as a start does."""
    framing.unframe(data)


# --- records of __consumer_offsets and __transaction_state: the kind in the first byte


def group_corpus() -> list[bytes]:
    """Keys and values of every type."""
    return [
        bytes((number,)) + codec.encode_versioned(Generator(("group", name, version)).message(name, version), version)
        for number, (name, version) in enumerate(GROUP_RECORDS)
    ]


def run_group(data: bytes) -> None:
    """Read as a coordinator does when it loads its partition."""
    name, _ = GROUP_RECORDS[data[0] % len(GROUP_RECORDS) if data else 0]
    codec.decode_versioned(getattr(messages, name), exact(data[1:]))


TARGETS = {
    target.name: target
    for target in (
        Target("requests", request_corpus, run_request, (WireError,), 300_000),
        Target("messages", message_corpus, run_message, (WireError,), 150_000),
        Target(
            "produce_view",
            lambda: _view_corpus("ProduceRequest", *PRODUCE_VERSIONS),
            run_produce_view,
            (WireError,),
            80_000,
        ),
        Target(
            "fetch_view", lambda: _view_corpus("FetchRequest", *FETCH_VERSIONS), run_fetch_view, (WireError,), 80_000
        ),
        Target("control", control_corpus, run_control, (WireError,), 50_000),
        Target("metadata", metadata_corpus, run_metadata, (MetadataLogError,), 60_000),
        Target("group_records", group_corpus, run_group, (WireError,), 60_000),
    )
}
