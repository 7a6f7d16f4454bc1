"""Requests of idempotent and transactional producers, encoded by hand like bench.wire.protocol, on one blocking
connection.

The protocol is that of transaction.version 2 (KIP-890): Produce v12 adds partitions to a transaction by itself, and
EndTxn v5 returns the epoch of the next one. FindCoordinator v4, InitProducerId v5, ListOffsets v2.
"""

import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.wire.batches import Batch
from bench.wire.endpoint import Endpoint, config_of, connect
from bench.wire.framing import frame
from bench.wire.protocol import ACKS_ALL, TIMEOUT_MS, Client, ProtocolError, Reader, check, compact, uvarint
from bench.wire.raw import crc32c

PRODUCE, PRODUCE_VERSION = 0, 12
FIND_COORDINATOR, FIND_COORDINATOR_VERSION = 10, 4
INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION = 22, 5
END_TXN, END_TXN_VERSION = 26, 5
LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 2
TRANSACTION = 1  # the key type of FindCoordinator
TRANSACTION_TIMEOUT_MS = 60_000
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS = 14, 15, 16, 51
NOT_YET = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS)
READY_TIMEOUT_S = 60.0  # for a coordinator, whose topic may have to be created, and for the end of a transaction
RETRY_S = 0.005
HEADER_BYTES = 61  # of a batch, before its records
CRC_AT, COVERED_AT, PRODUCER_AT = 17, 21, 43  # in a batch: CRC-32C, what it covers, producer id, epoch, base sequence
TRANSACTIONAL = 0x10  # attribute bit
SEQUENCE_MAX = 0x7FFFFFFF


