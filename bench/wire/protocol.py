"""The few requests that the benchmark sends, encoded by hand with struct, and a blocking client for unmeasured ones.

Deliberately independent of broker_cy: an error in the broker's codec must not cancel itself out here. Layouts follow
the Kafka protocol guide; record batches are format v2 (KIP-98). Versions: Produce 12 and Fetch 12 (flexible, topics by
name), CreateTopics 5, CreatePartitions 2, DeleteTopics 4, IncrementalAlterConfigs 1, ListOffsets 1, ApiVersions 0.
"""

import random
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from bench.wire.endpoint import connect
from bench.wire.framing import exactly, frame
from bench.wire.raw import crc32c

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 18, 19, 20
PRODUCE_VERSION, FETCH_VERSION, CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 12, 12, 5, 4
LIST_OFFSETS_VERSION = 1
LATEST, EARLIEST = -1, -2  # timestamps with this meaning in ListOffsets
ACKS_ALL = -1
CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION = 37, 2
INCREMENTAL_ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS_VERSION = 44, 1
TOPIC_RESOURCE, SET = 2, 0  # of an altered config: the resource's type, and the operation
PARTITIONS_A_CALL = 5_000
TIMEOUT_MS = 30_000
USUAL_REPLICAS = -1  # in CreateTopics: the broker's default.replication.factor (KIP-464)
TOPIC_ALREADY_EXISTS = 36


class ProtocolError(Exception):
    """The target answered with an error code, or not in the protocol's form."""


class Template(NamedTuple):
    """One ready-made request frame; the driver patches correlation id (byte 8) and, for Fetch, the offset."""

    frame: bytes  # the whole frame, or the part before the payload
    partitions: tuple[int, ...]  # Produce: one
    records: int  # Produce: records in the batch
    batch_bytes: int  # Produce: bytes of the record batch
    offset_at: int  # Fetch: position in the frame of the first partition's int64 fetch offset; 0 for Produce
    payload: bytes = b""  # the rest of the frame, if many templates share it


def uvarint(value: int) -> bytes:
    """Encode an unsigned base-128 number, low group first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Encode a zig-zag signed number (at most 64 bits)."""
    return uvarint((value << 1) ^ (value >> 63))


def compact(data: bytes) -> bytes:
    """Encode a compact string or bytes: length plus one, then the bytes."""
    return uvarint(len(data) + 1) + data


def record_batch(value_bytes: int, count: int, seed: int = 1) -> bytes:
    """Build a batch v2 of `count` records with null keys and incompressible values of `value_bytes`; base offset 0."""
    source = random.Random(seed)
    records = b"".join(record(delta, None, source.randbytes(value_bytes)) for delta in range(count))
    return batch_of(records, count)


