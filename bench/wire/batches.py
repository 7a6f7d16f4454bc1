"""The record batches of a workload, encoded once and sent repeatedly, with its sizes, keys, entropy and codec.

All random data comes from one seed, so that every target receives the same batches. The encoding is deliberately
independent of broker_cy, as is bench.wire.protocol.
"""

import gzip
import random
import struct
from typing import NamedTuple

import cramjam

from bench.spec.workload import Workload
from bench.wire import protocol
from broker_cy.client.payload.draws import draw, value

SEED = 1
CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCHES_MIN = 4  # distinct batches, so that a target cannot benefit from a single one; more if the bounds below allow
BATCHES_MAX = 4096
POOL_BYTES = 64 << 20
POOL_RECORDS = 50_000  # encoded in a fraction of a second
SNAPPY_BLOCK = 32 << 10
LZ4_BLOCK = 64 << 10
LZ4_STORED = 1 << 31  # block size flag: not compressed


class Batch(NamedTuple):
    """One encoded batch."""

    data: bytes
    records: int


def key(source: random.Random, keys: int, key_bytes: int) -> bytes | None:
    """Draw one of `keys` keys: its number with leading zeros, cut or padded to `key_bytes`."""
    if keys == 0:
        return None
    return str(source.randrange(keys)).zfill(key_bytes).encode()[-key_bytes:]


def encode(workload: Workload, source: random.Random) -> Batch:
    """Encode one batch of as many records as fit into `workload.batch_bytes` before compression, at least one."""
    parts: list[bytes] = []
    used = 61  # the batch's header
    while True:
        each_key = key(source, workload.keys, workload.key_bytes)
        each = protocol.record(
            len(parts), each_key, value(source, draw(source, workload.record_size), workload.entropy)
        )
        if parts and used + len(each) > workload.batch_bytes:
            break
        parts.append(each)
        used += len(each)
        if used >= workload.batch_bytes:
            break
    records = compress(workload.codec, b"".join(parts))
    return Batch(protocol.batch_of(records, len(parts), CODEC_IDS[workload.codec]), len(parts))


def of_records(workload: Workload, count: int, seed: int) -> Batch:
    """Encode one batch of `count` records, regardless of its size."""
    source = random.Random(seed)
    size = workload.record_size
    parts = [
        protocol.record(
            number,
            key(source, workload.keys, workload.key_bytes),
            value(source, draw(source, size), workload.entropy),
        )
        for number in range(count)
    ]
    return Batch(protocol.batch_of(compress(workload.codec, b"".join(parts)), count, CODEC_IDS[workload.codec]), count)


def pool(workload: Workload, most: int = BATCHES_MAX) -> list[Batch]:
    """Return distinct batches: BATCHES_MIN up to BATCHES_MAX or `most`, as POOL_BYTES and POOL_RECORDS allow."""
    source = random.Random(SEED)
    made = [encode(workload, source)]
    each_bytes = max(len(made[0].data), min(workload.batch_bytes, POOL_BYTES))
    fit = min(POOL_BYTES // each_bytes, POOL_RECORDS // made[0].records, BATCHES_MAX, most)
    made += [encode(workload, source) for _ in range(max(BATCHES_MIN, fit) - 1)]
    return made


def compress(codec: str, data: bytes) -> bytes:
    """Compress data in the framing that Kafka's Java client writes."""
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    if codec == "snappy":
        return _snappy(data)
    if codec == "lz4":
        return _lz4(data)
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data, 3))
    return data


def _snappy(data: bytes) -> bytes:
    """Return the header of snappy-java's stream (magic, version 1, compatible 1) and raw blocks with their int32 sizes.

    Each size precedes its block.
    """
    out = bytearray(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1))
    for at in range(0, len(data), SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + SNAPPY_BLOCK]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _lz4(data: bytes) -> bytes:
    """Return an LZ4 frame of independent blocks of 64 KiB without checksums: Kafka does not read linked blocks.

    The byte after flags (0x60) and block size (0x40) is their checksum, as the LZ4 frame format requires.
    """
    out = bytearray(b"\x04\x22\x4d\x18\x60\x40\x82")
    for at in range(0, len(data), LZ4_BLOCK):
        plain = data[at : at + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block)) + block
        else:
            out += struct.pack("<I", len(plain) | LZ4_STORED) + plain
    return bytes(out + bytes(4))
