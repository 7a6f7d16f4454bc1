"""The parts of a framed value or key: the schema that its header names, and the payload of its schema type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from broker_cy.wire.schema_header import KEY_HEADER, VALUE_HEADER, id_header, read_schema_header

Headers = Iterable[tuple[str, bytes | None]]


class Framed(NamedTuple):
    """`id` or `guid` is None. `payload` is that of the schema type: with Protobuf, message indexes come first."""

    id: int | None
    guid: UUID | None
    payload: bytes

    @property
    def name(self) -> int | UUID:
        found = self.id if self.guid is None else self.guid
        assert found is not None
        return found


def framed(data: bytes, headers: Headers = (), *, is_key: bool = False) -> Framed | None:
    """Return the parts; None if neither the headers of the record nor the bytes name a schema. As in Confluent's
    clients, the last header of the name counts, and goes before the bytes. Raises ValueError for a header with another
    format.
    """
    name = KEY_HEADER if is_key else VALUE_HEADER
    values = [value for key, value in headers if key == name]
    if values and values[-1] is not None:
        found = read_schema_header(values[-1])
        if found is None:
            raise ValueError(f"the header {name} names no schema")
        return Framed(found.id, found.guid, values[-1][found.size_bytes :] + data)
    found = read_schema_header(data)
    return None if found is None else Framed(found.id, found.guid, data[found.size_bytes :])


def with_id(schema_id: int, payload: bytes) -> bytes:
    """Return the bytes with the id in front, as serializers write them by default."""
    return id_header(schema_id) + payload