def record(delta: int, key: bytes | None, value: bytes) -> bytes:
    """Encode record `delta` of a batch, without headers."""
    body = b"\0\0" + varint(delta) + (varint(-1) if key is None else varint(len(key)) + key)
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch_of(records: bytes, count: int, codec_id: int = 0) -> bytes:
    """Build a batch v2 of records that are already encoded and compressed; base offset 0, with the current time."""
    now_ms = int(time.time() * 1000)
    covered = struct.pack(">hiqqqhii", codec_id, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    after_length = struct.pack(">ibI", -1, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(after_length)) + after_length


def largest_batch(value_bytes: int, limit_bytes: int) -> tuple[bytes, int]:
    """Return the batch with as many records of `value_bytes` as fit into `limit_bytes`, and their number."""
    count = max(1, (limit_bytes - 61) // len_of_record(value_bytes))
    while count > 1 and len(batch := record_batch(value_bytes, count)) > limit_bytes:
        count -= 1
    return (batch if count > 1 else record_batch(value_bytes, 1)), count


def len_of_record(value_bytes: int) -> int:
    """Return the minimum size of one record: no key, no headers, offset and timestamp deltas below 64."""
    body = 2 + 1 + 1 + len(varint(value_bytes)) + value_bytes + 1
    return len(varint(body)) + body


PRODUCE_TAIL = b"\0\0\0"  # the tag buffers of partition, topic and request


def produce_request(topic: str, partition: int, batch: bytes, count: int, acks: int = ACKS_ALL) -> Template:
    """Build a Produce v12 request for one partition."""
    apart = produce_apart(topic, partition, batch + PRODUCE_TAIL, count, acks)
    return apart._replace(frame=apart.frame + apart.payload, payload=b"")


def produce_apart(topic: str, partition: int, payload: bytes, count: int, acks: int) -> Template:
    """Like `produce_request`, but the payload, a batch and PRODUCE_TAIL, is not copied: templates can share it."""
    batch_bytes = len(payload) - len(PRODUCE_TAIL)
    body = uvarint(0) + struct.pack(">hi", acks, TIMEOUT_MS)
    body += uvarint(2) + compact(topic.encode())
    body += uvarint(2) + struct.pack(">i", partition) + uvarint(batch_bytes + 1)
    whole = frame(PRODUCE, PRODUCE_VERSION, body)
    size = len(whole) - 4 + len(payload)
    return Template(struct.pack(">i", size) + whole[4:], (partition,), count, batch_bytes, 0, payload)


def fetch_request(
    topic: str, partition: int, max_bytes: int, max_wait_ms: int = 500, committed: bool = False
) -> Template:
    """Build a Fetch v12 request for one partition without a session; the offset is patched by the driver."""
    return fetch_all_request(topic, (partition,), max_bytes, max_wait_ms, committed)


def fetch_all_request(
    topic: str, partitions: tuple[int, ...], max_bytes: int, max_wait_ms: int = 500, committed: bool = False
) -> Template:
    """Build a Fetch v12 request without a session for some partitions, of `max_bytes` in total; offsets are patched.

    `committed`: with isolation level read_committed.
    """
    body = struct.pack(">iiiibii", -1, max_wait_ms, 1, max_bytes, committed, 0, -1)
    body += uvarint(2) + compact(topic.encode()) + uvarint(len(partitions) + 1)
    offset_at = len(frame(FETCH, FETCH_VERSION, body)) + 8  # after the first index and leader epoch
    for partition in partitions:
        body += struct.pack(">iiqiqib", partition, -1, 0, -1, -1, max_bytes, 0)
    body += b"\0" + uvarint(1) + compact(b"") + b"\0"
    return Template(frame(FETCH, FETCH_VERSION, body), partitions, 0, 0, offset_at)


class Reader:
    """Bounds-checked reader of a response."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ProtocolError(f"response ends early: {size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ProtocolError("varint of more than five bytes")

    def varint(self) -> int:
        """Read a zig-zag number of at most 64 bits."""
        value = shift = 0
        while (byte := self.take(1)[0]) >= 0x80 and shift < 63:
            value |= (byte & 0x7F) << shift
            shift += 7
        value |= byte << shift
        return value >> 1 ^ -(value & 1)

    def string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self.take(size - 1).decode()

    def tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())


def records_of(batch: bytes) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield (offset, key, value) of each record of a complete, uncompressed batch. Raises ProtocolError if damaged."""
    base_offset, length, _, magic, crc, attributes = struct.unpack_from(">qiibIh", batch)
    if length + 12 != len(batch) or magic != 2 or attributes & 7:
        raise ProtocolError(
            f"a batch of {len(batch)} bytes with length {length}, magic {magic}, codec {attributes & 7}"
        )
    if crc32c(memoryview(batch)[21:]) != crc:
        raise ProtocolError(f"wrong checksum in the batch at offset {base_offset}")
    reader = Reader(batch)
    reader.at = 61
    for _ in range(int.from_bytes(batch[57:61], "big")):
        end = reader.varint() + reader.at
        reader.take(1)
        reader.varint()
        offset = base_offset + reader.varint()
        key, value = (None if (size := reader.varint()) < 0 else reader.take(size) for _ in range(2))
        yield offset, key, value
        reader.at = end


class Client:
    """A blocking connection: one request, one response. Raises OSError and ProtocolError."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30) -> None:
        self.socket = connect(address, timeout_s)
        self.correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(self, api_key: int, version: int, body: bytes, flexible: bool = True) -> Reader:
        """Send a request and wait for the response; returns a reader positioned after its header."""
        self.correlation_id += 1
        self.socket.sendall(frame(api_key, version, body, self.correlation_id, flexible))
        return self.receive(flexible)

    def receive(self, flexible: bool) -> Reader:
        size = struct.unpack(">i", self._exactly(4))[0]
        reader = Reader(self._exactly(size))
        if (got := reader.number(4)) != self.correlation_id:
            raise ProtocolError(f"correlation id {got}, expected {self.correlation_id}")
        if flexible:
            reader.tags()
        return reader

    def _exactly(self, size: int) -> bytes:
        if not 0 <= size <= 64 << 20:
            raise ProtocolError(f"response of {size} bytes")
        return exactly(self.socket, size)

    def api_versions(self) -> int:
        """Send ApiVersions v0, which every broker answers; returns the number of APIs."""
        reader = self.call(API_VERSIONS, 0, b"", flexible=False)
        check(reader.number(2), "ApiVersions")
        return reader.number(4)

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1) -> None:
        """Create `topic` with this many replicas; it is not an error if it exists already.

        Uses several calls, because a controller accepts at most 10,000 metadata records in one.
        """
        at_first = min(partitions, PARTITIONS_A_CALL)
        body = uvarint(2) + compact(topic.encode()) + struct.pack(">ih", at_first, replicas) + uvarint(1)
        body += uvarint(len(configs) + 1)
        for name, value in configs.items():
            body += compact(name.encode()) + compact(value.encode()) + b"\0"
        body += b"\0" + struct.pack(">ib", TIMEOUT_MS, 0) + b"\0"
        reader = self.call(CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
        reader.take(4)
        reader.uvarint()
        reader.string()
        code = reader.number(2)
        message = reader.string()
        if code == TOPIC_ALREADY_EXISTS:
            return
        check(code, f"CreateTopics {topic}", message)
        while at_first < partitions:
            at_first = min(partitions, at_first + PARTITIONS_A_CALL)
            self._grow_topic(topic, at_first)

    def _grow_topic(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions of `topic` to `partitions`."""
        body = uvarint(2) + compact(topic.encode()) + struct.pack(">i", partitions) + uvarint(0) + b"\0"
        body += struct.pack(">ib", TIMEOUT_MS, 0) + b"\0"
        reader = self.call(CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, body)
        reader.take(4)
        reader.uvarint()
        reader.string()
        check(reader.number(2), f"CreatePartitions {topic}, {partitions}", reader.string())

    def alter_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set `configs` of `topic`; other settings are unchanged."""
        body = uvarint(2) + struct.pack(">b", TOPIC_RESOURCE) + compact(topic.encode()) + uvarint(len(configs) + 1)
        for name, value in configs.items():
            body += compact(name.encode()) + struct.pack(">b", SET) + compact(value.encode()) + b"\0"
        reader = self.call(INCREMENTAL_ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS_VERSION, body + b"\0" + b"\0" + b"\0")
        reader.take(4)
        reader.uvarint()
        check(reader.number(2), f"IncrementalAlterConfigs {topic}", reader.string())

    def delete_topic(self, topic: str) -> None:
        """Delete `topic`."""
        body = uvarint(2) + compact(topic.encode()) + struct.pack(">i", TIMEOUT_MS) + b"\0"
        reader = self.call(DELETE_TOPICS, DELETE_TOPICS_VERSION, body)
        reader.take(4)
        reader.uvarint()
        reader.string()
        check(reader.number(2), f"DeleteTopics {topic}")

    def list_offsets(self, topic: str, partitions: Collection[int], timestamp: int) -> dict[int, int]:
        """Return the offset at `timestamp` (LATEST, EARLIEST) of each of these partitions."""
        body = struct.pack(">iih", -1, 1, len(topic)) + topic.encode() + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">iq", partition, timestamp) for partition in partitions)
        reader = self.call(LIST_OFFSETS, LIST_OFFSETS_VERSION, body, flexible=False)
        reader.take(4)
        reader.take(reader.number(2))
        found = {}
        for _ in range(reader.number(4)):
            partition = reader.number(4)
            check(reader.number(2), f"ListOffsets of partition {partition}")
            reader.take(8)
            found[partition] = reader.number(8)
        if len(found) != len(partitions):
            raise ProtocolError(f"ListOffsets answered for {len(found)} of {len(partitions)} partitions")
        return found

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Return batches of `partition`, from the one with `offset` or the next one, and the high watermark."""
        template = fetch_request(topic, partition, max_bytes, max_wait_ms=0)
        self.correlation_id += 1
        at = template.offset_at
        whole = template.frame[:at] + struct.pack(">q", offset) + template.frame[at + 8 :]
        self.socket.sendall(whole[:8] + struct.pack(">i", self.correlation_id) + whole[12:])
        reader = self.receive(flexible=True)
        reader.take(4)
        check(reader.number(2), f"Fetch of {topic}")
        reader.take(4)
        reader.uvarint()
        reader.string()
        reader.uvarint()
        reader.take(4)
        check(reader.number(2), f"Fetch of partition {partition} at offset {offset}")
        high_watermark = reader.number(8)
        reader.take(16)
        for _ in range(reader.uvarint() - 1):
            reader.take(16)
            reader.tags()
        reader.take(4)
        return reader.take(max(0, reader.uvarint() - 1)), high_watermark

    def produce(self, template: Template) -> int:
        """Send a produce request; returns the base offset."""
        self.correlation_id += 1
        whole = template.frame + template.payload
        self.socket.sendall(whole[:8] + struct.pack(">i", self.correlation_id) + whole[12:])
        reader = self.receive(flexible=True)
        reader.uvarint()
        reader.string()
        reader.uvarint()
        reader.take(4)
        check(reader.number(2), f"Produce to partition {template.partitions[0]}")
        return reader.number(8)

    def produce_when_ready(self, template: Template, timeout_s: float = 60) -> int:
        """Repeat `produce` until it succeeds: the partition may not have a leader yet."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.produce(template)
            except ProtocolError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise ProtocolError unless `code` is 0."""
    if code:
        raise ProtocolError(f"{what}: error {code}" + (f" ({message})" if message else ""))
