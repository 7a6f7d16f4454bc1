"""Producers that record the acknowledged records, and functions that read a partition back. Both use raw sockets, so
that no client retries, reorders or hides a response without the test's knowledge.
"""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable

from aiokafka.codec import lz4_decode, snappy_decode, zstd_decode
from aiokafka.record.util import calc_crc32c

from tests.support.raw_wire import (
    FETCH,
    INIT_PRODUCER_ID,
    PRODUCE,
    Connection,
    Reader,
    array,
    i8,
    i32,
    i64,
    produce_body,
    receive_frame,
    send_request,
    string,
    varint,
)
from tests.support.wait import until

FETCH_BYTES = 4 << 20
# By the codec's number in a batch's attributes; a library that the broker does not use decompresses.
DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    1: gzip.decompress,
    2: snappy_decode,
    3: lz4_decode,
    4: zstd_decode,
}
RECONNECT_S = 0.02
Address = tuple[str, int]


def batch(value: bytes, producer_id: int = -1, sequence: int = -1, timestamp: int | None = None) -> bytes:
    """A record batch of one record without a key, with the current time: at a start the broker expires producers of old
    records, as Kafka does.
    """
    timestamp = int(time.time() * 1000) if timestamp is None else timestamp
    body = i8(0) + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    epoch = 0 if producer_id >= 0 else -1
    after_crc = (
        struct.pack(">hiqqqhii", 0, 0, timestamp, timestamp, producer_id, epoch, sequence, 1) + varint(len(body)) + body
    )
    return i64(0) + i32(len(after_crc) + 9) + struct.pack(">ibI", -1, 2, calc_crc32c(after_crc)) + after_crc


def init_producer_id(address: Address) -> int:
    """A new producer id; AssertionError if the broker refuses."""
    with Connection(address) as connection:
        reader = connection.ask(INIT_PRODUCER_ID, 1, string(None) + i32(60_000))
        reader.i32()
        assert reader.i16() == 0
        return reader.i64()


