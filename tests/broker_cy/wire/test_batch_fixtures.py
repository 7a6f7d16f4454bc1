"""Everything that a real Kafka 4.3.1 wrote is read as Kafka's own tool reads it: users who migrate keep their data."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.core.errors import WireError
from broker_cy.wire import control
from broker_cy.wire.batch import validate
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch
from broker_cy.wire.rejection import Accepted

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1"
PARTITIONS = sorted(path.stem for path in (FIXTURES / "dump").glob("*.txt"))
LOGS = sorted((FIXTURES / "logdir").glob("*/*.log"))
# For these, the dump shows key and value as decoded by the topic's decoder, not as bytes.
DECODED = {"__cluster_metadata-0", "__consumer_offsets-0", "__transaction_state-0"}


def names(logs: list[Path]) -> list[str]:
    return [f"{log.parent.name}/{log.name}" for log in logs]


def dumped_logs(partition: str) -> Iterator[tuple[str, str]]:
    """(segment file, its part of the dump)"""
    text = (FIXTURES / "dump" / f"{partition}.txt").read_bytes().decode("utf-8", "replace")
    for section in re.split(r"^Dumping ", text, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        if name.endswith(".log"):
            yield name, body


def optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def has_append_time(batch: Batch) -> bool:
    return batch.attributes & 0x08 != 0


def delete_horizon_ms(batch: Batch) -> int | None:
    return batch.base_timestamp if batch.attributes & 0x40 else None


def dump_batch(batch: Batch) -> str:
    kind = "LogAppendTime" if has_append_time(batch) else "CreateTime"
    codec = Codec(batch.codec).name.lower()
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
        f"isTransactional: {str(batch.is_transactional).lower()} isControl: {str(batch.is_control).lower()} "
        f"deleteHorizonMs: {optional(delete_horizon_ms(batch))} position: {batch.position} "
        f"{kind}: {batch.max_timestamp} size: {batch.size_bytes} magic: 2 compresscodec: {codec} crc: {batch.crc} "
        f"isvalid: {str(batch.is_valid()).lower()}"
    )


def dump_record(batch: Batch, record: Record, *, with_data: bool) -> str:
    delta = record.offset - batch.base_offset
    sequence = -1 if batch.base_sequence < 0 else batch.base_sequence + delta
    kind = "LogAppendTime" if has_append_time(batch) else "CreateTime"
    sizes = [-1 if data is None else len(data) for data in (record.key, record.value)]
    line = (
        f"| offset: {record.offset} {kind}: {record.timestamp} keySize: {sizes[0]} valueSize: {sizes[1]} "
        f"sequence: {sequence} headerKeys: [{','.join(name for name, _ in record.headers)}]"
    )
    if batch.is_control:
        return line + dump_control(record)
    if with_data:
        line += "" if record.key is None else f" key: {record.key.decode('utf-8', 'replace')}"
        line += "" if record.value is None else f" payload: {record.value.decode('utf-8', 'replace')}"
    return line


def dump_control(record: Record) -> str:
    message = control.decode_control(record)
    match message:
        case control.EndTxnMarker(commit, epoch):
            return f" endTxnMarker: {'COMMIT' if commit else 'ABORT'} coordinatorEpoch: {epoch}"
        case control.LeaderChange(leader, voters, granting, version):
            fields: dict[str, object] = {"version": version, "leaderId": leader}
            for name, each in (("voters", voters), ("grantingVoters", granting)):
                fields[name] = [{"voterId": voter.voter_id} for voter in each]
            return f" LeaderChange: {json.dumps(fields, separators=(',', ':'))}"
    raise AssertionError(f"no such control record in the fixtures: {message}")


def read_log(name: str) -> bytes:
    return (FIXTURES / "logdir" / name).read_bytes()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_field_of_every_record_is_what_kafkas_tool_prints(partition: str) -> None:
    """A batch, record, header, control record or codec of an existing log directory is not misread."""
    sections = list(dumped_logs(partition))
    assert sections
    for name, body in sections:
        with_data = partition not in DECODED
        expected = body.split("\n", 1)[1]
        lines = []
        for batch in decode_batches(read_log(name)):
            lines.append(dump_batch(batch))
            lines += [dump_record(batch, record, with_data=with_data) for record in batch.records()]
        if with_data:
            assert "\n".join(lines) + "\n" == expected
            continue
        shown = [line for line in expected.split("\n") if line.startswith(("baseOffset", "|"))]
        assert len(shown) == len(lines)
        for ours, theirs in zip(lines, shown, strict=True):
            assert theirs == ours or theirs.startswith((ours + " key: ", ours + " payload: "))


def test_the_fixtures_hold_every_codec_and_kind_of_batch() -> None:
    """The test above covers everything that its name says."""
    batches = [batch for log in LOGS for batch in decode_batches(log.read_bytes())]
    assert {batch.codec for batch in batches} == set(Codec)
    assert any(batch.is_transactional and batch.is_control for batch in batches)
    assert any(batch.producer_id >= 0 and not batch.is_transactional for batch in batches)
    records = [record for batch in batches for record in batch]
    assert any(record.headers for record in records)
    assert any(record.key is None for record in records)
    assert any(record.value is None for record in records)


@pytest.mark.parametrize("log", LOGS, ids=names(LOGS))
def test_a_written_batch_is_the_same_again(log: Path) -> None:
    """Batches that the broker itself writes (internal topics, the metadata log) have Kafka's bytes: uncompressed
    batches are equal byte by byte, compressed ones contain the same records.
    """
    for batch in decode_batches(log.read_bytes()):
        if batch.count != batch.last_offset_delta + 1:
            continue  # compacted: encode_batch gives consecutive offsets
        written = encode_batch(
            batch.records(),
            base_offset=batch.base_offset,
            codec=batch.codec,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=batch.is_transactional,
            control=batch.is_control,
            leader_epoch=batch.leader_epoch,
            log_append_time_ms=batch.max_timestamp if has_append_time(batch) else None,
        )
        (again,) = decode_batches(written)
        assert again.is_valid()
        assert again.records() == batch.records()
        assert (again.attributes, again.count, again.max_timestamp) == (
            batch.attributes,
            batch.count,
            batch.max_timestamp,
        )
        if batch.codec == Codec.NONE:
            assert written == bytes(batch.data)


def test_control_records_are_written_as_kafka_writes_them() -> None:
    """Markers and leader changes we write are Kafka's own bytes."""
    seen = 0
    for log in LOGS:
        for batch in decode_batches(log.read_bytes()):
            for record in batch.records() if batch.is_control else []:
                message = control.decode_control(record)
                assert message is not None
                written = control.encode_control(message, record.timestamp)
                assert (written.key, written.value) == (record.key, record.value)
                seen += 1
    assert seen >= 3


