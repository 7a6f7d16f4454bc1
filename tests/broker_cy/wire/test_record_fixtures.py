"""The internal topics of Kafka 4.3.1 are read as Kafka's own tool reads them: users who migrate keep their groups and
transactions.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.cursor import Cursor
from broker_cy.core.writer import Writer
from broker_cy.schemas import tables
from broker_cy.wire import codec, messages
from broker_cy.wire.records import Record, decode_batches
from tests.broker_cy.wire.kafka_json import as_json

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1"
# Every value of the metadata log starts with the version of its frame, as an unsigned varint.
FRAME_VERSION = 1


def classes(folder: str, kind: str) -> dict[int, type[codec.Message]]:
    """Return the classes of one folder of tables by the number that precedes a record."""
    specs = [tables.load(name) for name, path in tables.message_files().items() if Path(path).parent.name == folder]
    return {spec.key: getattr(messages, spec.name) for spec in specs if spec.kind == kind}


def records(partition: str) -> list[Record]:
    data = (FIXTURES / "logdir" / partition / "00000000000000000000.log").read_bytes()
    return [record for batch in decode_batches(data) if not batch.is_control for record in batch]


def dumped(partition: str) -> dict[int, tuple[Any, Any]]:
    """Return the JSON of key and payload that the tool printed, by offset; None if it printed none or <DELETE>."""
    found = {}
    for line in (FIXTURES / "dump" / f"{partition}.txt").read_text().splitlines():
        match = re.match(r"\| offset: (\d+) .*? headerKeys: \[\](?: key: (\{.*?\}))? payload: (.*)$", line)
        if match:
            key, payload = match[2], match[3]
            found[int(match[1])] = (
                json.loads(key) if key else None,
                json.loads(payload) if payload[0] == "{" else None,
            )
    return found


def test_the_metadata_log_is_read_field_for_field() -> None:
    by_type = classes("metadata", "metadata")
    shown = dumped("__cluster_metadata-0")
    found = records("__cluster_metadata-0")
    assert len(found) == len(shown) > 40
    for record in found:
        assert record.value is not None
        cursor = Cursor(record.value)
        assert cursor.read_uvarint() == FRAME_VERSION
        cls, version = by_type[cursor.read_uvarint()], cursor.read_uvarint()
        message = codec.decode(cls, version, record.value[cursor.at :])
        kind = tables.snake_case(cls.__name__).upper()
        assert shown[record.offset] == (None, {"type": kind, "version": version, "data": as_json(message, version)})
        writer = Writer()
        for number in (FRAME_VERSION, cls.API_KEY, version):
            writer.write_uvarint(number)
        codec.encode_into(writer, message, version)
        assert writer.getvalue() == record.value


@pytest.mark.parametrize(
    ("partition", "folder"), [("__consumer_offsets-0", "group"), ("__transaction_state-0", "transaction")]
)
def test_coordinator_records_are_read_field_for_field(partition: str, folder: str) -> None:
    keys, values = classes(folder, "coordinator-key"), classes(folder, "coordinator-value")
    shown = dumped(partition)
    found = records(partition)
    assert len(found) == len(shown) > 8
    for record in found:
        assert record.key is not None
        # A key is preceded by the type of the record, a value by its version.
        number = Cursor(record.key).read_i16()
        key = codec.decode(keys[number], 0, record.key[2:])
        shown_key, shown_value = shown[record.offset]
        assert shown_key == {"type": str(number), "data": as_json(key, 0)}
        assert record.key[:2] + codec.encode(key, 0) == record.key
        if record.value is None:
            assert shown_value is None
            continue
        value, version = codec.decode_versioned(values[number], record.value)
        data = as_json(value, version)
        if isinstance(value, messages.GroupMetadataValue):
            # The tool also decodes what a consumer's client wrote there.
            for shown_member, member in zip(data["members"], value.members, strict=True):
                subscription = codec.decode_versioned(messages.ConsumerProtocolSubscription, member.subscription)
                assignment = codec.decode_versioned(messages.ConsumerProtocolAssignment, member.assignment)
                shown_member.update(subscription=as_json(*subscription), assignment=as_json(*assignment))
        assert shown_value == {"version": str(version), "data": data}
        assert codec.encode_versioned(value, version) == record.value
