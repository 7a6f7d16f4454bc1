"""Values and keys of records with the schemas of a registry: bytes to JSON's values, and values to bytes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker_registry.checks import CACHE_BYTES_MAX, Source
from broker_registry.client import RegistryClient, Schema
from broker_registry.kept import Kept
from broker_registry.schema_types.base import Kind, ParsedSchema, ParseSettings, Reference, Resolved
from broker_registry.schema_types.parsers import PARSERS
from broker_registry.serdes.framing import Headers, framed, with_id
from broker_registry.subject_names import qualified

REFERENCES_MAX: Final = 1_000
"""Referenced schemas of one schema, with those that they refer to: as in the registry."""

# Payloads for which each library makes its form of a schema. They need not be records of it.
_FIRST: Final = {Kind.AVRO: b"", Kind.JSON: b"null", Kind.PROTOBUF: b"\0"}


class Decoded(NamedTuple):
    """`value` has JSON's types only. `kind` is the schema type by its name in the REST API; `id` or `guid` is None."""

    value: Any
    kind: str
    id: int | None
    guid: UUID | None


class Values:
    """Decodes and encodes by a client. Parsed schemas are kept, within CACHE_BYTES_MAX."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._kept: Kept[int | UUID, ParsedSchema] = Kept(CACHE_BYTES_MAX)

    async def decode(self, data: bytes, headers: Headers = (), *, is_key: bool = False) -> Decoded | None:
        """Return the value of framed bytes; None if they name no schema. Raises ClientError if the registry does not
        answer or does not know the schema, and ValueError if the payload is no record of it.
        """
        parts = framed(data, headers, is_key=is_key)
        if parts is None:
            return None
        parsed = await self.schema(parts.name)
        return Decoded(json_value(parsed.decode(parts.payload)), parsed.kind.value, parts.id, parts.guid)

    async def encode(self, schema_id: int, value: Any) -> bytes:
        """Return the framed bytes of a value of a registered schema. Raises ClientError and ValueError."""
        parsed = await self.schema(schema_id)
        return with_id(schema_id, parsed.encode(value))

    def known(self, name: int | UUID) -> ParsedSchema | None:
        """Return the schema of an id or GUID if it is kept."""
        return self._kept.get(name)

    async def schema(self, name: int | UUID) -> ParsedSchema:
        """Return the schema of an id or GUID. Raises ClientError, and ValueError if this version cannot use it."""
        found = self._kept.get(name)
        if found is None:
            schema = await (
                self._client.schema_of_guid(name) if isinstance(name, UUID) else self._client.schema_of(name)
            )
            found = await parsed_of(self._client, schema)
            self._kept.put(name, found, found.size_bytes)
        return found


async def parsed_of(client: RegistryClient, schema: Schema, subject: str = "") -> ParsedSchema:
    """Return a parsed schema. `subject` is the one that its references are relative to. Raises ClientError, and
    ValueError if this version cannot use it.
    """
    # In a thread: a .proto of 1,500 lines takes 0.1 s, and the first schema of a type loads its library.
    return await asyncio.to_thread(_parsed, await source_of(client, schema, subject))


def _parsed(source: Source) -> ParsedSchema:
    found = PARSERS[Kind(source.kind)](source.text, source.references, ParseSettings())
    # The library's form of the schema is made for the first record: here, so that this does not hold up the loop.
    with contextlib.suppress(Exception):
        found.decode(_FIRST[found.kind])
    return found


async def source_of(client: RegistryClient, schema: Schema, subject: str = "") -> Source:
    """Return the text of a schema with the texts that it refers to, each one behind those that it needs. `subject` is
    the one that its references are relative to. Raises ClientError, and ValueError for references that are a circle or
    too many.
    """
    found: dict[str, str] = {}
    open_names: set[str] = set()

    async def follow(parent: str, references: Sequence[Reference]) -> None:
        for each in references:
            if each.name in open_names:
                raise ValueError(f"the references are a circle: {each.name}")
            if each.name in found:
                continue
            if len(found) + len(open_names) >= REFERENCES_MAX:
                raise ValueError(f"more than {REFERENCES_MAX:,} schemas are referenced")
            open_names.add(each.name)
            place = qualified(parent, each.subject)
            version = await client.version(place, each.version, deleted=True)
            await follow(place, version.schema.references)
            open_names.remove(each.name)
            found[each.name] = version.schema.text

    await follow(subject, schema.references)
    return Source(schema.kind, schema.text, tuple(Resolved(*each) for each in found.items()))


def json_value(value: Any) -> Any:
    """Return a decoded value with JSON's types: bytes as text of one character each, as in Avro's JSON; times, decimal
    numbers and UUIDs as their text; numbers that JSON does not have by Java's names.
    """
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, UUID | datetime.timedelta):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
