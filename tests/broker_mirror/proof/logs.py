"""Logs in memory: records with offsets, cut into batches in any way."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch
from broker_mirror.merged import Side
from broker_mirror.proof.pairing import Difference, Pairing
from broker_mirror.proof.ranges import Extent, Window


class Row(NamedTuple):
    """A record without its offset."""

    value: bytes | None
    key: bytes | None = b"k"
    timestamp: int = 1_000
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def record(self) -> Record:
        return Record(0, self.timestamp, self.key, self.value, self.headers)


def rows(*values: str) -> list[Row]:
    return [Row(each.encode()) for each in values]


def batches(
    given: Sequence[Row],
    sizes: Sequence[int] = (),
    *,
    first: int = 0,
    codec: Codec | None = None,
    producer_id: int = -1,
) -> list[Batch]:
    """Return the records at consecutive offsets from `first`, in batches of these sizes, then of 3."""
    found, at = b"", 0
    wanted = list(sizes)
    while at < len(given):
        size = wanted.pop(0) if wanted else 3
        part = [each.record() for each in given[at : at + size]]
        found += encode_batch(part, base_offset=first + at, codec=codec, producer_id=producer_id)
        at += len(part)
    return list(decode_batches(found))


def compared(
    source: Sequence[Batch],
    target: Sequence[Batch],
    *,
    reached: int = 1 << 40,
    window: Window | None = None,
    fed: int = 1,
    **settings: bool | int,
) -> Pairing:
    """Return the comparison of two logs, which get `fed` batches at a time."""
    if window is None:
        window = Window(_extent(source), _extent(target), reached)
    pairing = Pairing(window, **settings)  # type: ignore[arg-type]
    left = {Side.SOURCE: list(source), Side.TARGET: list(target)}
    for each, log in left.items():
        if not log:
            pairing.feed(each, (), ended=True)
    while (side := pairing.wanted()) is not None:
        part, left[side] = left[side][:fed], left[side][fed:]
        pairing.feed(side, part, ended=not left[side])
    return pairing


def verdicts(pairing: Pairing) -> list[tuple[str, int | None, int | None, int]]:
    return [(each.reason.value, each.source_offset, each.target_offset, each.count) for each in pairing.differences]


def reasons(found: Sequence[Difference]) -> list[str]:
    return [each.reason.value for each in found]


def _extent(given: Sequence[Batch]) -> Extent:
    return Extent(given[0].base_offset, given[-1].last_offset + 1) if given else Extent(0, 0)


def damaged(batch: Batch) -> Batch:
    """Return the batch with another last byte, and the old checksum."""
    data = bytearray(batch.data)
    data[-1] ^= 0xFF
    (found,) = decode_batches(bytes(data))
    assert not found.is_valid()
    return found


def malformed(batch: Batch) -> Batch:
    """Return the batch with a record length that does not fit, and a right checksum."""
    data = bytearray(batch.data)
    data[61] = 0x7E
    (found,) = decode_batches(bytes(data))
    data[17:21] = struct.pack(">I", found.computed_crc())
    (found,) = decode_batches(bytes(data))
    assert found.is_valid()
    return found
