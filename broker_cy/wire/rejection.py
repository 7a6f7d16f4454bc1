"""The answer for a refused batch: Kafka's error code, a message, and the invalid records.

Kafka sends a message only for errors of single records; its text is used here. For the refusal of a whole batch it
sends only the code; here a message adds the invalid value and the allowed ones. The numbers of `fault`, `kind` and the
walk status are those of the enums BatchFault (batch.pxd), FaultKind and WalkStatus (walk.pxd).
"""

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode


class Accepted(NamedTuple):
    """A batch that may be appended."""

    size_bytes: int
    max_timestamp: int
    rebuild: bool
    is_transactional: bool


class Rejection(NamedTuple):
    """A batch that may not be appended. `record_errors` has (index in the batch, reason), for Produce v8 and later."""

    code: ErrorCode
    message: str
    record_errors: list[tuple[int, str]]


class RecordFault(NamedTuple):
    """One record that is well-formed but not allowed."""

    place: int
    kind: int
    offset: int
    timestamp: int
    key_bytes: int
    value_bytes: int
    compressed: bool


class WalkStop(NamedTuple):
    """The place of a walk's stop in the records, and the reason."""

    status: int
    record: int
    detail: int
    room: int


_BATCH = {
    1: "the {detail} bytes sent do not contain a complete record batch; exactly one is required",
    2: "its length field is {detail}; at least 14 is required",
    3: "its magic is {detail}; only 2 is accepted",
    4: "its magic is {detail}; only 2 is accepted",
    5: "zstd requires Produce version 7 or later; this request has version {detail}",
    6: "it is followed by another record batch; exactly one is required",
    7: "its base offset is {detail}; a producer must send 0",
    8: "it has {size} bytes; max.message.bytes is {detail}",
    9: "it has {detail} bytes; the header of a record batch has 61",
    10: "it is corrupt: the checksum of its bytes is {detail:#010x}, which is not the one in its header",
    11: "its compression codec is {detail}; 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) and 4 (zstd) are allowed",
    12: "its last offset delta is {detail}; it must be the record count minus 1",
    13: "its record count is {detail}; at least 1 is required",
    14: "its record count is {detail}; it must be the last offset delta plus 1",
    15: "it is a control batch, which clients may not write",
    16: "it has a producer id and base sequence {detail}; the base sequence must not be negative",
    17: "its {detail} compressed bytes cannot be decompressed",
    18: "it decompresses to more than {detail} bytes, the most that is allowed",
    20: "it is compressed, and the offset deltas of its records are not consecutive from 0",
}
_RECORD_BOUNDS = 19

_RECORD = {
    1: "record {stop.record} has length {stop.detail}, but {stop.room} bytes are left in the batch",
    2: "record {stop.record} has a field that does not fit in the record",
    3: "record {stop.record} has {stop.detail} headers in {stop.room} bytes, or a header without a key",
    4: "record {stop.record} has length {stop.detail}, but its fields have {stop.room} bytes",
    5: "it has {stop.detail} bytes after the last of its {stop.record} records",
}

_NO_KEY, _TIMESTAMP, _TIMESTAMP_TYPE = 1, 2, 3
_SHOWN_MAX = 3


def explain(
    code: int, fault: int, detail: int, size: int, walk: tuple[int, int, int, int], topic_partition: str
) -> Rejection:
    """The Rejection of a whole batch."""
    if fault == _RECORD_BOUNDS:
        reason = _RECORD[walk[0]].format(stop=WalkStop(*walk))
    else:
        reason = _BATCH[fault].format(detail=detail, size=size)
    return Rejection(ErrorCode(code), f"Record batch for {topic_partition} refused: {reason}", [])


def _reason(fault: RecordFault, allowed_ms: tuple[int, int], topic_partition: str) -> str:
    if fault.kind == _NO_KEY:
        return f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    if fault.kind == _TIMESTAMP:
        return (
            f"Timestamp {fault.timestamp} of message with offset {fault.offset} is out of range. "
            f"The timestamp should be within [{allowed_ms[0]}, {allowed_ms[1]}]"
        )
    # Kafka prints its record class, which has -1 as the size of null only if the batch was compressed.
    name = "PartialDefaultRecord" if fault.compressed else "DefaultRecord"
    key, value = (n if fault.compressed else max(n, 0) for n in (fault.key_bytes, fault.value_bytes))
    return (
        f"Invalid timestamp type in message {name}(offset={fault.offset}, timestamp={fault.timestamp}, "
        f"key={key} bytes, value={value} bytes). Producer should not set timestamp type to LogAppendTime."
    )


def explain_records(
    code: int, total: int, faults: list[RecordFault], allowed_ms: tuple[int, int], topic_partition: str
) -> Rejection:
    """The Rejection of a batch because of `total` of its records; it reports `faults`."""
    errors = [(fault.place, _reason(fault, allowed_ms, topic_partition)) for fault in faults]
    if code == ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
        return Rejection(ErrorCode.INVALID_TIMESTAMP, message, errors)
    return refused_records(total, errors)


def refused_records(total: int, errors: list[tuple[int, str]]) -> Rejection:
    """The Rejection of a batch because of `total` of its records; `errors` are (index, reason) of the first ones."""
    shown = ", ".join(f"RecordError(batchIndex={place}, message='{why}')" for place, why in errors[:_SHOWN_MAX])
    message = (
        f"One or more records have been rejected due to {total} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    return Rejection(ErrorCode.INVALID_RECORD, message, errors)
