"""Fetched batches as batches to produce: no record is lost, and only what a broker refuses is encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from broker_cy.core import crc32c
from broker_cy.wire import codec, messages
from broker_cy.wire.batch import validate
from broker_cy.wire.compression import Codec
from broker_cy.wire.marker import encode_marker
from broker_cy.wire.records import Record, decode_batches, encode_batch
from broker_cy.wire.rejection import Accepted
from broker_mirror.copy.restamp import RUNS_MAX, Damaged, Piece, cut, produce_parts, runs_of

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def rows(data: bytes, start: int = 0) -> list[Row]:
    """The records as consumers see them."""
    return [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for batch in decode_batches(data)
        for each in batch
        if each.offset >= start
    ]


def copied(pieces: Sequence[Piece]) -> list[Row]:
    """The records of produced batches, with their offsets in the source by the runs of each batch."""
    found = []
    for piece in pieces:
        (batch,) = decode_batches(piece.stamped(9, 3, 70, transactional=True))
        offsets = [source + step for source, _, count in piece.runs for step in range(count)]
        assert batch.is_valid()
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 70)
        assert (batch.base_offset, batch.leader_epoch, batch.is_transactional) == (0, -1, True)
        assert (offsets[0], offsets[-1], len(offsets)) == (piece.first, piece.last, piece.count)
        found += [
            (offset, each.timestamp, each.key, each.value, each.headers)
            for offset, each in zip(offsets, batch, strict=True)
        ]
    return found


def records(count: int, draw: Random) -> list[Record]:
    return [
        Record(
            timestamp=1_000 + draw.randrange(100),
            key=draw.choice((None, b"k%d" % index)),
            value=draw.choice((None, draw.randbytes(draw.randrange(200)))),
            headers=draw.choice(((), (("h", b"1"), ("n", None)))),
        )
        for index in range(count)
    ]


def with_gaps(data: bytes, offset: int, kept: Sequence[int], count: int) -> bytes:
    """A batch as compaction leaves it: the records `kept`, in the offsets of all."""
    (batch,) = decode_batches(data)
    some = [each for each in batch if each.offset - offset in kept]
    out = bytearray(encode_batch(some, base_offset=offset, codec=batch.codec))
    # Uncompressed records: their offset deltas are one byte of a zigzag number, which is rewritten.
    at = 61
    for each in some:
        size, width = _varint(out, at)
        _, skip = _varint(out, at + width + 1)
        out[at + width + 1 + skip] = (each.offset - offset) * 2
        at += width + size
    out[23:27] = (count - 1).to_bytes(4, "big")
    return sealed(out)


def _varint(data: bytearray, at: int) -> tuple[int, int]:
    value = shift = width = 0
    while True:
        byte = data[at + width]
        value |= (byte & 0x7F) << shift
        width, shift = width + 1, shift + 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), width


def sealed(batch: bytearray) -> bytes:
    """The batch with a checksum that fits."""
    batch[17:21] = crc32c.value(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("compression", list(Codec), ids=str)
def test_batches_pass_as_they_are(compression: Codec) -> None:
    """If this fails, each record is decoded, which costs ten times as much, or a record changes."""
    draw = Random(int(compression))
    data = b""
    offset = 40
    for count in (1, 7, 100):
        data += encode_batch(records(count, draw), base_offset=offset, codec=compression, leader_epoch=5)
        offset += count
    pieces, next_offset = cut(data, 40, None, "t-0")
    assert next_offset == offset
    assert copied(pieces) == rows(data)
    assert [piece.count for piece in pieces] == [1, 7, 100]
    assert not any(piece.encoded_again for piece in pieces)
    payloads = [bytes(batch.data)[61:] for batch in decode_batches(data)]
    assert [piece.stamped(1, 0, 0, transactional=False)[61:] for piece in pieces] == payloads


def test_random_answers_lose_nothing() -> None:
    """Compacted batches, aborted transactions, markers, and an offset inside a batch, as one answer has them. If this
    fails, records are lost or copied although they were aborted.
    """
    for seed in range(200):
        draw = Random(seed)
        data, offset = b"", 100
        expected: list[Row] = []
        aborted: list[tuple[int, messages.FetchResponse.AbortedTransaction]] = []
        for _ in range(draw.randrange(1, 8)):
            count = draw.randrange(1, 20)
            batch = encode_batch(records(count, draw), base_offset=offset)
            match draw.randrange(5):
                case 0:
                    kept = sorted(draw.sample(range(count), draw.randrange(1, count + 1)))
                    batch = with_gaps(batch, offset, kept, count)
                    expected += rows(batch)
                case 1:
                    producer_id = draw.randrange(3)
                    some = records(count, draw)
                    batch = encode_batch(
                        some,
                        base_offset=offset,
                        producer_id=producer_id,
                        producer_epoch=0,
                        base_sequence=0,
                        transactional=True,
                    )
                    if is_aborted := draw.random() < 0.5:
                        entry = messages.FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=offset)
                        aborted.append((offset + count, entry))
                    else:
                        expected += rows(batch)
                    marker = bytearray(encode_marker(producer_id, 0, 0, not is_aborted, 1))
                    marker[:8] = (offset + count).to_bytes(8, "big")
                    batch += bytes(marker)
                    count += 1
                case _:
                    expected += rows(batch)
            data += batch
            offset += count
        start = draw.randrange(100, offset)
        # As a broker: those that end at the fetched offset or later.
        listed = [entry for marker_at, entry in aborted if marker_at >= start]
        pieces, next_offset = cut(data, start, listed, "t-0")
        assert copied(pieces) == [row for row in expected if row[0] >= start], seed
        assert next_offset == offset
        for piece in pieces:
            sent = bytearray(piece.stamped(1, 0, 0, transactional=False))
            assert isinstance(validate(sent, now_ms=1_000), Accepted)


def test_times_of_arrival_become_times_of_records() -> None:
    """A broker refuses a batch of a producer with the time of arrival. If this fails, such a topic is not copied, or
    its records have other times.
    """
    data = encode_batch(records(5, Random(1)), base_offset=3, log_append_time_ms=77)
    pieces, _ = cut(data, 0, None, "t-0")
    assert [row[1] for row in copied(pieces)] == [77] * 5
    assert pieces[0].encoded_again


def test_large_batches_are_split() -> None:
    """If this fails, a topic whose batches are larger than the target accepts is never copied."""
    data = encode_batch([Record(timestamp=1, value=bytes(1_000)) for _ in range(50)], base_offset=9)
    pieces, next_offset = cut(data, 9, None, "t-0", 5_000)
    assert copied(pieces) == rows(data)
    assert max(piece.size_bytes for piece in pieces) <= 5_000
    assert next_offset == 59
    (alone,), _ = cut(encode_batch([Record(value=bytes(9_000))]), 0, None, "t-0", 5_000)
    assert alone.count == 1


def test_runs_are_bounded() -> None:
    """If this fails, one compacted batch makes thousands of offset syncs."""
    assert runs_of([5, 6, 9]) == ((5, 0, 2), (9, 2, 1))
    many = runs_of([*range(0, 2_000, 2)])
    assert len(many) == RUNS_MAX
    assert many[0] == (0, 0, 1)
    assert many[-1] == (1_998, 999, 1)


def test_damaged_bytes_are_named() -> None:
    """If this fails, damaged bytes get a fitting checksum, and the damage is hidden for ever."""
    data = bytearray(encode_batch(records(3, Random(2)), base_offset=12))
    data[-1] ^= 1
    # Batches that are not passed on are checked here, the others by the target.
    with pytest.raises(Damaged, match="partition t-0: the batch at offset 12 is damaged: its checksum is wrong"):
        cut(bytes(data), 13, None, "partition t-0")
    for wrong in (b"\0" * 17, bytes(data[:40]), b"\xff" * 80):
        with pytest.raises(Damaged, match=r"partition t-0: .*offset 12"):
            cut(wrong, 12, None, "partition t-0")
    many = bytearray(encode_batch(records(3, Random(2)), base_offset=12))
    many[57:61] = (9).to_bytes(4, "big")
    with pytest.raises(Damaged, match="9 records in 3 offsets"):
        cut(sealed(many), 12, None, "partition t-0")
    torn = encode_batch(records(3, Random(2)), base_offset=12, codec=Codec.ZSTD, log_append_time_ms=1)
    with pytest.raises(Damaged, match="the batch at offset 12 is damaged"):
        cut(sealed(bytearray(torn[:61] + b"\1" * (len(torn) - 61))), 12, None, "partition t-0")


def test_a_wrong_checksum_stays_wrong() -> None:
    """If this fails, damaged bytes get a fitting checksum, and the target takes them for records."""
    draw = Random(4)
    for seed in range(200):
        data = bytearray(encode_batch(records(draw.randrange(1, 40), Random(seed)), base_offset=12))
        at = draw.randrange(21, len(data))
        if 23 <= at < 27 or 57 <= at < 61 or at == 22:
            # The count, the offsets, and bits that have the batch taken apart: it is checked then.
            continue
        (whole,), _ = cut(bytes(data), 12, None, "t-0")
        data[at] ^= 1 << draw.randrange(8)
        (piece,), _ = cut(bytes(data), 12, None, "t-0")
        assert (whole.is_valid(), piece.is_valid()) == (True, False)
        identity = draw.randrange(1 << 40), draw.randrange(1 << 15), draw.randrange(1 << 31), draw.random() < 0.5
        (sent,) = decode_batches(whole.stamped(*identity))
        assert sent.is_valid()
        (sent,) = decode_batches(piece.stamped(*identity))
        assert not sent.is_valid()


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_requests_are_those_of_the_tables(version: int) -> None:
    """If this fails, brokers cannot read the requests of the mirror."""
    data = encode_batch(records(4, Random(3)))
    (piece,), _ = cut(data, 0, None, "t-0")
    topic_id = bytes(range(16))
    large = encode_batch([Record(timestamp=1, value=bytes(9_000))])
    ((big,), _) = cut(large, 0, None, "t-0")
    parts = produce_parts(version, "mine", 500, [("t", topic_id, [(2, big, 8), (4, piece, 9)])], 5, 1, True)
    # The payload of the large batch is not copied.
    assert [len(part) for part in parts if isinstance(part, memoryview)] == [len(large) - 61]
    read = codec.decode(messages.ProduceRequest, version, b"".join(parts))
    assert (read.transactional_id, read.acks, read.timeout_ms) == ("mine", -1, 500)
    (topic,) = read.topic_data
    assert topic.topic_id.bytes == topic_id if version >= 13 else topic.name == "t"
    assert [part.index for part in topic.partition_data] == [2, 4]
    assert [part.records for part in topic.partition_data] == [
        big.stamped(5, 1, 8, True),
        piece.stamped(5, 1, 9, True),
    ]
    plain = codec.decode(messages.ProduceRequest, version, b"".join(produce_parts(version, None, 1, [], -1, -1, False)))
    assert plain.transactional_id is None


def test_changed_records_keep_their_offsets() -> None:
    """If this fails, the transforms of a flow have no effect on some batches, or groups fail over to other records."""
    batch = encode_batch(records(10, Random(1)), base_offset=40, codec=Codec.LZ4)
    marker = bytearray(encode_marker(1, 0, 0, True, 1))
    marker[:8] = (50).to_bytes(8, "big")
    data = batch + bytes(marker)

    def change(found: list[Record]) -> list[Record]:
        kept = [each for each in found if each.offset % 3]
        return [Record(each.offset, each.timestamp, each.key, b"new", each.headers) for each in kept]

    (piece,), next_offset = cut(data, 42, None, "t-0", change=change)
    assert copied([piece]) == [(*row[:3], b"new", row[4]) for row in rows(batch, 43) if row[0] % 3]
    assert piece.runs == ((43, 0, 2), (46, 2, 2), (49, 4, 1))
    assert (next_offset, piece.encoded_again) == (51, True)
    (sent,) = decode_batches(piece.stamped(1, 0, 0, transactional=False))
    assert sent.codec is Codec.LZ4
    assert cut(data, 40, None, "t-0", change=lambda _: []) == ([], 51)
