"""A record batch reader and validator in plain Python, written from the format alone: the oracle of the fast ones.

Deliberately slow and simple: one pass, one place for each rule, no shared code with broker_cy.
"""

import gzip
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

HEADER = struct.Struct(">qiibIhiqqqhii")
NONE, CORRUPT, INVALID_TIMESTAMP, INVALID_RECORD, UNKNOWN = 0, 2, 32, 87, -1
INT64 = 1 << 64


class Malformed(Exception):
    """The bytes are not valid records."""


@dataclass
class TwinRecord:
    """A record as encoded in a batch."""

    offset_delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


@dataclass
class TwinRules:
    """The requirements of a topic."""

    now_ms: int
    before_ms: int = 2**63 - 1
    after_ms: int = 3_600_000
    append_time: bool = False
    compacted: bool = False


@dataclass
class TwinVerdict:
    """The answer and the stored bytes that the broker should have."""

    code: int
    bad_records: list[int] = field(default_factory=list)
    max_timestamp: int = -1
    rebuild: bool = False


def signed64(value: int) -> int:
    value %= INT64
    return value - INT64 if value >= INT64 >> 1 else value


class Reader:
    """Bytes with a read position."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Malformed
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, bits: int = 32) -> int:
        value = 0
        for place in range((bits + 6) // 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if value >> bits:
                    raise Malformed
                return (value >> 1) ^ -(value & 1)
        raise Malformed

    def sized(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)


def read_record(data: bytes, base_timestamp: int) -> TwinRecord:
    reader = Reader(data)
    reader.take(1)
    timestamp = signed64(base_timestamp + reader.varint(64))
    delta, key, value = reader.varint(), reader.sized(), reader.sized()
    count = reader.varint()
    if not 0 <= count <= len(data) - reader.at:
        raise Malformed
    headers = []
    for _ in range(count):
        name = reader.sized()
        if name is None:
            raise Malformed
        headers.append((name, reader.sized()))
    if reader.at != len(data):
        raise Malformed
    return TwinRecord(delta, timestamp, key, value, headers)


def read_records(payload: bytes, count: int, base_timestamp: int) -> Iterator[TwinRecord]:
    reader = Reader(payload)
    for _ in range(count):
        yield read_record(reader.take(reader.varint()), base_timestamp)
    if reader.at != len(payload):
        raise Malformed


def fault(record: TwinRecord, timestamp: int, rules: TwinRules, append_flag: bool) -> int:
    if rules.compacted and record.key is None:
        return INVALID_RECORD
    if not rules.append_time and timestamp != -1:
        age = signed64(rules.now_ms - timestamp)
        return INVALID_TIMESTAMP if age > rules.before_ms or signed64(-age) > rules.after_ms else NONE
    return INVALID_TIMESTAMP if append_flag else NONE


def judge(batch: bytes, rules: TwinRules) -> TwinVerdict:
    """Judge a batch, uncompressed or gzip, whose length and checksum are right."""
    fields = HEADER.unpack_from(batch)
    base_offset, attributes, last_delta, base_timestamp, max_timestamp, producer_id = fields[0], *fields[5:10]
    sequence, count = fields[11:13]
    if base_offset != 0:
        return TwinVerdict(INVALID_RECORD)
    if attributes & 7 > 4:
        return TwinVerdict(UNKNOWN)
    control = attributes & 0x20
    if last_delta < 0 or count <= 0 or last_delta + 1 != count or control or (producer_id > -1 and sequence < 0):
        return TwinVerdict(INVALID_RECORD)
    payload = batch[HEADER.size :]
    if attributes & 7:
        payload = gzip.decompress(payload)
    try:
        records = list(read_records(payload, count, base_timestamp))
    except Malformed:
        return TwinVerdict(INVALID_RECORD)
    append_flag = bool(attributes & 8)
    times = [max_timestamp if append_flag else record.timestamp for record in records]
    faults = [fault(record, time, rules, append_flag) for record, time in zip(records, times, strict=True)]
    if any(faults):
        code = INVALID_TIMESTAMP if INVALID_TIMESTAMP in faults else INVALID_RECORD
        return TwinVerdict(code, [place for place, each in enumerate(faults) if each])
    gaps = [record.offset_delta for record in records] != list(range(count))
    if gaps and attributes & 7:
        return TwinVerdict(UNKNOWN)
    return TwinVerdict(NONE, [], rules.now_ms if rules.append_time else max(-1, *times), gaps)
