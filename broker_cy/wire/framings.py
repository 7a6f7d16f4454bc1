"""The readers and writers of compressed record batches, one of each codec; `compression` describes the framings. It
imports this module with the first compressed batch: its libraries take 2 MB.
"""

import mmap
import struct
import zlib
from collections.abc import Callable
from typing import cast

import cramjam
from cramjam import lz4, snappy, zstd
from zlib_ng import zlib_ng

from broker_cy.wire.payloads import Buffer, Codec, CorruptPayload, too_large

# The library's type stubs declare zlib_ng's error as a variable of type Exception. The libraries raise these for bytes
# that are not valid.
INVALID = (cramjam.DecompressionError, cast("type[Exception]", zlib_ng.error), OSError, struct.error)
_MAPPED_BYTES_MIN = 8 << 20


def _check_level(name: str, level: int, lowest: int, highest: int) -> int:
    if not lowest <= level <= highest:
        raise ValueError(f"{name} level {level} is outside {lowest}..{highest}")
    return level


def _room(size: int) -> bytearray | mmap.mmap:
    """A buffer into which a decoder writes `size` bytes. A large bytearray would be zeroed while the thread holds the
    interpreter lock; pages of a mapping are zeroed when the decoder, which holds no lock, touches them.
    """
    if size < _MAPPED_BYTES_MIN:
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


# gzip

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FEED_BYTES = 1024
_GZIP_WINDOW = 31  # zlib: 15 bits of window, gzip wrapper


def _read_gzip(view: memoryview, limit: int) -> memoryview:
    parts = []
    size = 0
    at = 0
    # zlib copies the input that it does not use. The first member is nearly always the only one and is fed everything;
    # later members are fed pieces, so that the rest of the payload is not copied for each of perhaps 50,000 members.
    feed_bytes = len(view)
    while True:
        member = zlib_ng.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            fed = view[at : at + feed_bytes]
            if len(fed) == 0:
                raise CorruptPayload(f"gzip payload of {len(view)} bytes: it ends before its stream is complete")
            part = member.decompress(fed, limit - size + 1)
            size += len(part)
            if size > limit:
                raise too_large(limit)
            parts.append(part)
            at += len(fed) - len(member.unused_data)
            feed_bytes *= 2
        # As in Java's reader, the stream ends after a member unless another member starts there.
        if view[at : at + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        feed_bytes = _GZIP_FEED_BYTES


def _write_gzip(view: memoryview, level: int | None) -> bytes:
    level = -1 if level is None else level
    deflater = zlib.compressobj(-1 if level == -1 else _check_level("gzip", level, 1, 9), zlib.DEFLATED, _GZIP_WINDOW)
    return deflater.compress(view) + deflater.flush()


# snappy

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_XERIAL_HEADER_BYTES = len(_XERIAL_HEADER)
_XERIAL_BLOCK_BYTES = 32 * 1024
# A copy element of 3 bytes produces at most 64, a literal less than its size: no input grows by a larger factor.
_SNAPPY_RATIO_MAX = 22


def _read_snappy_block(block: memoryview, room: int, limit: int) -> bytearray | mmap.mmap:
    size = snappy.decompress_raw_len(block)
    if size > _SNAPPY_RATIO_MAX * len(block):
        raise CorruptPayload(f"snappy block of {len(block)} bytes claims to decompress to {size}")
    if size > room:
        raise too_large(limit)
    out = _room(size)
    if size and snappy.decompress_raw_into(block, out) != size:
        raise CorruptPayload(f"snappy block of {len(block)} bytes decompresses to fewer than the {size} it claims")
    return out


def _read_snappy(view: memoryview, limit: int) -> memoryview:
    if len(view) == 0:
        raise CorruptPayload("snappy payload is empty")
    if view[:8] != _XERIAL_MAGIC:
        return memoryview(_read_snappy_block(view, limit, limit))
    out = bytearray()
    at = 0
    while at < len(view):
        if view[at : at + 8] == _XERIAL_MAGIC:
            if len(view) - at < _XERIAL_HEADER_BYTES:
                raise CorruptPayload("snappy stream ends inside its header")
            if (oldest := struct.unpack_from(">i", view, at + 12)[0]) < 1:
                raise CorruptPayload(f"snappy stream has compatible version {oldest}; at least 1 is required")
            at += _XERIAL_HEADER_BYTES
            continue
        (size,) = struct.unpack_from(">i", view, at)
        at += 4
        if not 0 <= size <= len(view) - at:
            raise CorruptPayload(f"snappy stream has a block of {size} bytes, but {len(view) - at} are left")
        out += _read_snappy_block(view[at : at + size], limit - len(out), limit)
        at += size
    return memoryview(out)


def _write_snappy(view: memoryview, level: int | None) -> bytes:
    if level is not None:
        raise ValueError(f"snappy has no compression levels; level {level} cannot be used")
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block))
        out += block
    return bytes(out)


