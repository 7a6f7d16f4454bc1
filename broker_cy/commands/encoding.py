"""Keys and values that `produce` encodes by a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry
from broker_cy.core.classes import NamedTuple
from broker_cy.wire.records import Record

if TYPE_CHECKING:
    from broker_registry.serdes.encoder import Encoder, Encoders, WithSchema

SIDES: Final = ("key", "value")
STRATEGIES: Final = ("TopicName", "RecordName", "TopicRecordName")
_NEEDED: Final = "name the registry: --registry, registry in the cluster file, or BROKER_CY_REGISTRY"


class SchemaOfLine(NamedTuple):
    """The schema that a line of --json-lines names, as `consume --json` prints it."""

    schema_id: int
    message: str | None


class Line(NamedTuple):
    """A record whose key and value are JSON where they are encoded. `place` is where it was read, for errors.
    `schemas` are those that the line names, by side.
    """

    record: Record
    place: str
    schemas: Mapping[str, SchemaOfLine] = {}


def _subjects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    # It loads the client of the registry.
    from broker_registry.commands.context import complete_subjects

    return complete_subjects(ctx, param, incomplete)


def encoding_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the registry, and of the schemas of keys and values."""
    added = [options.click_options(options.OF_REGISTRY)]
    for side in reversed(SIDES):
        added += [
            click.option(
                f"--{side}-schema-id", type=click.IntRange(0), metavar="N", help=f"Encode {side}s by this schema."
            ),
            click.option(
                f"--{side}-subject",
                metavar="SUBJECT",
                shell_complete=_subjects,
                help=f"Encode {side}s by the newest version of this subject; with --{side}-schema, register it there.",
            ),
            click.option(
                f"--{side}-schema",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help=f"Register this schema (.avsc, .json or .proto), and encode {side}s by it.",
            ),
            click.option(
                f"--{side}-message", metavar="NAME", help="The message of a Protobuf schema.  [default: the first]"
            ),
        ]
    added += [
        click.option(
            "--subject-strategy",
            "strategy",
            type=click.Choice(STRATEGIES),
            default=STRATEGIES[0],
            show_default=True,
            help="The subject of a schema that is registered, as Confluent's serializers name it.",
        ),
        click.option("--no-register", is_flag=True, help="Fail if the subject does not have the schema of the file."),
    ]
    for add in reversed(added):
        function = add(function)
    return function


class Encoding:
    """Encodes the lines of a topic. `encoders` are those of sides with one schema for all lines."""

    def __init__(self, registry: Encoders | None, encoders: Mapping[str, Encoder]) -> None:
        self._registry = registry
        self._encoders = encoders

    def is_json(self, side: str) -> bool:
        """Return whether keys or values are JSON by the options."""
        return side in self._encoders

    async def records(self, lines: Sequence[Line]) -> list[Record]:
        """Return the records of lines. Raises ClientError, which names the line and the field that does not fit."""
        return [await self._record(line) for line in lines]

    async def _record(self, line: Line) -> Record:
        record = line.record
        key = await self._data(line, "key", record.key)
        value = await self._data(line, "value", record.value)
        if key is record.key and value is record.value:
            return record
        return Record(record.offset, record.timestamp, key, value, record.headers)

    async def _data(self, line: Line, side: str, data: bytes | None) -> bytes | None:
        encoder = self._encoders.get(side)
        if data is None or (encoder is None and side not in line.schemas):
            return data
        try:
            if encoder is None:
                encoder = await self._of_line(line.schemas[side])
            return encoder.encode_text(data)
        except ValueError as error:
            raise ClientError(Failure.INVALID, f"{side}: {error}", what=line.place) from None

    async def _of_line(self, named: SchemaOfLine) -> Encoder:
        """Raises ClientError and ValueError."""
        if self._registry is None:
            raise ValueError(f"the line names schema {named.schema_id}: {_NEEDED}")
        return await self._registry.by_id(*named)


async def encoding_of(cluster: ClusterEntry, topic: str, given: dict[str, Any]) -> Encoding:
    """Return what the options encode; takes them out of the arguments of the command. Raises ClientError, and
    click.UsageError if they contradict each other.
    """
    from broker_registry.serdes.tools import encoders_of

    strategy, registers = given.pop("strategy"), not given.pop("no_register")
    wanted = {side: _wanted(side, given, strategy, registers=registers) for side in SIDES}
    registry = encoders_of(cluster)
    encoders = {}
    for side, each in wanted.items():
        if each is None:
            continue
        if registry is None:
            raise click.UsageError(f"the options of {side}s need a registry: {_NEEDED}")
        try:
            encoders[side] = await registry.of(each, topic, is_key=side == "key")
        except ValueError as error:
            raise ClientError(Failure.INVALID, str(error), what=f"the schema of {side}s") from None
    return Encoding(registry, encoders)


def _wanted(side: str, given: dict[str, Any], strategy: str, *, registers: bool) -> WithSchema | None:
    names = ("schema_id", "subject", "schema", "message")
    found = {name: given.pop(f"{side}_{name}") for name in names}
    if all(each is None for each in found.values()):
        return None
    if found["schema_id"] is not None and (found["subject"] is not None or found["schema"] is not None):
        raise click.UsageError(f"--{side}-schema-id cannot be combined with --{side}-subject or --{side}-schema")
    if found["message"] is not None and all(found[name] is None for name in names[:3]):
        raise click.UsageError(f"--{side}-message needs the schema that has it")
    # These load the libraries of the registry, which other uses of the command do not need.
    from broker_registry.commands.context import schema_of_file
    from broker_registry.serdes.encoder import WithSchema
    from broker_registry.serdes.strategies import Strategy

    if found["schema"] is not None:
        found["schema"] = schema_of_file(found["schema"], None, ())
    return WithSchema(**found, strategy=Strategy.of(strategy), registers=registers)