@pytest.mark.parametrize("log", LOGS, ids=names(LOGS))
def test_a_batch_a_client_produced_passes_validation_unchanged(log: Path) -> None:
    """Batches that Kafka accepted from a client are accepted here, without changing a byte."""
    for batch in decode_batches(log.read_bytes()):
        if (
            batch.is_control
            or batch.base_sequence == -1 < batch.producer_id
            or batch.count != batch.last_offset_delta + 1
        ):
            continue  # not from a client, or compacted
        if batch.base_sequence >= 0 and batch.producer_id < 0:
            continue  # written by the coordinator
        produced = bytearray(batch.data)
        produced[:8] = bytes(8)
        before = bytes(produced)
        verdict = validate(produced, now_ms=batch.max_timestamp)
        assert verdict == Accepted(batch.size_bytes, batch.max_timestamp, False, batch.is_transactional)
        assert bytes(produced) == before


@pytest.mark.parametrize("log", LOGS, ids=names(LOGS))
def test_every_truncation_of_a_log_gives_the_whole_batches_before_it(log: Path) -> None:
    """A torn tail, after a crash or at the end of a Fetch response, never hides or invents a batch."""
    data = log.read_bytes()
    ends = [batch.position + batch.size_bytes for batch in decode_batches(data)]
    step = max(1, len(data) // 1500)
    for cut in sorted({*range(0, len(data), step), *ends, *(end - 1 for end in ends), *(end + 61 for end in ends)}):
        found = list(decode_batches(data[:cut]))
        assert len(found) == sum(end <= cut for end in ends)


def test_magic_0_and_1_are_refused_in_words() -> None:
    """A log from before Kafka 0.11 is reported as such, rather than shown as an empty topic."""
    data = bytearray(LOGS[0].read_bytes())
    for magic in (0, 1):
        data[16] = magic
        with pytest.raises(WireError, match=f"magic {magic}; only 2 is supported.*before Kafka 0.11"):
            list(decode_batches(data))
