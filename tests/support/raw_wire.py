"""Kafka frames and record batches made by hand with `struct`: independent of the broker's codec and of every client,
and with any field set to a wrong value on request."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 10, 18, 19, 22

_CRC_TABLE: list[int] = []
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    _CRC_TABLE.append(_crc)


def crc32c(data: bytes) -> int:
    """CRC-32C, computed a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def i8(value: int) -> bytes:
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Zigzag, 64 bits."""
    return uvarint(((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF)


def string(text: str | None) -> bytes:
    """STRING or NULLABLE_STRING."""
    return i16(-1) if text is None else i16(len(text.encode())) + text.encode()


def compact_string(text: str | None) -> bytes:
    return uvarint(0) if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def nullable_bytes(data: bytes | None) -> bytes:
    return i32(-1) if data is None else i32(len(data)) + data


def array(items: Sequence[bytes]) -> bytes:
    return i32(len(items)) + b"".join(items)


def compact_array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


TAGS = uvarint(0)  # no tagged fields


def request(
    api_key: int,
    version: int,
    body: bytes,
    correlation_id: int = 1,
    client_id: str | None = "raw",
    flexible: bool = False,
) -> bytes:
    """A request with header version 1, or 2 when `flexible`, without the frame's length."""
    header = struct.pack(">hhi", api_key, version, correlation_id) + string(client_id)
    return header + (TAGS if flexible else b"") + body


def frame(payload: bytes) -> bytes:
    return i32(len(payload)) + payload


def send_request(
    sock: socket.socket, api_key: int, version: int, body: bytes, correlation_id: int = 1, flexible: bool = False
) -> None:
    sock.sendall(frame(request(api_key, version, body, correlation_id, flexible=flexible)))


def receive_exactly(sock: socket.socket, size: int) -> bytes:
    """Read `size` bytes; EOFError if the peer closes first."""
    chunks = bytearray()
    while len(chunks) < size:
        chunk = sock.recv(size - len(chunks))
        if not chunk:
            raise EOFError(f"the peer closed after {len(chunks)} of {size} bytes")
        chunks += chunk
    return bytes(chunks)


def receive_frame(sock: socket.socket) -> bytes:
    """The payload of one response: correlation id (4 bytes) and body."""
    (size,) = struct.unpack(">i", receive_exactly(sock, 4))
    return receive_exactly(sock, size)


def closes(sock: socket.socket, timeout_s: float = 30.0) -> bool:
    """Whether the peer closes the connection without sending another byte."""
    sock.settimeout(timeout_s)
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


class Reader:
    """Reads a response; EOFError past its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise EOFError(f"{size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def i8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def i16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def varint(self) -> int:
        """Zigzag."""
        raw = self.uvarint()
        return (raw >> 1) ^ -(raw & 1)

    def string(self) -> str | None:
        size = self.i16()
        return None if size < 0 else self.take(size).decode()

    def nullable_bytes(self) -> bytes | None:
        size = self.i32()
        return None if size < 0 else self.take(size)

    def at_end(self) -> bool:
        return self.at == len(self.data)


class Connection:
    """One connection with one request at a time."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30.0) -> None:
        self.sock = socket.create_connection(address, timeout_s)
        self._correlation_id = 100

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def ask(
        self, api_key: int, version: int, body: bytes, flexible: bool = False, response_tags: bool = False
    ) -> Reader:
        """The body of the response; `response_tags` means that the response header is version 1."""
        self._correlation_id += 1
        send_request(self.sock, api_key, version, body, self._correlation_id, flexible)
        reader = Reader(receive_frame(self.sock))
        assert reader.i32() == self._correlation_id
        if response_tags:
            assert reader.uvarint() == 0
        return reader


@dataclass
class RawRecord:
    """One record of a batch; `length` and `key_length` may be wrong."""

    key: bytes | None = None
    value: bytes | None = b"v"
    headers: Sequence[tuple[str, bytes | None]] = ()
    offset_delta: int | None = None
    timestamp_delta: int = 0
    length: int | None = None
    key_length: int | None = None
    header_count: int | None = None

    def encode(self, index: int) -> bytes:
        def data(content: bytes | None, length: int | None = None) -> bytes:
            size = length if length is not None else (-1 if content is None else len(content))
            return varint(size) + (content or b"")

        delta = index if self.offset_delta is None else self.offset_delta
        body = i8(0) + varint(self.timestamp_delta) + varint(delta) + data(self.key, self.key_length) + data(self.value)
        body += varint(len(self.headers) if self.header_count is None else self.header_count)
        for name, content in self.headers:
            body += data(name.encode()) + data(content)
        return varint(len(body) if self.length is None else self.length) + body


@dataclass
class RawBatch:
    """A record batch of magic 2; every field may be wrong. `payload` replaces the encoded records."""

    records: Sequence[RawRecord] = field(default_factory=lambda: [RawRecord()])
    base_offset: int = 0
    length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = 1_700_000_000_000
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    payload: bytes | None = None

    def encode(self) -> bytes:
        count = len(self.records) if self.count is None else self.count
        last = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        payload = (
            b"".join(record.encode(index) for index, record in enumerate(self.records))
            if self.payload is None
            else self.payload
        )
        newest = self.base_timestamp + max((record.timestamp_delta for record in self.records), default=0)
        after_crc = (
            struct.pack(
                ">hiqqqhii",
                self.attributes,
                last,
                self.base_timestamp,
                newest if self.max_timestamp is None else self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                count,
            )
            + payload
        )
        crc = crc32c(after_crc) if self.crc is None else self.crc
        after_length = struct.pack(">ibI", self.leader_epoch, self.magic, crc) + after_crc
        return i64(self.base_offset) + i32(len(after_length) if self.length is None else self.length) + after_length


@dataclass
class ProducedPartition:
    """The response for one partition in a Produce response."""

    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: list[tuple[int, str | None]]
    message: str | None


def produce_body(
    topics: dict[str, dict[int, bytes | None]],
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> bytes:
    """The body of Produce 3 to 8."""
    return (
        string(transactional_id)
        + i16(acks)
        + i32(timeout_ms)
        + array(
            [
                string(name) + array([i32(index) + nullable_bytes(records) for index, records in parts.items()])
                for name, parts in topics.items()
            ]
        )
    )


def produce(
    connection: Connection, topics: dict[str, dict[int, bytes | None]], version: int = 8, acks: int = -1
) -> dict[tuple[str, int], ProducedPartition]:
    """Send Produce 3 to 8 with acks; return its response by topic and partition."""
    return parse_produced(connection.ask(PRODUCE, version, produce_body(topics, acks)), version)


def parse_produced(reader: Reader, version: int) -> dict[tuple[str, int], ProducedPartition]:
    """The body of a Produce response 3 to 8, by topic and partition."""
    answers = {}
    for _ in range(reader.i32()):
        name = reader.string() or ""
        for _ in range(reader.i32()):
            index, error, base_offset, append_time = reader.i32(), reader.i16(), reader.i64(), reader.i64()
            start = reader.i64() if version >= 5 else -1
            errors: list[tuple[int, str | None]] = []
            message = None
            if version >= 8:
                errors = [(reader.i32(), reader.string()) for _ in range(reader.i32())]
                message = reader.string()
            answers[name, index] = ProducedPartition(error, base_offset, append_time, start, errors, message)
    reader.i32()  # throttle time
    assert reader.at_end()
    return answers
