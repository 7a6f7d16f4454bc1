"""Record batches: from producers, from disk and from other brokers, and the compressed bytes inside."""

from __future__ import annotations

import struct
from array import array
from typing import Any

from broker_cy.core import crc32c
from broker_cy.core.errors import WireError
from broker_cy.wire import batch, control
from broker_cy.wire.compression import Codec, CorruptPayload, PayloadTooLarge, compress, decompress
from broker_cy.wire.records import Record, decode_batches, encode_batch, rebuild_batch
from broker_cy.wire.rejection import Accepted
from tests.fuzz.mutator import Mutator
from tests.fuzz.target import MIB, Target
from tests.fuzz.wire_targets import control_corpus

NOW_MS = 1_700_000_000_000
HEADER_BYTES = 61
# Position and width of the header's fields; length and checksum are among them.
FIELDS = (
    (0, 8),
    (8, 4),
    (12, 4),
    (16, 1),
    (17, 4),
    (21, 2),
    (23, 4),
    (27, 8),
    (35, 8),
    (43, 8),
    (51, 2),
    (53, 4),
    (57, 4),
)
# The decompressed size limit for a small input; well below decompressed_limit, so that inputs reach it.
PLAIN_BYTES_MAX = 1 << 20


def fix(out: bytearray) -> None:
    """Correct the length and checksum of a batch."""
    if len(out) >= HEADER_BYTES:
        struct.pack_into(">i", out, 8, len(out) - 12)
        struct.pack_into(">I", out, 17, crc32c.value(memoryview(out)[21:]))


def record_sets() -> list[list[Record]]:
    """Records with and without all optional parts."""
    headers = [("h", b"v"), ("", None), ("header-2", b"x" * 40)]
    return [
        [Record(timestamp=NOW_MS, value=b"v")],
        [Record(timestamp=NOW_MS + i, key=b"k%d" % i, value=b"value %d" % i) for i in range(5)],
        [Record(timestamp=NOW_MS - i, key=None, value=None, headers=headers) for i in range(3)],
        [Record(timestamp=-1, key=b"", value=b"x" * 200), Record(timestamp=NOW_MS, key=b"y" * 130, value=b"z" * 9000)],
    ]


def produced_corpus() -> list[bytes]:
    """Every set of records with every codec, with and without a producer."""
    return [
        encode_batch(records, codec=codec, producer_id=pid, producer_epoch=min(pid, 0), base_sequence=min(pid, 3))
        for records in record_sets()
        for codec in Codec
        for pid in (-1, 1000)
    ]


def mutate_batch(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Change the header, the uncompressed records, or any byte; mostly with a correct length and checksum."""
    r = mutator.bits(16)
    if r & 3 == 0 and len(data) >= HEADER_BYTES:
        out = bytearray(data)
        for _ in range(1 + (r >> 8 & 1)):
            at, width = FIELDS[mutator.bits(16) % len(FIELDS)]
            mutator.overwrite(out, at, width)
        if r & 4:
            struct.pack_into(">I", out, 17, crc32c.value(memoryview(out)[21:]))
        return bytes(out)
    if r & 3 == 1 and len(data) >= HEADER_BYTES:
        try:
            codec = data[22] & 7
            plain = mutator.mutate(bytes(decompress(codec, data[HEADER_BYTES:], PLAIN_BYTES_MAX)), other)
            out = bytearray(data[:HEADER_BYTES]) + compress(codec, plain)
        except ValueError:  # the payload of a mutant
            out = mutator.mutate(data, other)
    else:
        out = mutator.mutate(data, other)
    if r & 0x70:
        fix(out)
    return bytes(out)


RULES: tuple[dict[str, Any], ...] = (
    {},
    {"timestamp_type": 1},
    {"compacted": True},
    {"target_codec": 4, "after_max_ms": 2**63 - 1},
    {"before_max_ms": 1000, "after_max_ms": 0},
    {"max_message_bytes": 300, "produce_version": 3},
)


def run_produced(data: bytes) -> None:
    """A batch that a leader accepts can be read by a consumer: the same number of records, at consecutive offsets."""
    rules = RULES[data[-1] % len(RULES) if data else 0]
    # As long as the batch, so that reading past it is detected.
    buffer = array("B", data)
    verdict = batch.validate(buffer, now_ms=NOW_MS, **rules)
    if not isinstance(verdict, Accepted):
        raise WireError(verdict.message)
    stored = bytes(buffer)[: verdict.size_bytes]
    if verdict.rebuild:
        stored = rebuild_batch(stored)
        again = batch.validate(
            bytearray(stored), now_ms=NOW_MS, **{**rules, "target_codec": -1, "max_message_bytes": MIB}
        )
        assert isinstance(again, Accepted), again
        assert not again.rebuild
    (found,) = decode_batches(stored)
    assert found.is_valid()
    records = found.records()
    assert [record.offset for record in records] == list(range(found.count))
    assert verdict.max_timestamp == NOW_MS if rules.get("timestamp_type") else True


def stored_corpus() -> list[bytes]:
    """Contents of logs: several batches, at offsets, control batches, transactions."""
    markers = []
    for item in control_corpus():
        size = item[0]
        record = Record(timestamp=NOW_MS, key=item[1 : 1 + size], value=item[1 + size :])
        markers.append(encode_batch([record], control=True, base_offset=77, producer_id=5, producer_epoch=1))
    data = [
        encode_batch(records, codec=codec, base_offset=1000 * codec, leader_epoch=3)
        for records in record_sets()
        for codec in Codec
    ]
    several = [b"".join(data[:5]), markers[0] + data[7], data[3] + markers[1] + data[0][:40]]
    appended = [encode_batch(record_sets()[1], log_append_time_ms=NOW_MS, transactional=True, producer_id=9)]
    return [*data, *markers, *several, *appended]


def run_stored(data: bytes) -> None:
    """Read as internal topics and tools do."""
    for found in decode_batches(array("B", data)):
        found.is_valid()
        repr(found)
        assert found.last_sequence <= 2**31 - 1
        for record in found.records(PLAIN_BYTES_MAX):
            if found.is_control:
                control.decode_control(record)


def compressed_corpus() -> list[bytes]:
    """Payloads, with the codec in the first byte, in several framings."""
    plain = [b"", b"a", b"abc" * 50, bytes(range(256)) * 20, b"\x00" * 40_000]
    return [bytes((codec - 1,)) + compress(codec, data) for data in plain for codec in Codec if codec]


def run_compressed(data: bytes) -> None:
    """No output is longer than allowed."""
    codec = 1 + (data[0] if data else 0) % 4
    assert len(decompress(codec, memoryview(array("B", data[1:])), PLAIN_BYTES_MAX)) <= PLAIN_BYTES_MAX


TARGETS = {
    target.name: target
    for target in (
        # One batch may make a buffer of compression.decompressed_limit.
        Target("produced", produced_corpus, run_produced, (WireError,), 100_000, mutate_batch, 400 * MIB),
        Target("stored", stored_corpus, run_stored, (WireError,), 60_000, mutate_batch, 400 * MIB),
        # zstd reserves the window that a frame claims, up to 128 MiB, without using it.
        Target("compressed", compressed_corpus, run_compressed, (CorruptPayload, PayloadTooLarge), 50_000,
               memory_bytes_max=400 * MIB),
    )
}  # fmt: skip
