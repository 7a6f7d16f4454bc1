"""Acts on records: produce new records, and produce existing ones again with changed headers."""

from __future__ import annotations

import base64
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.partitioner import partition_of
from broker_cy.console.acts.plan import CHANGES_MAX, Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.payload import line
from broker_cy.console.record_json import json_line
from broker_cy.console.values import headers, integer, optional, parse_time, topic_name, unescape
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import count, plural, size
from broker_cy.wire.records import Record

# The largest file that is read as one value; brokers accept 1 MiB by default.
FILE_BYTES_MAX = 64 << 20
# A longer command line is not shown: it is too long to type, and shells refuse it.
SHOWN_COMMAND_BYTES_MAX = 2_000
KINDS = ("text", "escaped", "hex", "base64", "null", "file")


@dataclass(frozen=True, slots=True)
class Produce:
    """Produces records; `partition` is None if the key determines it."""

    topic: str
    records: tuple[Record, ...]
    partition: int | None

    async def run(self, client: AdminClient) -> Report:
        appended = await client.records.producer().send(self.topic, self.records, partition=self.partition)
        places = [
            f"partition {each.partition.partition}"
            + ("" if each.base_offset is None else f" at offset {count(each.base_offset)}")
            for each in appended
        ]
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        said = f"produced {plural(len(self.records), 'record')} to {self.topic}: {', '.join(places[:3])}{more}"
        return Report(said, tuple(str(each.partition) for each in appended))


def to_bytes(kind: str, text: str) -> bytes | None:
    """Return the bytes that a field stands for. Raises ValueError, which gives the reason."""
    if kind == "null":
        if text:
            raise ValueError("null takes no text")
        return None
    if kind == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise ValueError("pairs of hexadecimal digits are expected, such as 00 ff 7a") from None
    if kind == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except ValueError as error:
            raise ValueError(f"not base64: {error}") from None
    if kind == "escaped":
        return unescape(text)
    if kind == "file":
        return _file(text)
    return text.encode()


def _file(name: str) -> bytes:
    path = Path(name).expanduser()
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ValueError(f"{path} is larger than {size(FILE_BYTES_MAX)}")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def produce_form(topic: str, partitions: int) -> Form:
    """Return the form for one record; `partitions` is the number of partitions of the topic."""
    return Form(
        f"Produce to {topic}",
        [
            Field("partition", "Partition", optional(integer(0, partitions - 1)), hint="selected by the key"),
            Field("key", "Key", hint="(its kind is below)"),
            Field("key_kind", "Key kind", value="null", choices=KINDS),
            Field("value", "Value"),
            Field("value_kind", "Value kind", value="text", choices=KINDS),
            Field("headers", "Headers", headers, hint="name=value, other=value"),
            Field(
                "timestamp", "Time", optional(parse_time), hint="now; or 2026-01-31T12:00, ms since 1970", is_time=True
            ),
        ],
        note="Up and down select the kind of a key or value.",
        check=check_produced,
    )


def check_produced(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Check what depends on several values."""
    for name in ("key", "value"):
        kind = values[f"{name}_kind"]
        # A key that was typed is intended, even if its kind is still null.
        if kind == "null" and values[name]:
            return f"{name}_kind", f"a {name} was typed: select text, escaped, hex, base64 or file"
        try:
            to_bytes(kind, values[name])
        except ValueError as error:
            return name, str(error)
    return None


async def plan_produce(client: AdminClient, command: Command, topic: str, values: Mapping[str, Any]) -> Plan:
    timestamp = int(time.time() * 1000) if values["timestamp"] is None else values["timestamp"]
    record = Record(
        timestamp=timestamp,
        key=to_bytes(values["key_kind"], values["key"]),
        value=to_bytes(values["value_kind"], values["value"]),
        headers=values["headers"],
    )
    partitions = len(await client.records.partitions(topic))
    return _plan(command, topic, partitions, [record], values["partition"])


def reproduce_form(topic: str, records: int) -> Form:
    """Return the form for producing again; `records` is the number of records."""
    return Form(
        f"Produce {plural(records, 'record')} again",
        [
            Field("topic", "To topic", topic_name, topic),
            Field("partition", "Partition", optional(integer(0)), hint="selected by the key"),
            Field("remove", "Remove headers", _names, hint="names separated by commas; * for all"),
            Field("add", "Add headers", headers, hint="name=value, other=value"),
            Field("timestamp", "Time", value="now", choices=("now", "original")),
        ],
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


async def plan_reproduce(
    client: AdminClient, command: Command, records: Sequence[Record], values: Mapping[str, Any]
) -> Plan:
    """Plan producing records again with the same keys and values; null stays null."""
    topic = values["topic"]
    partitions = len(await client.records.partitions(topic))
    wanted = values["partition"]
    if wanted is not None and wanted >= partitions:
        raise ClientError(Failure.INVALID, f"{topic} has no partition {wanted}; it has 0 to {partitions - 1}")
    now = int(time.time() * 1000)
    again = [
        Record(
            timestamp=now if values["timestamp"] == "now" else record.timestamp,
            key=record.key,
            value=record.value,
            headers=(*_without(record, values["remove"]), *values["add"]),
        )
        for record in records
    ]
    return _plan(command, topic, partitions, again, wanted)


def _without(record: Record, names: frozenset[str]) -> list[tuple[str, bytes | None]]:
    return [] if "*" in names else [each for each in record.headers if each[0] not in names]


def _plan(command: Command, topic: str, partitions: int, records: Sequence[Record], partition: int | None) -> Plan:
    def place(record: Record) -> str:
        if partition is not None:
            return f"partition {partition}"
        return "any partition" if record.key is None else f"partition {partition_of(record.key, partitions)}"

    def note(record: Record) -> str:
        more = f", {plural(len(record.headers), 'header')}" if record.headers else ""
        return f"key {line(record.key, limit=40)}, value {line(record.value, limit=80)}{more}"

    total = sum(len(record.key or b"") + len(record.value or b"") for record in records)
    return Plan(
        f"Produce to {topic}",
        f"{plural(len(records), 'record')}, {size(total)}",
        command_of(command, topic, records, partition),
        Produce(topic, tuple(records), partition),
        [Change(place(record), note=note(record)) for record in records[:CHANGES_MAX]],
        verb="Produce",
        is_destructive=False,
    )


def command_of(command: Command, topic: str, records: Sequence[Record], partition: int | None) -> str:
    """Return the equivalent command line."""
    chosen: list[str | int] = [] if partition is None else ["-p", partition]
    produce = command("produce", topic, "--json-lines", *chosen)
    lines = b"".join(json_line(TopicPartition(topic, partition or 0), record) for record in records[:1])
    if len(records) > 1 or len(lines) > SHOWN_COMMAND_BYTES_MAX:
        return f"{produce} < records.jsonl"
    return f"echo {shlex.quote(lines.decode().strip())} | {produce}"
