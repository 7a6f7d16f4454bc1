"""The batch reader, writer and validator against plain Python and against the clients' own record builders."""

import datetime
import gzip
import io
import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kio.records import schema as kio_schema
from kio.records.readers import read_batch as kio_read_batch
from kio.records.writers import write_new_batch as kio_write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from broker_cy.core import crc32c
from broker_cy.core.errors import WireError
from broker_cy.wire.batch import stamp, validate
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, decode_batches, encode_batch
from broker_cy.wire.rejection import Accepted
from tests.broker_cy.wire import batch_twin as twin

NOW_MS = 1_700_000_000_000
nullable = st.none() | st.binary(max_size=40)
times = st.integers(NOW_MS - 10_000, NOW_MS + 10_000)
wild_times = times | st.sampled_from([-1, 0, -2, 2**63 - 1, -(2**63), NOW_MS + 3_600_000, NOW_MS + 3_600_001])
header_lists = st.lists(st.tuples(st.text(max_size=8), nullable), max_size=3)


def record_lists(timestamps: st.SearchStrategy[int] = times) -> st.SearchStrategy[list[Record]]:
    return st.lists(
        st.builds(Record, timestamp=timestamps, key=nullable, value=nullable, headers=header_lists),
        min_size=1,
        max_size=8,
    )


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


def fixed(data: bytes | bytearray) -> bytearray:
    data = bytearray(data)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c.value(bytes(data[21:])))
    return data


@settings(deadline=None)
@given(records=record_lists(wild_times), base_offset=st.integers(0, 2**62), codec=st.sampled_from(list(Codec)))
def test_what_is_written_is_read(records: list[Record], base_offset: int, codec: Codec) -> None:
    """Everything that a coordinator writes into its topic is read back unchanged."""
    (batch,) = decode_batches(encode_batch(records, base_offset=base_offset, codec=codec, leader_epoch=7))
    assert batch.is_valid()
    assert contents(batch.records()) == contents(records)
    assert [record.offset for record in batch] == list(range(base_offset, base_offset + len(records)))
    assert (batch.count, batch.codec, batch.leader_epoch) == (len(records), codec, 7)
    assert batch.max_timestamp == max(-1, *(record.timestamp for record in records))


@settings(deadline=None)
@given(records=record_lists(), producer=st.booleans(), transactional=st.booleans(), codec=st.sampled_from(list(Codec)))
def test_kafka_python_and_aiokafka_build_the_same_batch(
    records: list[Record], producer: bool, transactional: bool, codec: Codec
) -> None:
    """Our writer's bytes are those of the clients' builders; we read their compressed batches, and they read ours."""
    identity: dict[str, Any] = {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 99} if producer else {}
    full = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | identity
    for builder_type, reader_type in ((KafkaPythonBuilder, KafkaPythonBatch), (AiokafkaBuilder, AiokafkaBatch)):
        builder = builder_type(
            magic=2, compression_type=codec.value, is_transactional=transactional, batch_size=1 << 20, **full
        )
        for place, record in enumerate(records):
            headers = list(record.headers)
            assert builder.append(place, record.timestamp, record.key, record.value, headers) is not None
        theirs = bytes(builder.build())
        (batch,) = decode_batches(theirs)
        assert contents(batch.records()) == contents(records)
        ours = encode_batch(
            records, codec=codec, transactional=transactional, leader_epoch=batch.leader_epoch, **identity
        )
        if codec is Codec.NONE:
            assert ours == theirs
        reader = reader_type(ours)
        assert reader.validate_crc()
        read = [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in reader]
        assert read == contents(records)


@settings(deadline=None)
@given(records=record_lists(st.integers(0, 2_000_000).map(lambda second: second * 1000)))
def test_kio_builds_and_reads_the_same_batch(records: list[Record]) -> None:
    """A third, independent writer (whole seconds only) produces the same bytes."""
    made = tuple(
        kio_schema.Record(
            attributes=i8.parse(0),
            timestamp=TZAwareMicros.parse(datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC)),
            offset=i64.parse(place),
            key=record.key,
            value=record.value,
            headers=tuple(kio_schema.RecordHeader(key=name.encode(), value=value) for name, value in record.headers),
        )
        for place, record in enumerate(records)
    )
    out = io.BytesIO()
    new = kio_schema.NewRecordBatch(
        producer_id=i64.parse(5),
        producer_epoch=i16.parse(1),
        base_sequence=i32.parse(0),
        records=made,
        attributes=i16.parse(0),
    )
    kio_write_batch(out, new)
    ours = encode_batch(records, producer_id=5, producer_epoch=1, base_sequence=0, leader_epoch=0)
    assert ours == out.getvalue()
    read, size = kio_read_batch(ours, 0)
    assert (read.records, size) == (made, len(ours))


rules_strategy = st.builds(
    twin.TwinRules,
    now_ms=st.just(NOW_MS),
    before_ms=st.sampled_from([0, 10_000, 2**63 - 1]),
    after_ms=st.sampled_from([0, 3_600_000, 2**63 - 1]),
    append_time=st.booleans(),
    compacted=st.booleans(),
)
mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3)


