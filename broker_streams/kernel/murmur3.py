"""Murmur3 of 128 bits, as Kafka Streams computes it for foreign-key joins (org.apache.hive.common.util.Murmur3).

It differs from the x64 variant of the reference in the seed, and nowhere else.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
SEED: Final = 104729
_BLOCK: Final = struct.Struct("<QQ")
_HASH: Final = struct.Struct(">QQ")


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _first(value: int) -> int:
    return _rotated(value * _C1 & _MASK, 31) * _C2 & _MASK


def _second(value: int) -> int:
    return _rotated(value * _C2 & _MASK, 33) * _C1 & _MASK


def _final(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


def hash128(data: bytes, seed: int = SEED) -> bytes:
    """16 bytes: both halves as big-endian numbers, as Kafka writes them."""
    one = other = seed
    whole = len(data) & ~15
    for first, second in _BLOCK.iter_unpack(data[:whole]):
        one ^= _first(first)
        one = ((_rotated(one, 27) + other) * 5 + 0x52DCE729) & _MASK
        other ^= _second(second)
        other = ((_rotated(other, 31) + one) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    # Nothing changes for an empty half: a product with 0 is 0.
    other ^= _second(int.from_bytes(tail[8:], "little"))
    one ^= _first(int.from_bytes(tail[:8], "little"))
    one ^= len(data)
    other ^= len(data)
    one = (one + other) & _MASK
    other = (other + one) & _MASK
    one, other = _final(one), _final(other)
    one = (one + other) & _MASK
    return _HASH.pack(one, (other + one) & _MASK)
