"""A seeded mutator of byte strings: cheap enough that most of a run's time is spent in the code under test.

It knows the elements of the protocols: big-endian integers, varints, lengths before the parts that they measure. Its
output depends only on the seed.
"""

import random
import struct

from tests.support.raw_wire import uvarint, varint

INTEGERS = (
    0, 1, -1, 2, 7, 8, 16, 60, 61, 62, 63, 64, 100, 127, 128, 129, 255, 256, 1000, 4095, 4096, 32767, 32768, 65535,
    65536, 2**24 - 1, 2**24, 2**30, 2**31 - 13, 2**31 - 12, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62,
    2**63 - 2, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
# How often a mutation is repeated on the same input.
ROUNDS = (1, 1, 1, 1, 2, 2, 3, 6)
CHUNK_BYTES_MAX = 64
SIZE_BYTES_MAX = 1 << 16


def _interesting() -> list[bytes]:
    """Encode the integers in every width, and as varints, also ones that are too long."""
    found: dict[int, set[bytes]] = {width: set() for width in (1, 2, 4, 8, 0)}
    for value in INTEGERS:
        for width in (1, 2, 4, 8):
            found[width].add((value & (1 << 8 * width) - 1).to_bytes(width))
        found[0].add(uvarint(value & 2**64 - 1))
        found[0].add(varint(value))
    found[0] |= {b"\x80\x00", b"\xff" * 5, b"\xff" * 10, b"\x80" * 9 + b"\x02", b"\xff\xff\xff\xff\x1f"}
    return [data for width in (1, 2, 4, 8, 0) for data in sorted(found[width])]


INTERESTING = _interesting()


class Mutator:
    """Makes mutated copies of inputs."""

    def __init__(self, seed: int) -> None:
        self.bits = random.Random(seed).getrandbits

    def mutate(self, data: bytes, other: bytes) -> bytearray:
        """Return a changed copy of `data`, which may contain parts of `other`."""
        bits = self.bits
        out = bytearray(data)
        for _ in range(ROUNDS[bits(3)]):
            r = bits(64)
            size = len(out)
            if size == 0:
                out += other[: r % CHUNK_BYTES_MAX]
                continue
            at = (r >> 8 & 0xFFFFFF) % size
            value = r >> 32
            op = r & 15
            if op < 4:
                out[at] ^= 1 << (value & 7)
            elif op < 5:
                out[at] = value & 255
            elif op < 6:
                out[at] = (out[at] + value % 9 - 4) & 255
            elif op < 9:
                new = INTERESTING[value % len(INTERESTING)]
                out[at : at + len(new)] = new
            elif op < 10:
                new = INTERESTING[value % len(INTERESTING)]
                out[at:at] = new
            elif op < 11:
                self._lie_about_length(out, at, value)
            else:
                self._move_chunk(out, op, at, value, other)
        del out[SIZE_BYTES_MAX:]
        return out

    @staticmethod
    def _lie_about_length(out: bytearray, at: int, value: int) -> None:
        """Overwrite a possible length with a number close to the number of bytes left."""
        left = len(out) - at + (-4, -2, -1, 0, 1, 2, 4, 8)[value & 7]
        kind = value >> 3 & 3
        if kind == 0:
            out[at : at + 4] = struct.pack(">i", left)
        elif kind == 1:
            out[at : at + 2] = struct.pack(">H", left & 0xFFFF)
        else:
            new = uvarint(max(left, 0) << (kind - 2))  # as a compact length, or zigzag
            out[at : at + len(new)] = new

    @staticmethod
    def _move_chunk(out: bytearray, op: int, at: int, value: int, other: bytes) -> None:
        size = 1 + value % CHUNK_BYTES_MAX
        if op == 11:
            del out[at:]
        elif op == 12:
            del out[at : at + size]
        elif op == 13:
            out[at:at] = out[at : at + size]
        elif op == 14:
            start = (value >> 8) % (len(other) + 1)
            out[at:] = other[start:]
        else:
            out[at : at + size] = (b"\x00" if value & 1 << 31 else b"\xff") * min(size, len(out) - at)

    def overwrite(self, out: bytearray, at: int, width: int) -> None:
        """Put an interesting integer of `width` bytes at `at`."""
        value = INTEGERS[self.bits(16) % len(INTEGERS)]
        if self.bits(2) == 0:
            value = int.from_bytes(out[at : at + width]) + self.bits(3) - 4
        out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width)
