"""The codecs: a payload that a client can write and we cannot read is a lost message, and vice versa."""

import gzip
import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from broker_cy.wire.compression import (
    Codec,
    CorruptPayload,
    PayloadTooLarge,
    compress,
    decompress,
    decompressed_limit,
)

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 1 << 30
MIB = 1 << 20
KINDS = ["empty", "one byte", "text", "noise", "zeros", "blocks"]


def sample(kind: str) -> bytes:
    noise = random.Random(7)
    return {
        "empty": b"",
        "one byte": b"x",
        "text": b"the quick brown fox " * 3000,
        "noise": noise.randbytes(300_001),
        "zeros": bytes(MIB + 1),
        "blocks": noise.randbytes(64 * 1024) + bytes(64 * 1024) + noise.randbytes(32 * 1024 + 1),
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", list(Codec))
def test_what_we_write_we_read(codec: Codec, kind: str) -> None:
    """Batches the broker compresses (compression.type, internal topics) come back whole, whatever their size."""
    data = sample(kind)
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("codec", COMPRESSING)
def test_clients_read_what_we_write(codec: Codec, kind: str) -> None:
    """kafka-python and aiokafka, whose framings are those of the Java client, get the same bytes."""
    data = sample(kind)
    packed = compress(codec, data)
    for module in (kafka_codec, aiokafka_codec):
        assert bytes(getattr(module, f"{codec.name.lower()}_decode")(packed)) == data


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("codec", COMPRESSING)
def test_we_read_what_clients_write(codec: Codec, kind: str) -> None:
    """Batches that kafka-python and aiokafka compress are readable."""
    data = sample(kind)
    for module in (kafka_codec, aiokafka_codec):
        packed = getattr(module, f"{codec.name.lower()}_encode")(data)
        assert decompress(codec, packed, len(data)) == data


@pytest.mark.parametrize("kind", KINDS)
def test_both_framings_of_snappy(kind: str) -> None:
    """librdkafka and Go send raw blocks, Java and Python send streams; several streams may follow each other."""
    data = sample(kind)
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), LIMIT) == data
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, data) * 2, LIMIT) == data * 2


def test_several_members_and_frames() -> None:
    """Streaming producers close a gzip member or zstd frame within a batch; nothing after the first is lost."""
    assert bytes(decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), LIMIT)) == b"one two"
    large = random.Random(1).randbytes(100_000)
    members = [large, b"", b"a", large[:5000], large]
    assert decompress(Codec.GZIP, b"".join(map(gzip.compress, members)), LIMIT) == b"".join(members)
    with pytest.raises(CorruptPayload, match="ends before its stream is complete"):
        decompress(Codec.GZIP, b"".join(map(gzip.compress, members))[:-9], LIMIT)
    frames = compress(Codec.ZSTD, b"one ") + struct.pack("<II", 0x184D2A50, 3) + b"xyz" + compress(Codec.ZSTD, b"two")
    assert bytes(decompress(Codec.ZSTD, frames, LIMIT)) == b"one two"


def test_zstd_without_a_content_size() -> None:
    """Java's zstd stream does not contain its length."""
    data = sample("text") + sample("noise")
    stream = cramjam.zstd.Compressor()
    packed = b""
    for at in range(0, len(data), 50_000):
        stream.compress(data[at : at + 50_000])
        packed += bytes(stream.flush())
    assert decompress(Codec.ZSTD, packed + bytes(stream.finish()), LIMIT) == data


