"""Record batches for storage tests: a real header and checksum around a payload that storage does not look into."""

import struct

from broker_cy.core import crc32c
from broker_cy.storage.log import Log
from broker_cy.storage.log_slice import LogSlice

BODY = struct.Struct(">hiqqqhii")
HEAD = struct.Struct(">qiibI")


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
    """A batch of `count` records at `base_offset`, `61 + size` bytes long (or with `payload`)."""
    body = BODY.pack(attributes, count - 1, timestamp, timestamp, producer_id, producer_epoch, sequence, count) + (
        payload if payload is not None else b"x" * size
    )
    return HEAD.pack(base_offset, len(body) + 9, leader_epoch, 2, crc32c.value(body)) + body


def split(data: bytes) -> list[tuple[int, int, bytes]]:
    """Whole batches in `data` as (base offset, last offset, bytes); a cut one at the end is left out."""
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
    """What a read from `offset` on gives, if there is something to read."""
    part = log.read_slice(offset, max_offset, max_bytes)
    assert part is not None, f"nothing to read at offset {offset}"
    return part