def check_against_twin(data: bytearray, rules: twin.TwinRules) -> None:
    expected = twin.judge(bytes(data), rules)
    produced = bytearray(data)
    verdict = validate(
        produced,
        now_ms=rules.now_ms,
        before_max_ms=rules.before_ms,
        after_max_ms=rules.after_ms,
        timestamp_type=int(rules.append_time),
        compacted=rules.compacted,
    )
    if not isinstance(verdict, Accepted):
        assert verdict.code == expected.code
        assert [place for place, _ in verdict.record_errors] == expected.bad_records
        assert produced == data
        return
    assert (expected.code, expected.max_timestamp, expected.rebuild) == (0, verdict.max_timestamp, verdict.rebuild)
    (batch,) = decode_batches(produced)
    assert batch.is_valid()
    assert (batch.max_timestamp, bool(batch.attributes & 0x08)) == (expected.max_timestamp, rules.append_time)
    assert produced[61:] == data[61:]


@settings(deadline=None, max_examples=400)
@given(records=record_lists(wild_times), changes=mutations, gzipped=st.booleans(), rules=rules_strategy)
def test_the_validator_agrees_with_plain_python(
    records: list[Record], changes: list[tuple[int, int]], gzipped: bool, rules: twin.TwinRules
) -> None:
    """An inconsistent batch with a matching checksum is refused for the right reason and never half-accepted."""
    data = bytearray(encode_batch(records))
    for place, value in changes:
        # Attributes of compression are not changed: the payload would have to match.
        at = 23 + place % (len(data) - 23)
        data[at] = value
    if gzipped:
        data[61:] = gzip.compress(bytes(data[61:]))
        data[22] = 1
    check_against_twin(fixed(data), rules)


@settings(deadline=None, max_examples=300)
@given(records=record_lists(), changes=mutations)
def test_the_reader_fails_where_the_validator_does(records: list[Record], changes: list[tuple[int, int]]) -> None:
    """Every accepted batch can be read from the log again, and damage is reported."""
    data = bytearray(encode_batch(records))
    for place, value in changes:
        data[61 + place % (len(data) - 61)] = value
    (batch,) = decode_batches(data)
    try:
        expected = list(twin.read_records(bytes(data[61:]), len(records), batch.base_timestamp))
    except twin.Malformed:
        with pytest.raises(WireError):
            batch.records()
        return
    for ours, theirs in zip(batch.records(), expected, strict=True):
        assert (ours.offset, ours.timestamp) == (theirs.offset_delta, theirs.timestamp)
        assert (ours.key, ours.value) == (theirs.key, theirs.value)
        assert [(name, value) for name, value in ours.headers] == [
            (name.decode("utf-8", "replace"), value) for name, value in theirs.headers
        ]


SAMPLE = [
    Record(timestamp=NOW_MS, key=b"key", value=b"value", headers=[("name", b"content"), ("", None)]),
    Record(timestamp=NOW_MS + 70, key=None, value=None),
    Record(timestamp=NOW_MS - 300_000, key=b"", value=b"x" * 200),
]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_byte_changed_and_every_length_cut(codec: Codec) -> None:
    """No single damaged byte of a produced batch passes the checksum, and with a matching checksum none crashes."""
    good = encode_batch(SAMPLE, codec=codec)
    assert isinstance(validate(bytearray(good), now_ms=NOW_MS), Accepted)
    for cut in range(len(good)):
        assert not isinstance(validate(bytearray(good[:cut]), now_ms=NOW_MS), Accepted)
        assert list(decode_batches(good[:cut])) == []
    for at in range(len(good)):
        for change in (0x01, 0x10, 0x80, 0xFF):
            damaged = bytearray(good)
            damaged[at] ^= change
            verdict = validate(bytearray(damaged), now_ms=NOW_MS)
            # The leader epoch is not covered by the checksum: the leader sets it.
            assert isinstance(verdict, Accepted) == (12 <= at < 16)
            if at >= 21:
                refitted = fixed(damaged)
                if codec is Codec.NONE and at > 22:
                    check_against_twin(refitted, twin.TwinRules(NOW_MS))
                else:
                    validate(refitted, now_ms=NOW_MS)
                (batch,) = decode_batches(damaged)
                try:
                    batch.records()
                except WireError:
                    pass


def test_stamping_keeps_the_checksum() -> None:
    """The offsets a leader assigns do not make the batch look corrupt."""
    data = bytearray(encode_batch(SAMPLE))
    stamp(data, 2**40, 12)
    (batch,) = decode_batches(data)
    assert batch.is_valid()
    assert (batch.base_offset, batch.leader_epoch, batch.last_offset) == (2**40, 12, 2**40 + 2)
    with pytest.raises(ValueError, match="61 bytes; 60 were given"):
        stamp(bytearray(60), 0, 0)


def test_a_batch_of_nothing_and_of_something_else_is_refused() -> None:
    """An error of our code is found where it is made."""
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])
    with pytest.raises(TypeError):
        encode_batch([("key", "value")])  # type: ignore[list-item]
    for wrong in (5, "text"):
        with pytest.raises(TypeError):
            Record(value=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="codec 9 is not one of 0"):
        encode_batch(SAMPLE, codec=9)


def test_a_claimed_count_allocates_nothing() -> None:
    """A header that claims two billion records costs an error."""
    data = bytearray(encode_batch(SAMPLE))
    struct.pack_into(">i", data, 57, 2**31 - 1)
    (batch,) = decode_batches(data)
    with pytest.raises(WireError, match="claims 2147483647 records"):
        batch.records()


def test_batches_keep_their_buffer_alive() -> None:
    """A batch may outlive the bytes object from which it was read."""
    batches = list(decode_batches(encode_batch(SAMPLE) + encode_batch(SAMPLE, codec=Codec.ZSTD)))
    assert [contents(batch.records()) for batch in batches] == [contents(SAMPLE)] * 2
    assert bytes(batches[0].data) == encode_batch(SAMPLE)
    assert batches[1].position == batches[0].size_bytes
