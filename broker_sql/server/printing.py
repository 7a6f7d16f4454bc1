"""PRINT: the records of a topic as text, with a guess of their formats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Final

import orjson

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.wire.records import Record
from broker_sql.errors import StatementError
from broker_sql.server.service import Service
from broker_sql.statements import Print

_INT_BYTES: Final = 4
_LONG_BYTES: Final = 8
_HEADER_BYTES: Final = 5
"""A byte 0 and the id of a schema, before values of a schema registry."""


async def print_topic(service: Service, statement: Print) -> AsyncIterator[bytes]:
    """Return the lines, which come as records do. Raises StatementError: there is no such topic. ClientError."""
    topic = str(statement.topic)
    if topic not in await service.client.topics.names():
        raise StatementError(f"Could not find topic '{topic}', or the KSQL user does not have permissions to list it")
    partitions = await service.client.records.partitions(topic)
    offsets = service.client.offsets
    if statement.from_beginning:
        starts = (await offsets.earliest(partitions)).whole()
    else:
        starts = (await offsets.latest(partitions, isolation=Isolation.READ_COMMITTED)).whole()
    return _lines(service, statement, starts)


async def _lines(service: Service, statement: Print, starts: Mapping[TopicPartition, int]) -> AsyncIterator[bytes]:
    left, interval, seen = statement.limit, statement.interval or 1, 0
    if left == 0:
        return
    formats: tuple[str, str] | None = None
    async with Reader(service.client.caller, starts, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            for record in chunk.records:
                seen += 1
                if (seen - 1) % interval:
                    continue
                if formats is None:
                    formats = format_of(record.key), format_of(record.value)
                    yield f"Key format: {formats[0]}\nValue format: {formats[1]}\n".encode()
                yield line_of(record, chunk.partition.partition).encode()
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return


def line_of(record: Record, partition: int) -> str:
    """Return the line of a record."""
    at = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    time = at.strftime("%Y/%m/%d %H:%M:%S.") + f"{record.timestamp % 1000:03d} Z"
    return f"rowtime: {time}, key: {text_of(record.key)}, value: {text_of(record.value)}, partition: {partition}\n"


def format_of(data: bytes | None) -> str:
    """Return the formats that bytes may be of."""
    if data is None:
        return "unknown: no data yet"
    text = _text(data)
    if text is not None:
        return "JSON or KAFKA_STRING" if _is_json(data) else "KAFKA_STRING"
    if len(data) > _HEADER_BYTES and data[0] == 0:
        return "AVRO, JSON_SR or PROTOBUF"
    if len(data) == _INT_BYTES:
        return "KAFKA_INT"
    return "KAFKA_BIGINT or KAFKA_DOUBLE" if len(data) == _LONG_BYTES else "UNRECOGNIZED_BYTES"


def text_of(data: bytes | None) -> str:
    """Return the text of a key or value: as it is, as a number, or in hexadecimal digits."""
    if data is None:
        return "<null>"
    text = _text(data)
    if text is not None:
        return text
    if len(data) in (_INT_BYTES, _LONG_BYTES):
        return str(int.from_bytes(data, signed=True))
    return f"0x{data.hex()}"


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if all(each.isprintable() or each in "\t\r\n" for each in text) else None


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
