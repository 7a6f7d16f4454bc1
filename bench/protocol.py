"""The few requests the benchmark sends, built by hand with struct, and a blocking client for what is not measured.

Independent of broker_cy on purpose: an error in the broker's codec must not cancel itself out here. Layouts follow the
Kafka protocol guide; record batches are format v2 (KIP-98). Versions: Produce 12 and Fetch 12 (flexible, topics by
name), CreateTopics 5, DeleteTopics 4, ApiVersions 0.
"""

import random
import socket
import struct
import time
from collections.abc import Mapping
from typing import NamedTuple

from bench.raw import crc32c

PRODUCE, FETCH, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 18, 19, 20
PRODUCE_VERSION, FETCH_VERSION, CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 12, 12, 5, 4
CLIENT_ID = b"broker-cy-bench"
ACKS_ALL = -1
TIMEOUT_MS = 30_000
TOPIC_ALREADY_EXISTS = 36


class ProtocolError(Exception):
    """The target answered with an error code, or not in the protocol's form."""


class Template(NamedTuple):
    """One ready-made request frame; the driver patches correlation id (byte 8) and, for Fetch, the offset."""

    frame: bytes
    partition: int
    records: int  # Produce: records in the batch
    batch_bytes: int  # Produce: bytes of the record batch
    offset_at: int  # Fetch: where in the frame the int64 fetch offset lies; 0 for Produce


def uvarint(value: int) -> bytes:
    """Unsigned base-128 number, low group first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Zig-zag signed number (64 bits at most)."""
    return uvarint((value << 1) ^ (value >> 63))


def compact(data: bytes) -> bytes:
    """Compact string or bytes: length plus one, then the bytes."""
    return uvarint(len(data) + 1) + data


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 0, flexible: bool = True) -> bytes:
    """Size, request header (v2 where flexible, else v1) and body."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    if flexible:
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def record_batch(value_bytes: int, count: int, seed: int = 1) -> bytes:
    """A batch v2 of `count` records with null keys and incompressible values of `value_bytes` each; base offset 0."""
    source = random.Random(seed)
    now_ms = int(time.time() * 1000)
    records = bytearray()
    for delta in range(count):
        body = b"\0\0" + varint(delta) + varint(-1) + varint(value_bytes) + source.randbytes(value_bytes) + varint(0)
        records += varint(len(body)) + body
    covered = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    after_length = struct.pack(">ibI", -1, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(after_length)) + after_length


def largest_batch(value_bytes: int, limit_bytes: int) -> tuple[bytes, int]:
    """The batch with as many records of `value_bytes` as fit into `limit_bytes`, and how many those are."""
    count = max(1, (limit_bytes - 61) // len_of_record(value_bytes))
    while count > 1 and len(batch := record_batch(value_bytes, count)) > limit_bytes:
        count -= 1
    return (batch if count > 1 else record_batch(value_bytes, 1)), count


def len_of_record(value_bytes: int) -> int:
    """Least bytes one record takes: no key, no headers, offset and timestamp deltas below 64."""
    body = 2 + 1 + 1 + len(varint(value_bytes)) + value_bytes + 1
    return len(varint(body)) + body


def produce_request(topic: str, partition: int, batch: bytes, count: int, acks: int = ACKS_ALL) -> Template:
    """One Produce v12 request for one partition."""
    body = uvarint(0) + struct.pack(">hi", acks, TIMEOUT_MS)
    body += uvarint(2) + compact(topic.encode())
    body += uvarint(2) + struct.pack(">i", partition) + compact(batch) + b"\0"
    body += b"\0\0"
    return Template(frame(PRODUCE, PRODUCE_VERSION, body), partition, count, len(batch), 0)


def fetch_request(topic: str, partition: int, max_bytes: int, max_wait_ms: int = 500) -> Template:
    """One Fetch v12 request for one partition without a session; the offset is patched by the driver."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, 1, max_bytes, 0, 0, -1)
    body += uvarint(2) + compact(topic.encode())
    body += uvarint(2) + struct.pack(">ii", partition, -1)
    tail = struct.pack(">qiqi", 0, -1, -1, max_bytes) + b"\0" + b"\0" + uvarint(1) + compact(b"") + b"\0"
    whole = frame(FETCH, FETCH_VERSION, body + tail)
    return Template(whole, partition, 0, 0, len(whole) - len(tail))


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

    def string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self.take(size - 1).decode()

    def tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())


class Client:
    """A blocking connection: one request, one answer. Raises OSError and ProtocolError."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self.correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(self, api_key: int, version: int, body: bytes, flexible: bool = True) -> Reader:
        """Send and wait for the answer; returns a reader behind the response header."""
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
        out = bytearray()
        while len(out) < size:
            part = self.socket.recv(size - len(out))
            if not part:
                raise ConnectionResetError("the target closed the connection")
            out += part
        return bytes(out)

    def api_versions(self) -> int:
        """Ask for ApiVersions v0 (what every broker answers); returns how many APIs there are."""
        reader = self.call(API_VERSIONS, 0, b"", flexible=False)
        check(reader.number(2), "ApiVersions")
        return reader.number(4)

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create `topic` with one replica; that it exists already is no error."""
        body = uvarint(2) + compact(topic.encode()) + struct.pack(">ih", partitions, 1) + uvarint(1)
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
        if code != TOPIC_ALREADY_EXISTS:
            check(code, f"CreateTopics {topic}", message)

    def delete_topic(self, topic: str) -> None:
        """Delete `topic`."""
        body = uvarint(2) + compact(topic.encode()) + struct.pack(">i", TIMEOUT_MS) + b"\0"
        reader = self.call(DELETE_TOPICS, DELETE_TOPICS_VERSION, body)
        reader.take(4)
        reader.uvarint()
        reader.string()
        check(reader.number(2), f"DeleteTopics {topic}")

    def produce(self, template: Template) -> int:
        """Send a produce request; returns the base offset."""
        self.correlation_id += 1
        self.socket.sendall(template.frame[:8] + struct.pack(">i", self.correlation_id) + template.frame[12:])
        reader = self.receive(flexible=True)
        reader.uvarint()
        reader.string()
        reader.uvarint()
        reader.take(4)
        check(reader.number(2), f"Produce to partition {template.partition}")
        return reader.number(8)

    def produce_when_ready(self, template: Template, timeout_s: float = 60) -> int:
        """`produce`, again until there is no error code: a partition may still be on its way to its leader."""
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
