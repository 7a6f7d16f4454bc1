"""The offsets that connectors have reached in the source: the topic `mm2-offsets.SOURCE.internal` of Kafka Connect, as
its JsonConverter writes it without schemas.

    ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]       {"offset":41}

The offset is that of the last copied record. A record without a value deletes its key. Other connectors write keys of
other forms into the same topic.

Records of this program have two headers, `brokercy.source.topic.id` and `brokercy.target.topic.id`: the 16 bytes of the
id that the topic and its remote topic had. Kafka Connect ignores headers, so a record of MirrorMaker 2 has no ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from broker_cy.core.uuid import ZERO
from broker_mirror.formats.fields import DamagedRecord

CONNECTOR: Final = "MirrorSourceConnector"
"""The name of the connector, unless `A->B.name` is set."""
SOURCE_ID_HEADER: Final = "brokercy.source.topic.id"
TARGET_ID_HEADER: Final = "brokercy.target.topic.id"
_ID_BYTES: Final = 16
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_SUPPLEMENTARY: Final = re.compile("[\U00010000-\U0010ffff]")
_SHOWN_BYTES: Final = 200
# The escapes of Jackson: short ones, and others with capital digits.
_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
}


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition of the source, as a connector names it."""

    cluster: str
    topic: str
    partition: int
    connector: str = CONNECTOR

    def key(self) -> bytes:
        members = f'"cluster":{_text(self.cluster)},"partition":{self.partition},"topic":{_text(self.topic)}'
        return f"[{_text(self.connector)},{{{members}}}]".encode()


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The ids of a topic of the source and of its remote topic; ZERO for one that is not known."""

    source: UUID = ZERO
    target: UUID = ZERO

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        named = ((SOURCE_ID_HEADER, self.source), (TARGET_ID_HEADER, self.target))
        return tuple((name, each.bytes) for name, each in named if each != ZERO)


def encode_offset(offset: int) -> bytes:
    """Return the value of a record; `offset` is that of the last copied record."""
    return f'{{"offset":{offset}}}'.encode()


def decode_key(key: bytes | None) -> SourcePartition | None:
    """Return the partition of a key; None for the key of another connector. Raises DamagedRecord."""
    found = _json("the key of a source offset", key)
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[0], str):
        raise DamagedRecord(f"the key of a source offset is no pair of a connector and a partition: {_shown(key)}")
    name, partition = found
    if not isinstance(partition, dict) or partition.keys() != {"cluster", "partition", "topic"}:
        return None
    cluster, topic, number = partition["cluster"], partition["topic"], partition["partition"]
    if not isinstance(cluster, str) or not isinstance(topic, str) or not _is_number(number, _INT32_MAX):
        raise DamagedRecord(f"the key of a source offset has values of wrong types: {_shown(key)}")
    return SourcePartition(cluster, topic, number, name)


def decode_ids(headers: Iterable[tuple[str, bytes | None]]) -> TopicIds:
    """Return the ids in the headers of a record; a header of another size names none."""
    found = {name: UUID(bytes=data) for name, data in headers if data is not None and len(data) == _ID_BYTES}
    return TopicIds(found.get(SOURCE_ID_HEADER, ZERO), found.get(TARGET_ID_HEADER, ZERO))


def decode_offset(value: bytes | None) -> int | None:
    """Return the offset of a value; None if the record deletes its key. Raises DamagedRecord."""
    if value is None:
        return None
    found = _json("the value of a source offset", value)
    if found is None:
        return None
    offset = found.get("offset") if isinstance(found, dict) else None
    if not _is_number(offset, _INT64_MAX):
        raise DamagedRecord(f"the value of a source offset has no valid offset: {_shown(value)}")
    assert isinstance(offset, int)
    return offset


class ReachedOffsets:
    """The offsets that one flow has reached, from the records of the topic in their order. It has one number for each
    partition of the flow.
    """

    def __init__(self, cluster: str, connector: str = CONNECTOR) -> None:
        """`cluster` is the alias of the source."""
        self._cluster = cluster
        self._connector = connector
        self._offsets: dict[tuple[str, int], int] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record; those of other flows are skipped. Raises DamagedRecord, and is unchanged then."""
        partition = decode_key(key)
        if partition is None or (partition.cluster, partition.connector) != (self._cluster, self._connector):
            return
        offset = decode_offset(value)
        if offset is None:
            self._offsets.pop((partition.topic, partition.partition), None)
        else:
            self._offsets[partition.topic, partition.partition] = offset

    def next_offset(self, topic: str, partition: int) -> int | None:
        """Return the offset of the next record to copy; None if nothing was copied yet."""
        reached = self._offsets.get((topic, partition))
        return None if reached is None else reached + 1


def _json(part: str, data: bytes | None) -> Any:
    if data is None:
        raise DamagedRecord(f"{part} is null")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedRecord(f"{part} is no JSON: {_shown(data)}") from None


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _shown(data: bytes | None) -> str:
    return repr((data or b"")[:_SHOWN_BYTES])


def _text(text: str) -> str:
    return f'"{_SUPPLEMENTARY.sub(_surrogates, text.translate(_ESCAPES))}"'


def _surrogates(found: re.Match[str]) -> str:
    """Jackson writes a character beyond 16 bits as two escapes."""
    data = found[0].encode("utf-16-be").hex().upper()
    return f"\\u{data[:4]}\\u{data[4:]}"