class Producer(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int


NOBODY = Producer(-1, -1)


def stamp(buffer: bytearray, at: int, size: int, producer: Producer, sequence: int) -> None:
    """Write producer and base sequence into the batch of `size` bytes at `at`, and the matching checksum."""
    struct.pack_into(">qhi", buffer, at + PRODUCER_AT, producer.id, producer.epoch, sequence)
    with memoryview(buffer) as view:
        struct.pack_into(">I", buffer, at + CRC_AT, crc32c(view[at + COVERED_AT : at + size]))


def next_sequence(sequence: int, records: int) -> int:
    """Return the base sequence after a batch; it wraps from the highest int32 to 0."""
    return (sequence + records) % (SEQUENCE_MAX + 1)


def coordinator(address: tuple[str, int], transactional_id: str) -> tuple[str, int]:
    """Return the address of an id's coordinator; waits READY_TIMEOUT_S for one. Raises OSError, ProtocolError."""
    body = struct.pack(">b", TRANSACTION) + uvarint(2) + compact(transactional_id.encode()) + b"\0"
    deadline = time.monotonic() + READY_TIMEOUT_S
    with Client(address) as client:
        while True:
            reader = client.call(FIND_COORDINATOR, FIND_COORDINATOR_VERSION, body)
            reader.take(4)
            if reader.uvarint() != 2:
                raise ProtocolError("FindCoordinator did not return exactly 1 key")
            reader.string()
            reader.take(4)
            host, port, code = reader.string(), reader.number(4), reader.number(2)
            if code not in NOT_YET or time.monotonic() > deadline:
                check(code, f"FindCoordinator of {transactional_id}", reader.string())
                return Endpoint(host or "", port, config_of(address))
            time.sleep(RETRY_S)


def init_body(transactional_id: str | None) -> bytes:
    """Return the body of InitProducerId for a client without a producer id."""
    name = b"\0" if transactional_id is None else compact(transactional_id.encode())
    return name + struct.pack(">iqh", TRANSACTION_TIMEOUT_MS, *NOBODY) + b"\0"


def init_producer(client: Client, transactional_id: str | None = None) -> Producer:
    """Request a producer id until the target returns one. Raises OSError, ProtocolError."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        reader = client.call(INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, init_body(transactional_id))
        reader.take(4)
        code = reader.number(2)
        if code not in NOT_YET or time.monotonic() > deadline:
            check(code, f"InitProducerId of {transactional_id or 'an idempotent producer'}")
            return Producer(reader.number(8), reader.number(2))
        time.sleep(RETRY_S)


def stable_offsets(client: Client, topic: str, partitions: int) -> dict[int, int]:
    """Return the last stable offset of partitions 0 to `partitions` - 1. Raises OSError, ProtocolError."""
    body = struct.pack(">ibih", -1, 1, 1, len(topic)) + topic.encode() + struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iq", partition, -1) for partition in range(partitions))
    reader = client.call(LIST_OFFSETS, LIST_OFFSETS_VERSION, body, flexible=False)
    reader.take(8)
    reader.take(reader.number(2))
    found = {}
    for _ in range(reader.number(4)):
        partition = reader.number(4)
        check(reader.number(2), f"ListOffsets of partition {partition}")
        reader.take(8)
        found[partition] = reader.number(8)
    return found


def await_stable(client: Client, topic: str, partitions: int) -> dict[int, int]:
    """Wait until no transaction is open in the topic; returns each partition's end. Raises OSError, ProtocolError."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        ends = client.list_offsets(topic, range(partitions), -1)
        stable = stable_offsets(client, topic, partitions)
        if all(stable.get(partition) == end for partition, end in ends.items()):
            return ends
        if time.monotonic() > deadline:
            raise ProtocolError(f"a transaction in {topic} stays open: ends {ends}, last stable offsets {stable}")
        time.sleep(RETRY_S)


class Connection:
    """One request, one response on a blocking socket, with as little overhead as possible in Python."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30) -> None:
        self.socket = connect(address, timeout_s)
        # Python's timeout would cost one poll for each receive; the kernel's costs nothing.
        self.socket.settimeout(None)
        timeval = struct.pack("@ll", int(timeout_s), int(timeout_s % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, timeval)
        self.correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def call(self, whole: bytearray) -> bytes:
        """Send a frame with a new correlation id; returns the response without its header.

        Raises OSError, ProtocolError.
        """
        self.correlation_id = self.correlation_id + 1 & SEQUENCE_MAX
        struct.pack_into(">i", whole, 8, self.correlation_id)
        self.socket.sendall(whole)
        data = self.socket.recv(1 << 16)
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionResetError("the target closed the connection")
            data += part
        size, got, tags = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0)
        if len(data) != 4 + size or got != self.correlation_id or tags:
            raise ProtocolError(
                f"a response of {len(data)} bytes with correlation id {got}, expected {self.correlation_id}"
            )
        return data[_HEAD.size :]


_HEAD = struct.Struct(">iib")  # size, correlation id, an empty tag buffer
_CODE = struct.Struct(">ih")  # throttle time, error code
_PRODUCER = struct.Struct(">ihqhb")  # throttle time, error code, producer id, epoch, an empty tag buffer


def producer_of(answer: bytes, what: str) -> tuple[int, Producer]:
    """Return error code and producer of a response to InitProducerId v5 or EndTxn v5. Raises ProtocolError."""
    if len(answer) != _PRODUCER.size:
        raise ProtocolError(f"{what}: a response of {len(answer)} bytes does not parse")
    _, code, identity, epoch, _ = _PRODUCER.unpack(answer)
    return code, Producer(identity, epoch)


class ProduceFrame:
    """One Produce v12 request with one batch for each partition, made once and stamped for each transaction."""

    def __init__(self, topic: str, transactional_id: str, parts: Sequence[Batch]) -> None:
        self.topic, self.parts = topic, parts
        self.records = sum(part.records for part in parts)
        self.batch_bytes = sum(len(part.data) for part in parts)
        body = bytearray(compact(transactional_id.encode()) + struct.pack(">hi", ACKS_ALL, TIMEOUT_MS))
        body += uvarint(2) + compact(topic.encode()) + uvarint(len(parts) + 1)
        places = []
        for partition, part in enumerate(parts):
            body += struct.pack(">i", partition) + uvarint(len(part.data) + 1)
            places.append(len(body))
            body += part.data + b"\0"
        body += b"\0\0"
        self.frame = bytearray(frame(PRODUCE, PRODUCE_VERSION, bytes(body)))
        before = len(self.frame) - len(body)
        self.places = [before + place for place in places]
        for place in self.places:  # the low byte of the attributes, after the checksum
            self.frame[place + COVERED_AT + 1] |= TRANSACTIONAL
        # Layout of a correct response: index, error code, offsets and time, then no record errors, message or tags.
        self._head = uvarint(2) + compact(topic.encode()) + uvarint(len(parts) + 1)
        self._answer = struct.Struct(f">{len(self._head)}s" + "ihqqq3s" * len(parts) + "sis")
        self._sound = (b"\1\0\0",) * len(parts)

    def stamp(self, producer: Producer) -> None:
        """Begin a transaction with a new epoch: sequences count from 0 again."""
        for place, part in zip(self.places, self.parts, strict=True):
            stamp(self.frame, place, len(part.data), producer, 0)

    def offsets(self, answer: bytes) -> tuple[int, dict[int, int]]:
        """Return the error code and, if it is 0, the base offset of each partition. Raises ProtocolError."""
        if len(answer) == self._answer.size:
            head, *fields, tags, _, more_tags = self._answer.unpack(answer)
            sound = head == self._head and tuple(fields[5::6]) == self._sound and tags == more_tags == b"\0"
            found = dict(zip(fields[0::6], fields[2::6], strict=True))
            if sound and not any(fields[1::6]) and found.keys() == set(range(len(self.parts))):
                return 0, found
        return self._slowly(answer)

    def _slowly(self, answer: bytes) -> tuple[int, dict[int, int]]:
        """Return the first error code of a response that has one or another layout. Raises ProtocolError."""
        reader = Reader(answer)
        if reader.uvarint() != 2:
            raise ProtocolError("Produce: a response that does not contain exactly 1 topic")
        reader.string()
        for _ in range(reader.uvarint() - 1):
            reader.take(4)
            if code := reader.number(2):
                return code, {}
            reader.take(24)
            for _ in range(reader.uvarint() - 1):
                reader.take(4)
                reader.string()
                reader.tags()
            reader.string()
            reader.tags()
        raise ProtocolError("Produce: a response without an error that does not contain every partition once")


class EndFrame:
    """One EndTxn v5 request."""

    def __init__(self, transactional_id: str) -> None:
        name = compact(transactional_id.encode())
        self.frame = bytearray(frame(END_TXN, END_TXN_VERSION, name + bytes(8 + 2 + 1 + 1)))
        self._at = len(self.frame) - 12

    def stamp(self, producer: Producer, committed: bool) -> None:
        """Write the producer and the outcome of the transaction that is ended."""
        struct.pack_into(">qhb", self.frame, self._at, producer.id, producer.epoch, committed)
