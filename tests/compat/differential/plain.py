"""Responses as JSON that is the same for two brokers that behave the same.

Fields with their default value are left out. Values that a broker generates (ids, its own times, its port) are replaced
by the name that the script gave them; record sets become lists of their batches.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from broker_cy.wire.layout import Message
from broker_cy.wire.records import decode_batches

Json = Any

# Times that a broker wrote itself are later than this; those that scripts use are earlier.
BROKER_TIME_MS = 1_750_000_000_000
# Figures that depend on the machine, or on the broker's other work at that time.
MASKED = {"total_bytes", "usable_bytes", "finalized_features_epoch", "log_dir"}
# Times and similar values in the text of an error.
LONG_NUMBER = re.compile(r"-?\b\d{13,}\b")
# Kafka returns these in the order of one of its hash tables.
UNORDERED = {
    ("AlterShareGroupOffsetsResponse", "responses"): "topic_name",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("CreatePartitionsResponse", "results"): "name",
    ("DeleteRecordsResponse", "topics"): "name",
    ("DeleteRecordsTopicResult", "partitions"): "partition_index",
    ("DeleteTopicsResponse", "responses"): "name",
    ("DeleteGroupsResponse", "results"): "group_id",
    ("DescribeGroupsResponse", "groups"): "group_id",
    ("DescribeLogDirsResult", "topics"): "name",
    ("DescribeLogDirsTopic", "partitions"): "partition_index",
    ("DescribedGroup", "members"): "member_id",
    ("JoinGroupResponse", "members"): "member_id",
    ("ListGroupsResponse", "groups"): "group_id",
    ("ListOffsetsResponse", "topics"): "name",
    ("ListOffsetsTopicResponse", "partitions"): "partition_index",
    ("Member", "subscribed_topic_names"): "",
    ("MetadataResponse", "topics"): "name",
    ("OffsetCommitResponse", "topics"): "name",
    ("OffsetCommitResponseTopic", "partitions"): "partition_index",
    ("OffsetDeleteResponse", "topics"): "name",
    ("OffsetDeleteResponseTopic", "partitions"): "partition_index",
    ("OffsetFetchResponse", "topics"): "name",
    ("OffsetFetchResponseGroup", "topics"): "name",
    ("OffsetFetchResponseTopic", "partitions"): "partition_index",
    ("OffsetFetchResponseTopics", "partitions"): "partition_index",
    ("ProduceResponse", "responses"): "name",
    ("ShareAcknowledgeTopicResponse", "partitions"): "partition_index",
    ("ShareFetchableTopicResponse", "partitions"): "partition_index",
    ("ShareGroupDescribeResponse", "groups"): "group_id",
    ("StreamsGroupDescribeResponse", "groups"): "group_id",
    ("TopicProduceResponse", "partition_responses"): "index",
}

# Lists that are compared entry by entry: the first field is the name of an entry.
BY_KEY = {
    ("ApiVersionsResponse", "api_keys"),
    ("ApiVersionsResponse", "supported_features"),
    ("ApiVersionsResponse", "finalized_features"),
    ("CreatableTopicResult", "configs"),
}


class Names:
    """Values that the broker generated, by the names that a script gave them."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.uuids: dict[uuid.UUID, str] = {uuid.UUID(int=0): "<zero>"}
        self.numbers: dict[tuple[str, int], str] = {}

    def give(self, name: str, value: str | uuid.UUID) -> None:
        if isinstance(value, uuid.UUID):
            self.uuids[value] = f"<{name}>"
        elif value:
            self.texts[value] = f"<{name}>"

    def give_number(self, field: str, name: str, value: int) -> None:
        """A number is identified by the field that contains it: fields of other meaning may have equal numbers."""
        self.numbers[field, value] = f"<{name}>"

    def text(self, value: str) -> str:
        for own, name in self.texts.items():
            value = value.replace(own, name)
        return value


def plain(message: Message | str, names: Names) -> Json:
    """Convert one response."""
    return message if isinstance(message, str) else _struct(message, names)


def _struct(message: Message, names: Names) -> dict[str, Json]:
    default = type(message)()
    shown: dict[str, Json] = {}
    for field in type(message).__slots__:
        value = getattr(message, field)
        if value == getattr(default, field):
            continue
        shown[field] = _value(type(message).__name__, field, value, names)
    return shown


def _by_key(items: list[Message], names: Names) -> dict[str, Json]:
    key = type(items[0]).__slots__[0] if items else ""
    shown = {str(getattr(item, key)): {f: v for f, v in _struct(item, names).items() if f != key} for item in items}
    assert len(shown) == len(items), "two entries of one key"
    return shown


def _value(struct: str, field: str, value: Any, names: Names) -> Json:
    if field in MASKED:
        return f"<{field}>"
    if field == "records":
        return _record_set(value, names)
    if isinstance(value, list):
        if (struct, field) in BY_KEY:
            return _by_key(value, names)
        items = [_value(struct, field, item, names) for item in value]
        order = UNORDERED.get((struct, field))
        if order is not None:
            items.sort(key=lambda item: (str(item.get(order)) if isinstance(item, dict) else "", str(item)))
        return items
    if isinstance(value, Message):
        return _struct(value, names)
    if isinstance(value, uuid.UUID):
        return names.uuids.get(value, "<unknown uuid>")
    if isinstance(value, str):
        if field == "cluster_id":
            return "<cluster>"
        text = names.text(value)
        return LONG_NUMBER.sub("<number>", text) if field.endswith("error_message") else text
    if isinstance(value, bytes | memoryview):
        return "0x" + bytes(value).hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(field, int(value), names)
    if isinstance(value, tuple):  # unknown tagged fields
        return [[tag, data.hex()] for tag, data in value]
    return value


def _number(field: str, value: int, names: Names) -> Json:
    if BROKER_TIME_MS < value < 2 * BROKER_TIME_MS:
        return "<broker time>"
    return names.numbers.get((field, value), value)


def _record_set(data: bytes, names: Names) -> list[Json]:
    """Return the header of each batch, and how many bytes of an incomplete one follow."""
    shown: list[Json] = []
    end = 0
    for batch in decode_batches(data):
        end = batch.position + batch.size_bytes
        shown.append(
            {
                "offsets": [batch.base_offset, batch.last_offset],
                "leader_epoch": _number("leader_epoch", batch.leader_epoch, names),
                "attributes": batch.attributes,
                "times": [_number("", batch.base_timestamp, names), _number("", batch.max_timestamp, names)],
                "producer": [
                    _number("producer_id", batch.producer_id, names),
                    batch.producer_epoch,
                    batch.base_sequence,
                ],
                "bytes": batch.size_bytes,
                "values": [None if record.value is None else record.value[:40].hex() for record in batch],
            }
        )
    if end < len(data):
        shown.append({"bytes of a part of a batch": len(data) - end})
    return shown
