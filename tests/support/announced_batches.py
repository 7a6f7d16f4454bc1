"""Batches of a few bytes that announce gigabytes (CVE-2023-34455), and are otherwise valid."""

from __future__ import annotations

import struct
from typing import Final

from broker_cy.core import crc32c
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, encode_batch

_CRC_AT, _PAYLOAD_AT = 17, 61
_XERIAL: Final = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_LZ4: Final = b"\x04\x22\x4d\x18\x60\x70\x73"
_ZSTD_OF_A_TEBIBYTE: Final = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40)
# 4 GiB - 1, 2 GiB - 1 and 256 MiB, as the length at the start of a snappy block.
_LENGTHS: Final = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x01")
_SIZES: Final = (0x7FFFFFFF, 0x10000000, 0xFFFFFFFF)
_REST: Final = bytes(40)

PAYLOADS: Final = [
    *((Codec.SNAPPY, length + _REST) for length in _LENGTHS),
    # In a block of a snappy-java stream; and blocks whose size exceeds the following bytes, or is negative.
    *((Codec.SNAPPY, _XERIAL + struct.pack(">i", 20) + length + bytes(15)) for length in _LENGTHS),
    *((Codec.SNAPPY, _XERIAL + struct.pack(">I", size) + _REST) for size in _SIZES),
    *((Codec.LZ4, _LZ4 + struct.pack("<I", size) + _REST) for size in _SIZES),
    (Codec.ZSTD, _ZSTD_OF_A_TEBIBYTE + struct.pack("<I", 5 << 3 | 1)[:3] + b"12345"),
    # A block of the largest allowed size, without contents.
    (Codec.ZSTD, _ZSTD_OF_A_TEBIBYTE + struct.pack("<I", 0x1FFFFF << 3)[:3]),
]


def batch_of(codec: Codec, payload: bytes) -> bytes:
    """A batch of one record with this payload."""
    batch = bytearray(encode_batch([Record(value=b"x")])[:_PAYLOAD_AT] + payload)
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[21:23] = struct.pack(">h", codec)
    batch[_CRC_AT : _CRC_AT + 4] = struct.pack(">I", crc32c.value(bytes(batch[_CRC_AT + 4 :])))
    return bytes(batch)
