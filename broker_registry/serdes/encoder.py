"""Values to framed bytes by a schema of a registry, for tools that write records.

The schema is that of an id, the newest version of a subject, or one that is registered first, under the subject that a
strategy names.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, NamedTuple

from broker_registry.client import RegistryClient, Schema
from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_registry.serdes.framing import with_id
from broker_registry.serdes.strategies import Strategy
from broker_registry.serdes.values import Values, parsed_of


class WithSchema(NamedTuple):
    """The schema of keys or values: `schema_id`, or `subject` (its newest version), or `schema`, which is registered
    under `subject` or the subject that `strategy` names. `message` is that of Protobuf; None: the first one.

    Without `registers`, the subject must have `schema` already.
    """

    schema_id: int | None = None
    subject: str | None = None
    schema: Schema | None = None
    strategy: Strategy = Strategy.TOPIC_NAME
    message: str | None = None
    registers: bool = True


class Encoder:
    """Encodes values by one schema. Its methods raise ValueError, which names the field that does not fit."""

    def __init__(self, schema_id: int, parsed: ParsedSchema, message: str | None = None) -> None:
        self.schema_id = schema_id
        self.parsed = parsed
        self._message = message

    def encode(self, value: Any) -> bytes:
        """Return the framed bytes of a value of JSON's types."""
        return with_id(self.schema_id, self.parsed.encode_message(value, self._message))

    def sample(self, source: Random) -> bytes:
        """Return the framed bytes of a random value."""
        return with_id(self.schema_id, self.parsed.sample(source, self._message))

    def encode_text(self, text: bytes) -> bytes:
        """Return the framed bytes of a JSON text. With JSON Schema, the text stays as it is."""
        try:
            value = json.loads(text)
        except RecursionError:
            raise ValueError("the JSON is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"no JSON: {error}") from None
        found = self.encode(value)
        return with_id(self.schema_id, text) if self.parsed.kind is Kind.JSON else found


class Encoders:
    """Makes encoders. Their schemas are kept."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._values = Values(client)

    async def of(self, wanted: WithSchema, topic: str, *, is_key: bool = False) -> Encoder:
        """Return an encoder for the keys or values of a topic. Raises ClientError, and ValueError if this version
        cannot use the schema.
        """
        if wanted.schema_id is not None:
            return await self.by_id(wanted.schema_id, wanted.message)
        if wanted.schema is None:
            if wanted.subject is None:
                raise ValueError("an id, a subject or a schema is needed")
            return await self.newest(wanted.subject, wanted.message)
        parsed = await parsed_of(self._client, wanted.schema, wanted.subject or "")
        subject = wanted.subject or wanted.strategy.subject(topic, wanted.message or parsed.name, is_key=is_key)
        if wanted.registers:
            schema_id = await self._client.register(subject, wanted.schema)
        else:
            schema_id = (await self._client.look_up(subject, wanted.schema)).id
        return Encoder(schema_id, parsed, wanted.message)

    async def newest(self, subject: str, message: str | None = None) -> Encoder:
        """Return an encoder for the newest version of a subject. Raises ClientError and ValueError."""
        found = await self._client.version(subject)
        return Encoder(found.id, await parsed_of(self._client, found.schema, subject), message)

    async def by_id(self, schema_id: int, message: str | None = None) -> Encoder:
        """Return an encoder for a schema. Raises ClientError and ValueError."""
        return Encoder(schema_id, await self._values.schema(schema_id), message)