# lz4

_LZ4_MAGIC = 0x184D2204
_LZ4_VERSION_MASK, _LZ4_VERSION = 0xC0, 0x40
_LZ4_INDEPENDENT, _LZ4_BLOCK_SUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_SUM, _LZ4_DICTIONARY = 0x20, 0x10, 0x08, 0x04, 0x01
_LZ4_STORED = 0x8000_0000
_LZ4_RATIO_MAX = 255
# Magic, FLG (version 1, independent blocks), BD (64 KiB blocks) and their checksum byte, (xxh32(60 40) >> 8) & 0xff.
_LZ4_HEADER = struct.pack("<I", _LZ4_MAGIC) + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_DEFAULT_LEVEL = 9  # Kafka's default, which selects the fast compressor


def _lz4_extent(view: memoryview) -> tuple[int, int]:
    """The end of the first frame, and its largest decompressed size."""
    magic, flags, descriptor = struct.unpack_from("<IBB", view)
    if magic != _LZ4_MAGIC or flags & _LZ4_VERSION_MASK != _LZ4_VERSION:
        raise CorruptPayload(f"lz4 payload starts with {bytes(view[:6]).hex(' ')}, not with an LZ4 frame of version 1")
    if not flags & _LZ4_INDEPENDENT:
        raise CorruptPayload("lz4 frame has linked blocks, which Kafka's clients cannot read")
    if flags & _LZ4_DICTIONARY or not 4 <= descriptor >> 4 <= 7:
        raise CorruptPayload(
            f"lz4 frame descriptor {flags:02x} {descriptor:02x} is not one that Kafka's clients can read"
        )
    block_bytes_max = 1 << (8 + 2 * (descriptor >> 4))
    at = 7 + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    bound = 0
    while True:
        (word,) = struct.unpack_from("<I", view, at)
        at += 4
        size = word & ~_LZ4_STORED
        if size == 0:
            return at + (4 if flags & _LZ4_CONTENT_SUM else 0), bound
        if size > block_bytes_max:
            raise CorruptPayload(f"lz4 block of {size} bytes exceeds the frame's block size of {block_bytes_max}")
        bound += size if word & _LZ4_STORED else min(block_bytes_max, _LZ4_RATIO_MAX * size)
        at += size + (4 if flags & _LZ4_BLOCK_SUM else 0)


def _read_lz4(view: memoryview, limit: int) -> memoryview:
    end, bound = _lz4_extent(view)
    # As in Kafka, bytes after the first frame are ignored.
    return _decode_into(lz4.decompress_into, view[:end], bound, limit)


def _write_lz4(view: memoryview, level: int | None) -> bytes:
    if level is not None and _check_level("lz4", level, 1, 17) != _LZ4_DEFAULT_LEVEL:
        # Only the frame compressor supports levels. Its frames have block checksums, which every client understands.
        compressor = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(view))
        return bytes(compressor.finish())
    out = bytearray(_LZ4_HEADER)
    for at in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block))
            out += block
        else:
            out += struct.pack("<I", len(plain) | _LZ4_STORED)
            out += plain
    return bytes(out + bytes(4))


