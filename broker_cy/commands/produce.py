"""`broker-cy produce`."""

from __future__ import annotations

import base64
import binascii
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.produce import Producer
from broker_cy.client.quantities import TIME_HELP
from broker_cy.commands.context import Target, cluster_command, complete_topics
from broker_cy.commands.encoding import SIDES, Encoding, Line, SchemaOfLine, encoding_of, encoding_options
from broker_cy.commands.feeder import feed, split
from broker_cy.commands.output import print_json, progress
from broker_cy.commands.values import DELIMITER, HEADER, TIME
from broker_cy.core.classes import NamedTuple
from broker_cy.reporting.numbers import plural
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record

EPILOG = """\b
examples:
  echo hello | broker-cy produce greetings
  broker-cy produce orders -K : < orders.txt          lines of the form key:value
  broker-cy produce orders -k order-1 -H source=shell --file order.json
  broker-cy produce orders -z zstd -D '\\0' < records.bin
  broker-cy consume orders -e --json | broker-cy produce orders-copy --json-lines
  broker-cy produce orders --value-subject orders-value --registry http://127.0.0.1:8081 < orders.jsonl
"""

ACKS = {"all": -1, "1": 1, "0": 0}


class Shape(NamedTuple):
    """Options that determine how input becomes records."""

    key: bytes | None
    key_delimiter: bytes | None
    null: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


@click.command("produce", epilog=EPILOG)
@cluster_command
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--partition",
    "-p",
    type=click.IntRange(0),
    metavar="N",
    help="Write to this partition.  [default: by key, as Kafka's clients do]",
)
@click.option("--key", "-k", metavar="KEY", help="Use this key for every record.")
@click.option(
    "--key-delimiter", "-K", type=DELIMITER, metavar="D", help="Delimiter between the key and the value of each record."
)
@click.option(
    "--header",
    "-H",
    "headers",
    type=HEADER,
    multiple=True,
    metavar="NAME=VALUE",
    help="Add this header to every record; may be repeated.",
)
@click.option(
    "--delimiter", "-D", type=DELIMITER, default="\\n", metavar="D", help=r"Delimiter between records.  [default: \n]"
)
@click.option(
    "--null", "-Z", metavar="TEXT", help="Write keys and values equal to this text as null; '' for empty ones."
)
@click.option(
    "--timestamp",
    type=TIME,
    metavar="TIME",
    help=f"Use this timestamp for every record, instead of the current time: {TIME_HELP}.",
)
@click.option("--compression", "-z", type=click.Choice([codec.name.lower() for codec in Codec]), default="none")
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Number of replicas that must have a record before it is acknowledged.",
)
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Write each file as one record, instead of reading the standard input.",
)
@click.option(
    "--no-create", is_flag=True, help="Fail if the topic does not exist, instead of letting the broker create it."
)
@click.option("--json-lines", is_flag=True, help="Read one JSON object per line, as `consume --json` prints them.")
@encoding_options
async def command(
    target: Target,
    client: AdminClient,
    topic: str,
    partition: int | None,
    key: str | None,
    key_delimiter: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    delimiter: bytes,
    null: str | None,
    timestamp: int | None,
    compression: str,
    acks: str,
    files: Sequence[Path],
    no_create: bool,
    json_lines: bool,
    **given: Any,
) -> None:
    """Write records: one for each line of the standard input, each file, or each JSON object.

    With a schema, values (or keys) are JSON, which is encoded as Avro, JSON Schema or Protobuf. A value that does not
    fit ends the command; the message names the line and the field.
    """
    target.require_writable()
    if key is not None and key_delimiter is not None:
        raise click.UsageError("--key and --key-delimiter cannot be used together")
    if json_lines and (files or key is not None or key_delimiter is not None or null is not None):
        raise click.UsageError("--json-lines cannot be combined with --file, --key, --key-delimiter or --null")
    shape = Shape(
        None if key is None else key.encode(),
        key_delimiter,
        None if null is None else null.encode(),
        tuple(headers),
        timestamp,
    )
    encoding = await encoding_of(target.cluster, topic, given)
    chunks: Iterator[list[Line]]
    if files:
        chunks = ([Line(_record(path.read_bytes(), shape), str(path))] for path in files)
    elif json_lines:
        chunks = _json_chunks(sys.stdin.fileno(), shape, encoding)
    else:
        chunks = _plain_chunks(sys.stdin.fileno(), delimiter, shape)
    producer = client.records.producer(acks=ACKS[acks], codec=Codec[compression.upper()], creates_topics=not no_create)
    quiet = target.as_json or sys.stdin.isatty()
    written = await _send(producer, topic, partition, chunks, encoding, quiet=quiet)
    if target.as_json:
        print_json([written[index] for index in sorted(written)])


