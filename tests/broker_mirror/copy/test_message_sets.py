"""Message sets of magic 0 and 1 become batches: no record is lost or changed, and damage is named."""

from __future__ import annotations

from random import Random

import pytest

from broker_cy.wire.batch import validate
from broker_cy.wire.compression import Codec, compress
from broker_cy.wire.records import Record, decode_batches, encode_batch
from broker_cy.wire.rejection import Accepted
from broker_mirror.copy.restamp import Damaged, Piece, cut
from tests.broker_mirror.copy.old_messages import Old, compressed, message, plain

OLD_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def copied(pieces: list[Piece]) -> list[Old]:
    """The records of the produced batches, with their offsets in the source."""
    found = []
    for piece in pieces:
        data = piece.stamped(1, 0, 0, transactional=False)
        assert isinstance(validate(bytearray(data), now_ms=5_000), Accepted)
        (batch,) = decode_batches(data)
        offsets = [first + step for first, _, count in piece.runs for step in range(count)]
        found += [Old(at, each.key, each.value, each.timestamp) for at, each in zip(offsets, batch, strict=True)]
    return found


def test_random_message_sets_lose_nothing() -> None:
    """With gaps of compaction, in both formats, before batches, from any offset on. If this fails, records of an old
    topic are lost, or have other keys, values or timestamps.
    """
    for seed in range(200):
        draw = Random(seed)
        magic = draw.choice((0, 1))
        data, offset = b"", draw.randrange(1_000)
        first = offset
        expected: list[Old] = []
        for _ in range(draw.randrange(1, 6)):
            some = []
            for index in range(draw.randrange(1, 8)):
                offset += draw.choice((1, 1, 1, 4))
                stamp = 1_000 + draw.randrange(100) if magic else -1
                value = draw.choice((None, b"", b"v" * 50))
                some.append(Old(offset, draw.choice((None, b"k%d" % index)), value, stamp))
            if draw.random() < 0.5:
                data += plain(some, magic)
            else:
                arrived_ms = draw.choice((None, 77)) if magic else None
                data += compressed(some, magic, draw.choice(OLD_CODECS), arrived_ms)
                if arrived_ms is not None:
                    some = [each._replace(timestamp=arrived_ms) for each in some]
            expected += some
        last = offset
        if draw.random() < 0.5:
            new = [Record(timestamp=1_500, key=b"new", value=b"%d" % step) for step in range(3)]
            data += encode_batch(new, base_offset=offset + 1)
            expected += [Old(offset + 1 + step, b"new", b"%d" % step, 1_500) for step in range(3)]
            last += 3
        start = draw.randrange(first, last + 1)
        # An answer may end inside a message.
        rest = message(Old(last + 1, None, bytes(40)), magic)[: draw.randrange(40)]
        pieces, next_offset = cut(data + rest, start, None, "partition t-0")
        assert copied(pieces) == [each for each in expected if each.offset >= start], seed
        assert next_offset == last + 1


def test_codecs_remain() -> None:
    """If this fails, copies of compressed topics need several times their space."""
    some = [Old(step, b"k", b"value" * 20, 5) for step in range(10)]
    for codec in OLD_CODECS:
        for magic in (0, 1):
            (piece,), _ = cut(compressed(some, magic, codec), 0, None, "partition t-0")
            (batch,) = decode_batches(piece.stamped(1, 0, 0, transactional=False))
            assert batch.codec is codec
            assert piece.encoded_again


def test_large_message_sets_are_split() -> None:
    """If this fails, an old topic is not copied if the target accepts smaller batches only."""
    some = [Old(step, None, bytes(500), 5) for step in range(40)]
    pieces, _ = cut(plain(some, 1), 0, None, "partition t-0", 4_000)
    assert max(piece.size_bytes for piece in pieces) <= 4_000
    assert copied(pieces) == some


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (bytes(8) + b"\x00\x00\x00\x05" + bytes(5), "has the size 5; at least 14 is required"),
        (plain([Old(7, b"k", b"v")], 1)[:-1] + b"w", "the message at offset 7 has a wrong checksum"),
        (message(Old(7, None, None), 1, int(Codec.GZIP)), "the message set at offset 7 has no value"),
        (message(Old(7, None, b"no gzip"), 1, int(Codec.GZIP)), "the message set at offset 7: gzip payload"),
        (message(Old(7, None, b""), 0, int(Codec.SNAPPY)), "the message set at offset 7"),
    ],
    ids=["size", "checksum", "null", "payload", "empty"],
)
def test_damaged_messages_are_named(data: bytes, part: str) -> None:
    """If this fails, damaged bytes are copied, or a user does not see where they are."""
    with pytest.raises(Damaged, match=part):
        cut(data, 0, None, "partition t-0")


def test_nested_formats_are_refused() -> None:
    """If this fails, messages inside get the offsets of others."""
    inside = compress(Codec.GZIP, plain([Old(0, None, b"v")], 0))
    with pytest.raises(Damaged, match="contains a message of another format"):
        cut(message(Old(3, None, inside), 1, int(Codec.GZIP)), 0, None, "partition t-0")
    torn = compress(Codec.GZIP, plain([Old(0, None, b"v")], 1)[:-1])
    with pytest.raises(Damaged, match="contains no whole messages"):
        cut(message(Old(3, None, torn), 1, int(Codec.GZIP)), 0, None, "partition t-0")
