"""Record batches for storage tests: a real header and checksum around a payload that storage does not parse."""

import struct
from pathlib import Path

from broker_cy.core import crc32c
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_slice import LogSlice

BODY = struct.Struct(">hiqqqhii")
HEAD = struct.Struct(">qiibI")

SMALL = LogConfig(segment_bytes=4_000, index_interval_bytes=300)


def batch(
    base_offset: int,
    count: int = 1,
    *,
    size: int = 20,
    timestamp: int = 1_000,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    payload: bytes | None = None,
) -> bytes:
    """Make a batch of `count` records at `base_offset`, `61 + size` bytes long (or with `payload`)."""
    body = BODY.pack(attributes, count - 1, timestamp, timestamp, producer_id, producer_epoch, sequence, count) + (
        payload if payload is not None else b"x" * size
    )
    return HEAD.pack(base_offset, len(body) + 9, leader_epoch, 2, crc32c.value(body)) + body


def split(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return the whole batches in `data` as (base offset, last offset, bytes); leaves out a cut one at the end."""
    found = []
    at = 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        (delta,) = struct.unpack_from(">i", data, at + 23)
        if at + 12 + length > len(data):
            break
        found.append((base, base + delta, data[at : at + 12 + length]))
        at += 12 + length
    return found


def some_slice(log: Log, offset: int, max_offset: int | None = None, *, max_bytes: int = 1 << 20) -> LogSlice:
    """Return what a read from `offset` returns, if there is something to read."""
    part = log.read_slice(offset, max_offset, max_bytes)
    assert part is not None, f"nothing to read at offset {offset}"
    return part


def contents(log: Log) -> bytes:
    """Return all readable batches of the log."""
    offset, found = log.log_start_offset, b""
    while offset < log.written_end_offset:
        part = log.read_slice(offset, max_bytes=10_000)
        if part is None:
            break
        batches = split(part.read())
        found += b"".join(data for _, _, data in batches)
        offset = batches[-1][1] + 1
    return found


def fill(log: Log, count: int, *, size: int = 60, producer_id: int = -1) -> None:
    """Append `count` batches of two records."""
    for _ in range(count):
        end = log.log_end_offset
        log.append(
            batch(
                end,
                2,
                size=size,
                timestamp=1_000 + end,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                sequence=end if producer_id >= 0 else -1,
            ),
            5,
        )


def overwrite(path: str | Path, data: bytes, at: int = 0) -> None:
    """Replace the bytes of a file from position `at` on."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)