class Written(NamedTuple):
    """The records written to one partition. `first_offset` is None if the broker does not report it (acks=0)."""

    topic: str
    partition: int
    records: int
    first_offset: int | None


async def _send(
    producer: Producer,
    topic: str,
    partition: int | None,
    chunks: Iterator[list[Line]],
    encoding: Encoding,
    *,
    quiet: bool,
) -> dict[int, Written]:
    """Send records as they are read."""
    written: dict[int, Written] = {}
    try:
        with progress("producing", None, quiet=quiet) as advance:
            async for lines in feed(chunks):
                chunk = await encoding.records(lines)
                for each in await producer.send(topic, chunk, partition=partition):
                    index = each.partition.partition
                    before = written.get(index) or Written(topic, index, 0, each.base_offset)
                    written[index] = before._replace(records=before.records + each.records)
                advance(len(chunk))
    except ClientError:
        total = sum(each.records for each in written.values())
        click.echo(f"broker-cy: {plural(total, 'record')} written before this failure:", err=True)
        raise
    return written


def _plain_chunks(descriptor: int, delimiter: bytes, shape: Shape) -> Iterator[list[Line]]:
    number = 0
    for pieces in split(descriptor, delimiter):
        yield [Line(_record(data, shape), f"line {number + at}") for at, data in enumerate(pieces, 1)]
        number += len(pieces)


def _json_chunks(descriptor: int, shape: Shape, encoding: Encoding) -> Iterator[list[Line]]:
    line = 0
    for pieces in split(descriptor, b"\n"):
        chunk = []
        for piece in pieces:
            line += 1
            if piece.strip():
                chunk.append(_from_json(piece, line, shape, encoding))
        yield chunk


def _record(data: bytes, shape: Shape) -> Record:
    key: bytes | None = shape.key
    value: bytes | None = data
    if shape.key_delimiter is not None:
        before, found, behind = data.partition(shape.key_delimiter)
        # Without a delimiter the whole line is the value, as in kcat.
        if found:
            key, value = before, behind
    if shape.null is not None:
        key = None if key == shape.null else key
        value = None if value == shape.null else value
    return Record(timestamp=_now(shape), key=key, value=value, headers=shape.headers)


def _now(shape: Shape) -> int:
    return int(time.time() * 1000) if shape.timestamp_ms is None else shape.timestamp_ms


def _from_json(line: bytes, number: int, shape: Shape, encoding: Encoding) -> Line:
    """Build a record from one object. Its topic, partition and offset, those of its origin, are ignored."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("expected an object")
        headers = [(_name(each), _bytes(each.get("value"))) for each in fields.get("headers") or []]
        timestamp = fields.get("timestamp")
        if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, int)):
            raise ValueError(f"timestamp {timestamp!r} is not a number of milliseconds")
        if timestamp is None or shape.timestamp_ms is not None:
            timestamp = _now(shape)
        schemas = {side: _schema(named) for side in SIDES if (named := fields.get(f"{side}_schema")) is not None}
        key, value = (
            _json_text(fields.get(side)) if side in schemas or encoding.is_json(side) else _bytes(fields.get(side))
            for side in SIDES
        )
        record = Record(timestamp=timestamp, key=key, value=value, headers=[*headers, *shape.headers])
        return Line(record, f"line {number}", schemas)
    except (ValueError, AttributeError, TypeError) as error:
        raise ClientError(Failure.INVALID, f"line {number}: {error}", what="--json-lines") from None


def _json_text(value: Any) -> bytes | None:
    """Return the JSON of a value that is encoded; null is the null of records."""
    return None if value is None else json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")


def _schema(named: Any) -> SchemaOfLine:
    found = named.get("id") if isinstance(named, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"{named!r}: an object with the id of a schema is expected")
    message = named.get("message")
    return SchemaOfLine(found, message if isinstance(message, str) else None)


def _name(header: dict[str, Any]) -> str:
    name = header.get("name")
    if not isinstance(name, str):
        raise ValueError(f"a header without a name: {header!r}")
    return name


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"base64: {error}") from None
    raise ValueError(f'{value!r}: expected a string, null or {{"base64": ...}}')