# zstd

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MASK, _ZSTD_SKIPPABLE = 0xFFFFFFF0, 0x184D2A50
_ZSTD_BLOCK_BYTES_MAX = 128 * 1024
_ZSTD_RLE = 1
_ZSTD_COMPRESSED = 2


_ZSTD_CONTENT_SIZE_OFFSET = 256  # added to content sizes of two bytes


def _zstd_frame_extent(view: memoryview, at: int) -> tuple[int, int]:
    """The end of the frame at `at`, and its largest decompressed size (RFC 8878, section 3.1)."""
    (magic,) = struct.unpack_from("<I", view, at)
    if magic & _ZSTD_SKIPPABLE_MASK == _ZSTD_SKIPPABLE:
        return at + 8 + int(struct.unpack_from("<I", view, at + 4)[0]), 0
    if magic != _ZSTD_MAGIC:
        raise CorruptPayload(f"zstd payload has {magic:#010x} at byte {at}; the magic number of a frame is expected")
    descriptor = int(struct.unpack_from("B", view, at + 4)[0])
    single_segment = bool(descriptor & 0x20)
    content_size_bytes = (int(single_segment), 2, 4, 8)[descriptor >> 6]
    at += 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    claimed = int.from_bytes(view[at : at + content_size_bytes], "little")
    claimed += _ZSTD_CONTENT_SIZE_OFFSET if content_size_bytes == 2 else 0
    at += content_size_bytes
    bound = 0
    last = False
    while not last:
        low, high = struct.unpack_from("<BH", view, at)
        header = low | high << 8
        last = bool(header & 1)
        kind, size = header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == _ZSTD_RLE else size)
        bound += _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_COMPRESSED else size
    # The decoder refuses a frame whose content does not have the claimed size, so a smaller claim can be trusted.
    return at + (4 if descriptor & 0x04 else 0), min(bound, claimed) if content_size_bytes else bound


def _read_zstd(view: memoryview, limit: int) -> memoryview:
    if len(view) == 0:
        return view  # without a frame there are no records; Kafka's reader accepts this, too
    at = bound = 0
    while at < len(view):
        at, extent = _zstd_frame_extent(view, at)
        bound += extent
    return _decode_into(zstd.decompress_into, view, bound, limit)


def _write_zstd(view: memoryview, level: int | None) -> bytes:
    return bytes(zstd.compress(view, level=3 if level is None else _check_level("zstd", level, -131072, 22)))


# cramjam's error if the output does not fit (the text of Rust's io::ErrorKind::WriteZero in write_all).
_ROOM_IS_FULL = "failed to write whole buffer"


def _decode_into(decoder: Callable[[Buffer, Buffer], int], view: memoryview, bound: int, limit: int) -> memoryview:
    # One byte more than allowed, to distinguish "exactly the limit" from "more".
    room = _room(min(bound, limit + 1))
    try:
        size = decoder(view, room)
    except cramjam.DecompressionError as error:
        if bound > limit and str(error) == _ROOM_IS_FULL:
            raise too_large(limit) from None
        raise
    if size > limit:
        raise too_large(limit)
    return memoryview(room)[:size]


READERS: dict[int, Callable[[memoryview, int], memoryview]] = {
    Codec.GZIP: _read_gzip,
    Codec.SNAPPY: _read_snappy,
    Codec.LZ4: _read_lz4,
    Codec.ZSTD: _read_zstd,
}
WRITERS: dict[int, Callable[[memoryview, int | None], bytes]] = {
    Codec.GZIP: _write_gzip,
    Codec.SNAPPY: _write_snappy,
    Codec.LZ4: _write_lz4,
    Codec.ZSTD: _write_zstd,
}