def xxh32(data: bytes) -> int:
    """xxHash, 32 bits, seed 0 (the checksum of LZ4 frames)."""
    p1, p2, p3, p4, p5, mask = 2654435761, 2246822519, 3266489917, 668265263, 374761393, 0xFFFFFFFF

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & mask

    if len(data) >= 16:
        lanes = [p1 + p2 & mask, p2, 0, -p1 & mask]
        for at in range(0, len(data) - 15, 16):
            words = struct.unpack_from("<4I", data, at)
            lanes = [rotate((lane + word * p2) & mask, 13) * p1 & mask for lane, word in zip(lanes, words, strict=True)]
        total = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = p5
    total = total + len(data) & mask
    for (word,) in struct.iter_unpack("<I", data[len(data) // 16 * 16 : len(data) // 4 * 4]):
        total = rotate((total + word * p3) & mask, 17) * p4 & mask
    for byte in data[len(data) // 4 * 4 :]:
        total = rotate((total + byte * p5) & mask, 11) * p1 & mask
    total = (total ^ total >> 15) * p2 & mask
    total = (total ^ total >> 13) * p3 & mask
    return total ^ total >> 16


def lz4_frame(data: bytes, flags: int, descriptor: int) -> bytes:
    """Make a frame of one block, or of stored ones, with the options of `flags` (0x10 block sums, 8 size, 4 content
    sum).
    """
    header = bytes([0x40 | flags, descriptor]) + (struct.pack("<Q", len(data)) if flags & 8 else b"")
    out = b"\x04\x22\x4d\x18" + header + bytes([xxh32(header) >> 8 & 0xFF])
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    out += struct.pack("<I", len(block)) + block + (struct.pack("<I", xxh32(block)) if flags & 0x10 else b"")
    return out + bytes(4) + (struct.pack("<I", xxh32(data)) if flags & 4 else b"")


@pytest.mark.parametrize("flags", [0x20, 0x28, 0x30, 0x24, 0x3C])
@pytest.mark.parametrize("descriptor", [0x40, 0x50, 0x60, 0x70])
def test_lz4_frames_with_sizes_and_checksums(flags: int, descriptor: int) -> None:
    """Frames with content size, block and content checksums, and larger blocks, which librdkafka and Java can write."""
    data = sample("text")[:40_000]
    frame = lz4_frame(data, flags, descriptor)
    assert decompress(Codec.LZ4, frame, LIMIT) == data
    assert decompress(Codec.LZ4, frame + b"behind", LIMIT) == data


def test_lz4_frames_that_clients_cannot_read_are_refused() -> None:
    """A batch on which the Java consumer would fail is not accepted into the log."""
    linked = bytes(cramjam.lz4.compress(sample("text")))
    for frame, words in (
        (linked, "linked blocks"),
        (lz4_frame(b"x" * 100, 0x21, 0x40), "not one that Kafka's clients can read"),
        (lz4_frame(b"x" * 100, 0x20, 0x30), "not one that Kafka's clients can read"),
        (b"\x03" + lz4_frame(b"x" * 100, 0x20, 0x40)[1:], "not with an LZ4 frame of version 1"),
    ):
        with pytest.raises(CorruptPayload, match=words):
            decompress(Codec.LZ4, frame, LIMIT)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_is_exact(codec: Codec) -> None:
    """A batch of the largest allowed size is accepted, one byte more is not."""
    data = sample("blocks")
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    with pytest.raises(PayloadTooLarge, match=f"more than {len(data) - 1} bytes"):
        decompress(codec, packed, len(data) - 1)


def bomb(codec: Codec) -> bytes:
    """Some KiB that expand to 64 MiB (for snappy: some MiB, its maximum)."""
    if codec is Codec.GZIP:
        return zlib.compress(bytes(64 * MIB), 1, wbits=31)
    if codec is Codec.ZSTD:
        block = struct.pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"\0"  # run-length: 4 bytes for 128 KiB
        last = struct.pack("<I", 128 * 1024 << 3 | 1 << 1 | 1)[:3] + b"\0"
        return b"\x28\xb5\x2f\xfd\x00\x58" + block * 511 + last
    if codec is Codec.LZ4:
        block = bytes(cramjam.lz4.compress_block(bytes(4 * MIB), store_size=False))
        return b"\x04\x22\x4d\x18\x60\x70\x73" + (struct.pack("<I", len(block)) + block) * 16 + bytes(4)
    block = bytes(cramjam.snappy.compress_raw(bytes(16 * MIB)))
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 4


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_does_not_take_the_memory(codec: Codec) -> None:
    """One hostile producer cannot make the broker run out of memory, for itself and all other clients."""
    packed = bomb(codec)
    limit = 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            decompress(codec, packed, limit)
        # Growing a bytes object copies it into one twice as large.
        assert tracemalloc.get_traced_memory()[1] < 3 * limit
    finally:
        tracemalloc.stop()


def test_sizes_that_are_only_claimed_allocate_nothing() -> None:
    """A few bytes that claim to contain gigabytes cost nothing."""
    zstd = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + struct.pack("<I", 5 << 3 | 1)[:3] + b"12345"
    tracemalloc.start()
    try:
        for codec, packed in ((Codec.SNAPPY, b"\xff\xff\xff\xff\x0f123"), (Codec.ZSTD, zstd)):
            with pytest.raises(CorruptPayload):
                decompress(codec, packed, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_truncation_and_flipped_byte_is_reported(codec: Codec) -> None:
    """A damaged payload is an error or other bytes, never a crash; a truncated one is never accepted as complete."""
    data = sample("text")[:2000] + sample("noise")[:200]
    packed = compress(codec, data)
    for cut in range(1, len(packed)):
        try:
            found = decompress(codec, packed[:cut], LIMIT)
        except CorruptPayload:
            continue
        # snappy's stream has no end mark: it may end after a block, or after its header.
        assert codec is Codec.SNAPPY
        assert len(found) == 0
    for at in range(len(packed)):
        broken = bytearray(packed)
        broken[at] ^= 0x5A
        try:
            decompress(codec, broken, LIMIT)
        except (CorruptPayload, PayloadTooLarge):
            pass


@settings(deadline=None, max_examples=200)
@given(codec=st.sampled_from(COMPRESSING), prefix=st.integers(0, 24), tail=st.binary(max_size=200))
def test_garbage_never_crashes(codec: Codec, prefix: int, tail: bytes) -> None:
    """For any bytes that a client sends as compressed, the worst result is an error for its batch."""
    try:
        assert len(decompress(codec, compress(codec, b"abc" * 30)[:prefix] + tail, MIB)) <= MIB
    except (CorruptPayload, PayloadTooLarge):
        pass


def test_unknown_codecs_and_levels_are_named() -> None:
    """The error for an invalid setting lists the allowed values."""
    for codec in (-1, 5, 7):
        with pytest.raises(ValueError, match=f"codec {codec} is not one of 0"):
            compress(codec, b"")
        with pytest.raises(ValueError, match=f"codec {codec} is not one of 0"):
            decompress(codec, b"", 1)
    for codec, level, words in (
        (Codec.GZIP, 10, "gzip level 10 is outside 1..9"),
        (Codec.LZ4, 18, "lz4 level 18 is outside 1..17"),
        (Codec.ZSTD, 23, "zstd level 23 is outside -131072..22"),
        (Codec.SNAPPY, 1, "snappy has no compression levels; level 1 cannot be used"),
    ):
        with pytest.raises(ValueError, match=words):
            compress(codec, b"x", level)


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, [1, 9]), (Codec.LZ4, [1, 3, 17]), (Codec.ZSTD, [-131072, 1, 22])]
)
def test_levels_have_their_effect(codec: Codec, levels: list[int]) -> None:
    """compression.<codec>.level is not only accepted: the highest level compresses better than the lowest."""
    data = Path(__file__).read_bytes() * 2
    sizes = []
    for level in levels:
        packed = compress(codec, data, level)
        assert decompress(codec, packed, LIMIT) == data
        sizes.append(len(packed))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_the_limit_grows_with_the_batch() -> None:
    """Large batches of ordinary data are accepted; the bound remains what a Java client can hold."""
    assert decompressed_limit(1) == 128 * MIB
    assert decompressed_limit(32 * MIB) == 1024 * MIB
    assert decompressed_limit(1 << 40) == (1 << 31) - 1
