"""Invalid batches, and the responses of Apache Kafka 4.3.1 to each: a table that was checked against it."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.raw_wire import RawBatch, RawRecord

UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE = -1, 2, 10
INVALID_TIMESTAMP, INVALID_RECORD = 32, 87

# Topics of the cases, with their settings.
TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "small": {"max.message.bytes": "1000"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "recent": {"message.timestamp.before.max.ms": "1000"},
    "compacted": {"cleanup.policy": "compact"},
}
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Case:
    """A batch, sent to partition 0 of `topic`, and the response to it.

    `record_errors` are the indexes of the records that Produce v8 reports. `whole_request` says that Apache Kafka fails
    every partition of the request with the same code; broker-cy fails that partition alone.
    """

    name: str
    make: Callable[[], bytes]
    error: int
    topic: str = "plain"
    record_errors: tuple[int, ...] = ()
    message: str | None = None
    whole_request: bool = False


def _two(**fields: Any) -> bytes:
    return RawBatch(records=[RawRecord(value=b"a"), RawRecord(value=b"b")], **fields).encode()


def _one(record: RawRecord, **fields: Any) -> bytes:
    return RawBatch(records=[record], **fields).encode()


def good() -> bytes:
    """Make a batch of one record that every topic except a compacted one accepts."""
    return RawBatch(base_timestamp=_now_ms()).encode()


def _now_ms() -> int:
    return int(time.time() * 1000)


def _gzipped(records: list[RawRecord], cut_bytes: int = 0, **fields: Any) -> bytes:
    payload = gzip.compress(b"".join(record.encode(index) for index, record in enumerate(records)))
    payload = payload[: len(payload) - cut_bytes]
    return RawBatch(records=records, attributes=1, payload=payload, **fields).encode()


def _length_off_by(difference: int) -> bytes:
    return RawBatch(length=len(RawBatch().encode()) - 12 + difference).encode()


def _garbage(attributes: int) -> bytes:
    return RawBatch(attributes=attributes, payload=b"nonsense nonsense").encode()


_NOISE = bytes((index * 167 + index // 7) % 251 for index in range(2000))

CASES = [
    # The frame of the batch
    Case("checksum", lambda: RawBatch(crc=1).encode(), CORRUPT_MESSAGE),
    Case("magic 0", lambda: RawBatch(magic=0).encode(), INVALID_RECORD),
    Case("magic 1", lambda: RawBatch(magic=1).encode(), INVALID_RECORD),
    Case("magic 3", lambda: RawBatch(magic=3).encode(), CORRUPT_MESSAGE, whole_request=True),
    Case("magic -1", lambda: RawBatch(magic=-1).encode(), CORRUPT_MESSAGE, whole_request=True),
    Case("no bytes at all", lambda: b"", INVALID_RECORD),
    Case("half a batch header", lambda: RawBatch().encode()[:30], INVALID_RECORD),
    Case("16 bytes", lambda: RawBatch().encode()[:16], INVALID_RECORD),
    Case("last byte missing", lambda: RawBatch().encode()[:-1], INVALID_RECORD),
    Case("length one too large", lambda: _length_off_by(1), INVALID_RECORD),
    Case("length one too small", lambda: _length_off_by(-1), CORRUPT_MESSAGE),
    Case("length 0", lambda: RawBatch(length=0).encode(), CORRUPT_MESSAGE, whole_request=True),
    Case("length 13", lambda: RawBatch(length=13).encode(), CORRUPT_MESSAGE, whole_request=True),
    Case("length negative", lambda: RawBatch(length=-1).encode(), CORRUPT_MESSAGE, whole_request=True),
    Case("two batches", lambda: RawBatch().encode() * 2, INVALID_RECORD),
    Case("base offset not 0", lambda: RawBatch(base_offset=100).encode(), INVALID_RECORD),
    # Counts
    Case("count too large", lambda: _two(count=3, last_offset_delta=2), INVALID_RECORD),
    Case("count too small", lambda: _two(count=1, last_offset_delta=0), INVALID_RECORD),
    Case("count 0", lambda: _two(count=0, last_offset_delta=0), INVALID_RECORD),
    Case("count 0, no records", lambda: RawBatch(records=[], last_offset_delta=0).encode(), INVALID_RECORD),
    Case("count negative", lambda: _two(count=-1), INVALID_RECORD),
    Case("count huge", lambda: _two(count=0x7FFFFFFF, last_offset_delta=0x7FFFFFFE), INVALID_RECORD),
    Case("last offset delta too large", lambda: _two(last_offset_delta=5), INVALID_RECORD),
    Case("last offset delta negative", lambda: _two(last_offset_delta=-1), INVALID_RECORD),
    # Records
    Case("record length too large", lambda: _one(RawRecord(length=50)), INVALID_RECORD),
    Case("record length too small", lambda: _one(RawRecord(length=2)), INVALID_RECORD),
    Case("record length negative", lambda: _one(RawRecord(length=-5)), INVALID_RECORD),
    Case("key length too large", lambda: _one(RawRecord(key=b"k", key_length=100)), INVALID_RECORD),
    Case("header count negative", lambda: _one(RawRecord(header_count=-1)), INVALID_RECORD),
    Case("header count too large", lambda: _one(RawRecord(header_count=1)), INVALID_RECORD),
    Case("header count huge", lambda: _one(RawRecord(header_count=1 << 30)), INVALID_RECORD),
    # Batches that a client may not send
    Case("control batch", lambda: RawBatch(attributes=0x20).encode(), INVALID_RECORD),
    Case("producer id without sequence", lambda: RawBatch(producer_id=5, producer_epoch=0).encode(), INVALID_RECORD),
    # Compressed
    Case("codec 5", lambda: RawBatch(attributes=5).encode(), UNKNOWN_SERVER_ERROR),
    Case("codec 7", lambda: RawBatch(attributes=7).encode(), UNKNOWN_SERVER_ERROR),
    Case("gzip that is none", lambda: _garbage(1), UNKNOWN_SERVER_ERROR),
    Case("snappy that is none", lambda: _garbage(2), UNKNOWN_SERVER_ERROR),
    Case("lz4 that is none", lambda: _garbage(3), UNKNOWN_SERVER_ERROR),
    Case("zstd that is none", lambda: _garbage(4), UNKNOWN_SERVER_ERROR),
    Case("gzip cut short", lambda: _gzipped([RawRecord(value=_NOISE)], cut_bytes=200), UNKNOWN_SERVER_ERROR),
    Case(
        "gzip, count too large",
        lambda: _gzipped([RawRecord(), RawRecord()], count=3, last_offset_delta=2),
        INVALID_RECORD,
    ),
    Case(
        "gzip, count too small",
        lambda: _gzipped([RawRecord(), RawRecord()], count=1, last_offset_delta=0),
        INVALID_RECORD,
    ),
    # Batches that the topic's settings refuse
    Case("too large", lambda: _one(RawRecord(value=bytes(1100))), MESSAGE_TOO_LARGE, "small"),
    Case(
        "append time claimed by the producer",
        lambda: RawBatch(attributes=8).encode(),
        INVALID_TIMESTAMP,
        "append-time",
        (0,),
        "One or more records have been rejected due to invalid timestamp",
    ),
    Case(
        "too far in the future",
        lambda: RawBatch(base_timestamp=_now_ms() + 2 * _HOUR_MS).encode(),
        INVALID_TIMESTAMP,
        "plain",
        (0,),
        "One or more records have been rejected due to invalid timestamp",
    ),
    Case(
        "too old, the second of two",
        lambda: RawBatch(
            records=[RawRecord(), RawRecord(timestamp_delta=-2 * _HOUR_MS)], base_timestamp=_now_ms()
        ).encode(),
        INVALID_TIMESTAMP,
        "recent",
        (1,),
        "One or more records have been rejected due to invalid timestamp",
    ),
    Case(
        "no key in a compacted topic, the second of three",
        lambda: RawBatch(records=[RawRecord(key=b"a"), RawRecord(), RawRecord(key=b"c")]).encode(),
        INVALID_RECORD,
        "compacted",
        (1,),
        "One or more records have been rejected due to 1 record errors in total, and only showing the first three "
        "errors at most: [RecordError(batchIndex=1, message='Compacted topic cannot accept message without key in "
        "topic partition compacted-0')]",
    ),
]

# Unusual batches that are still accepted.
ACCEPTED = {
    "trailing bytes after the batch": lambda: RawBatch().encode() + b"xx",
    "time type bit in a CreateTime topic": lambda: RawBatch(attributes=8).encode(),
    "unknown attribute bit": lambda: RawBatch(attributes=0x80).encode(),
    "header with a null value": lambda: _one(RawRecord(headers=[("a", None)])),
    "timestamp -1": lambda: RawBatch(base_timestamp=-1).encode(),
    "leader epoch of nobody": lambda: RawBatch(leader_epoch=5).encode(),
    "max timestamp that lies": lambda: RawBatch(base_timestamp=_now_ms(), max_timestamp=_now_ms() + 10**9).encode(),
    "gzip": lambda: _gzipped([RawRecord(), RawRecord()]),
    "null key and value": lambda: _one(RawRecord(key=None, value=None)),
}