class AckedProducer(threading.Thread):
    """Writes records 0, 1, 2, ... to one partition, `in_flight` requests at a time, until `stop`.

    Record n has the value `<name>:<n>:`, padded. A plain producer never sends a record twice: a record without a
    response because of a cut connection is `unknown`, one with an error response is `refused`. An idempotent producer
    resends everything, in order and with the same sequence numbers, until it is acknowledged.
    """

    def __init__(
        self,
        address: Callable[[], Address],
        topic: str,
        partition: int = 0,
        *,
        name: str = "p",
        producer_id: int = -1,
        in_flight: int = 5,
        value_bytes: int = 200,
        version: int = 8,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.acked: dict[int, int] = {}
        """Offset by number."""
        self.refused: dict[int, int] = {}
        """Error code by number; only for a plain producer."""
        self.unknown: set[int] = set()
        self.errors: list[int] = []
        """Every error code received."""
        self.duplicates_ok = 0
        self._address = address
        self._topic = topic
        self._partition = partition
        self._producer_id = producer_id
        self._in_flight = in_flight
        self._value_bytes = value_bytes
        self._version = version
        self._next = 0
        self._limit: int | None = None
        self._failure: BaseException | None = None

    def value(self, number: int) -> bytes:
        return f"{self.name}:{number}:".encode().ljust(self._value_bytes, b".")

    def stop(self) -> None:
        """Send no new record, wait for the responses (an idempotent producer for success), end the thread."""
        self._limit = self._next
        self.join(60)
        assert not self.is_alive(), f"producer {self.name} did not end"
        if self._failure is not None:
            raise self._failure

    def wait_for(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until `count` more records are acknowledged."""
        wanted = len(self.acked) + count
        until(lambda: self._failure or len(self.acked) >= wanted, f"{wanted} acknowledged records", timeout_s)
        if self._failure is not None:
            raise self._failure

    # ---- the thread ----

    def run(self) -> None:
        try:
            waiting: deque[int] = deque()
            while self._limit is None or self._next < self._limit or waiting:
                try:
                    with socket.create_connection(self._address(), 10) as sock:
                        self._session(sock, waiting)
                except (OSError, EOFError):
                    self._lost(waiting)
                    threading.Event().wait(RECONNECT_S)
        except BaseException as error:
            self._failure = error

    def _lost(self, waiting: deque[int]) -> None:
        if self._producer_id < 0:
            self.unknown.update(waiting)
            waiting.clear()
        elif waiting:
            self._next = waiting[0]
            waiting.clear()

    def _session(self, sock: socket.socket, waiting: deque[int]) -> None:
        again = False
        while True:
            if again and not waiting:
                again = False
            more = self._limit is None or self._next < self._limit
            if more and len(waiting) < self._in_flight and not again:
                self._send(sock, self._next)
                waiting.append(self._next)
                self._next += 1
                continue
            if not waiting:
                return
            error, offset = self._receive(sock, waiting[0])
            number = waiting.popleft()
            if error == 0:
                if not again:
                    self.acked.setdefault(number, offset)
                continue
            self.errors.append(error)
            if self._producer_id < 0:
                self.refused[number] = error
            elif not again:
                # Every later request is out of order now: receive their responses, and start again from this record.
                again = True
                self._next = number

    def _send(self, sock: socket.socket, number: int) -> None:
        records = batch(self.value(number), self._producer_id, number if self._producer_id >= 0 else -1)
        send_request(sock, PRODUCE, self._version, produce_body({self._topic: {self._partition: records}}), number)

    def _receive(self, sock: socket.socket, number: int) -> tuple[int, int]:
        reader = Reader(receive_frame(sock))
        assert reader.i32() == number, "answers out of order"
        assert reader.i32() == 1
        reader.string()
        assert reader.i32() == 1
        assert reader.i32() == self._partition
        return reader.i16(), reader.i64()


# ---- reading back ----


def fetch(
    connection: Connection, topic: str, partition: int, offset: int, max_wait_ms: int = 0, max_bytes: int = FETCH_BYTES
) -> tuple[int, int, bytes]:
    """(error code, high watermark, records) of one Fetch v11."""
    body = i32(-1) + i32(max_wait_ms) + i32(1) + i32(max_bytes) + i8(0) + i32(0) + i32(-1)
    asked = i32(partition) + i32(-1) + i64(offset) + i64(-1) + i32(max_bytes)
    body += array([string(topic) + array([asked])]) + array([]) + string("")
    reader = connection.ask(FETCH, 11, body)
    reader.i32()
    error = reader.i16()
    assert error == 0, error
    reader.i32()
    assert reader.i32() == 1
    reader.string()
    assert reader.i32() == 1
    assert reader.i32() == partition
    error, high_watermark = reader.i16(), reader.i64()
    reader.i64(), reader.i64()
    for _ in range(max(reader.i32(), 0)):
        reader.i64(), reader.i64()
    reader.i32()
    return error, high_watermark, reader.nullable_bytes() or b""


def records_of(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of the records in `data`, the checksum of each batch verified; a batch cut off at the end is left
    out.
    """
    found = []
    at = 0
    while at + 12 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        magic, crc = struct.unpack_from(">bI", data, at + 16)
        assert magic == 2
        assert crc == calc_crc32c(data[at + 21 : end]), f"a batch with a wrong checksum was served at offset {base}"
        attributes, _, _, _, _, _, _, count = struct.unpack_from(">hiqqqhii", data, at + 21)
        records = data[at + 61 : end]
        if attributes & 7:
            records = DECOMPRESS[attributes & 7](records)
        reader = _Records(records)
        for _ in range(count):
            delta, value = reader.record()
            found.append((base + delta, value))
        at = end
    return found


class _Records(Reader):
    def record(self) -> tuple[int, bytes]:
        """(offset delta, value), headers skipped."""
        size = self.varint()
        end = self.at + size
        self.take(1)
        self.varint()
        delta = self.varint()
        key_size = self.varint()
        self.take(max(key_size, 0))
        value = self.take(max(self.varint(), 0))
        self.at = end
        return delta, value


def read_partition(address: Address, topic: str, partition: int = 0, start: int = 0) -> list[tuple[int, bytes]]:
    """(offset, value) of every record from `start` up to the high watermark; AssertionError at any error."""
    found: list[tuple[int, bytes]] = []
    with Connection(address) as connection:
        while True:
            error, high_watermark, data = fetch(connection, topic, partition, start)
            assert error == 0, f"fetch of {topic}-{partition} at {start}: error {error}"
            if start >= high_watermark:
                return found
            records = records_of(data)
            assert records, f"nothing at offset {start} below the high watermark {high_watermark}"
            found += [record for record in records if record[0] >= start]
            start = records[-1][0] + 1


def check_plain(producer: AckedProducer, records: list[tuple[int, bytes]]) -> None:
    """Every acknowledged record is at its offset, and no refused record can be read."""
    by_offset = dict(records)
    missing = {n: o for n, o in producer.acked.items() if by_offset.get(o) != producer.value(n)}
    assert not missing, f"{len(missing)} acknowledged records are not at their offsets: {sorted(missing.items())[:5]}"
    served = {value for _, value in records}
    wrong = [number for number in producer.refused if producer.value(number) in served]
    assert not wrong, f"records are served that were answered with an error: {wrong[:5]}"


def check_idempotent(producer: AckedProducer, records: list[tuple[int, bytes]]) -> None:
    """Every record of the producer can be read once and in order."""
    prefix = f"{producer.name}:".encode()
    numbers = [int(value.split(b":")[1]) for _, value in records if value.startswith(prefix)]
    wrong = next((at for at, number in enumerate(numbers) if at != number), None)
    around = numbers[max(0, (wrong or 0) - 5) : (wrong or 0) + 10]
    assert wrong is None, f"idempotent records are missing, doubled or out of order: {around}, {producer.errors[:20]}"
    assert len(numbers) >= len(producer.acked)
    check_plain(producer, records)
