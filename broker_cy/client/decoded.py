"""Keys and values of records as the schemas of a registry decode them: the forms that all tools share.

`broker_registry.serdes.records` decodes. Tools without a registry have no decoder, and handle bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.wire.records import Record


class SchemaName(NamedTuple):
    """The schema of a key or value. `kind` is the schema type by its name in the REST API; `id` or `guid` is None.
    `subject` and `version` are None if the registry does not tell them. `message` is that of Protobuf.
    """

    kind: str
    id: int | None
    guid: UUID | None
    subject: str | None = None
    version: int | None = None
    message: str | None = None

    def __str__(self) -> str:
        place = "" if self.subject is None else f", {self.subject} version {self.version}"
        message = "" if self.message is None else f", message {self.message}"
        return f"{self.kind} schema {self.guid if self.id is None else self.id}{place}{message}"


class Part(NamedTuple):
    """A key or value. `data` is JSON if it was decoded (`schema` is known), else the bytes of the record.

    `problem` says why it was not decoded, or how the value breaks its schema; it may quote the value. `is_final` is
    False if another attempt may succeed: the registry did not answer.
    """

    data: bytes | None
    schema: SchemaName | None = None
    problem: str = ""
    is_final: bool = True


class Seen(NamedTuple):
    """A record as it is shown and searched: `record` has the data of both parts. It is the record itself if nothing of
    it names a schema.
    """

    record: Record
    key: Part
    value: Part

    @property
    def is_final(self) -> bool:
        return self.key.is_final and self.value.is_final


class Decoder(Protocol):
    """The keys and values of records by the schemas of a registry."""

    @property
    def notice(self) -> str:
        """Why the registry does not answer now; empty if it does."""

    @property
    def retry_in_s(self) -> float:
        """Seconds until a registry that did not answer is asked again; 0 if it may be asked now."""

    async def load(self, records: Sequence[Record]) -> None:
        """Ask for the schemas of records, and wait for a bounded time."""

    def look(self, topic: str, record: Record) -> Seen:
        """Return a record with what is known now, without waiting."""

    async def seen(self, topic: str, records: Sequence[Record]) -> list[Seen]:
        """Return records, once their schemas were asked for. Raises nothing: problems are in the parts."""


Kept = Callable[[list[Record]], list[Record]]


def undecoded(record: Record) -> Seen:
    """Return a record as a tool without a registry shows it."""
    return Seen(record, Part(record.key), Part(record.value))


async def matching(decoder: Decoder, topic: str, records: Sequence[Record], keep: Kept) -> list[Record]:
    """Return the records whose decoded form passes a filter, as they are in the topic."""
    seen = await decoder.seen(topic, records)
    # A filter returns some of the records that it was given; offsets tell them apart.
    found = {each.offset for each in keep([each.record for each in seen])}
    return [record for record in records if record.offset in found]
