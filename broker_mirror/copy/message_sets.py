"""Message sets of magic 0 and 1, which topics from before Kafka 0.11 still have: decoded, to be produced as batches.

    offset i64, size i32, then `size` bytes: crc u32 (CRC-32 of the rest), magic i8, attributes i8,
    timestamp i64 (magic 1 only), key, value: i32 size (-1: null) and bytes

A message with a codec contains a message set in its value, and has the offset of the last message in it. The messages
inside have their own offsets in magic 0, and offsets from 0 on in magic 1. If the timestamp of a message of magic 1 is
that of its arrival (LogAppendTime), it applies to all messages inside. Messages of magic 0 have no timestamp (-1).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_cy.core.errors import WireError
from broker_cy.wire.compression import Codec, decompress, decompressed_limit
from broker_cy.wire.records import Record

RECORDS_MAX: Final = 100_000
"""Messages without a codec that become one batch."""
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_SIZE: Final = struct.Struct(">qi")
_BEGIN: Final = struct.Struct(">Ibb")
_OVERHEAD_BYTES: Final = _SIZE.size
_MAGIC_AT: Final = 16
_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE: Final = 0x08


class Section(NamedTuple):
    """Records that become one batch with `codec`. The next message begins at the byte `end`; `next_offset` is the
    offset after the section.
    """

    records: list[Record]
    codec: Codec
    end: int
    next_offset: int


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    end: int


def sections(data: bytes, at: int) -> Iterator[Section]:
    """Yield the messages from the byte `at` on, until a batch of magic 2 or the end. An incomplete message at the end
    is ignored, as consumers do. Raises WireError for damaged messages.
    """
    view = memoryview(data)
    plain: list[Record] = []
    end, next_offset = at, 0
    while (found := _message(view, end)) is not None:
        codec = found.attributes & _CODEC_MASK
        if (codec or len(plain) >= RECORDS_MAX) and plain:
            yield Section(plain, Codec.NONE, end, next_offset)
            plain = []
        end, next_offset = found.end, found.offset + 1
        if codec:
            yield Section(_inside(found, codec), Codec(codec), end, next_offset)
        else:
            plain.append(Record(found.offset, found.timestamp, found.key, found.value))
    if plain:
        yield Section(plain, Codec.NONE, end, next_offset)


def _message(view: memoryview, at: int) -> _Message | None:
    """Return the message at the byte `at`; None at the end, and before a batch."""
    if len(view) - at <= _MAGIC_AT or view[at + _MAGIC_AT] > 1:
        return None
    offset, size = _SIZE.unpack_from(view, at)
    where = f"the message at offset {offset}"
    least = 22 if view[at + _MAGIC_AT] else 14
    if size < least:
        raise WireError(f"{where} has the size {size}; at least {least} is required")
    end = at + _OVERHEAD_BYTES + size
    if end > len(view):
        return None
    crc, magic, attributes = _BEGIN.unpack_from(view, at + _OVERHEAD_BYTES)
    if zlib.crc32(view[at + _MAGIC_AT : end]) != crc:
        raise WireError(f"{where} has a wrong checksum")
    position = at + _OVERHEAD_BYTES + _BEGIN.size
    timestamp = -1
    if magic:
        (timestamp,) = struct.unpack_from(">q", view, position)
        position += 8
    key, position = _field(view, position, end, where)
    value, position = _field(view, position, end, where)
    return _Message(offset, magic, attributes, timestamp, key, value, end)


def _field(view: memoryview, at: int, end: int, where: str) -> tuple[bytes | None, int]:
    """Return a key or a value, and the place after it."""
    if at + 4 > end:
        raise WireError(f"{where} ends inside its key or value")
    (size,) = struct.unpack_from(">i", view, at)
    if size < 0:
        return None, at + 4
    if at + 4 + size > end:
        raise WireError(f"{where} has a key or value of {size} bytes, and fewer follow")
    return bytes(view[at + 4 : at + 4 + size]), at + 4 + size


def _inside(outer: _Message, codec: int) -> list[Record]:
    """Return the records of a message with a codec."""
    where = f"the message set at offset {outer.offset}"
    if outer.value is None:
        raise WireError(f"{where} has no value")
    payload = outer.value
    if codec == Codec.LZ4 and outer.magic == 0:
        payload = _with_lz4_checksum(payload)
    try:
        plain = decompress(codec, payload, decompressed_limit(len(payload)))
    except ValueError as error:
        raise WireError(f"{where}: {error}") from None
    found: list[_Message] = []
    at = 0
    while (each := _message(plain, at)) is not None:
        if each.magic != outer.magic or each.attributes & _CODEC_MASK:
            raise WireError(f"{where} contains a message of another format")
        found.append(each)
        at = each.end
    if not found or at != len(plain):
        raise WireError(f"{where} contains no whole messages")
    base = outer.offset - found[-1].offset if outer.magic else 0
    of_arrival = outer.timestamp if outer.magic and outer.attributes & _LOG_APPEND_TIME else None
    return [
        Record(base + each.offset, each.timestamp if of_arrival is None else of_arrival, each.key, each.value)
        for each in found
    ]


def _with_lz4_checksum(frame: bytes) -> bytes:
    """Return an LZ4 frame with the checksum of its descriptor. Clients of magic 0 wrote one that is also over the magic
    number of the frame (KAFKA-3160).
    """
    if len(frame) < 7 or frame[:4] != _LZ4_FRAME:
        return frame
    end = 6 + (8 if frame[4] & _LZ4_CONTENT_SIZE else 0)
    return frame[:end] + bytes([_xxh32(frame[4:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def _xxh32(data: bytes) -> int:
    """XXH32 with the seed 0 of less than 16 bytes."""
    primes = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
    value = primes[4] + len(data) & 0xFFFFFFFF
    whole = len(data) // 4 * 4
    for (lane,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotated(value + lane * primes[2], 17) * primes[3] & 0xFFFFFFFF
    for byte in data[whole:]:
        value = _rotated(value + byte * primes[4], 11) * primes[0] & 0xFFFFFFFF
    value = (value ^ value >> 15) * primes[1] & 0xFFFFFFFF
    value = (value ^ value >> 13) * primes[2] & 0xFFFFFFFF
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
