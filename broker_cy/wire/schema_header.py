"""The schema of a value or key that Confluent's serializers wrote: in front of it, or in a header of the record.

    0, id int32                  in front of the payload
    1, GUID 16 bytes             in the header `__value_schema_id` or `__key_schema_id` (Confluent 8), or in front

The bytes behind it belong to the schema type: Protobuf's message indexes are behind the id, or in the same header.
"""

import struct
from typing import Final
from uuid import UUID

from broker_cy.core.classes import NamedTuple

MAGIC_ID: Final = 0
MAGIC_GUID: Final = 1
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_ID: Final = struct.Struct(">BI")
_GUID_BYTES: Final = 17
ID_MAX: Final = 0x7FFFFFFF


class SchemaHeader(NamedTuple):
    """The schema by its id or by its GUID: one of them is None. `size_bytes` is that of the header."""

    id: int | None
    guid: UUID | None
    size_bytes: int


def read_schema_header(data: bytes) -> SchemaHeader | None:
    """Return the header at the begin of `data`; None if the bytes have none."""
    if len(data) >= _ID.size and data[0] == MAGIC_ID:
        schema_id = int(_ID.unpack_from(data)[1])
        # Ids are int32: a larger number is no id, and the bytes have another format.
        return SchemaHeader(schema_id, None, _ID.size) if schema_id <= ID_MAX else None
    if len(data) >= _GUID_BYTES and data[0] == MAGIC_GUID:
        return SchemaHeader(None, UUID(bytes=bytes(data[1:_GUID_BYTES])), _GUID_BYTES)
    return None


def id_header(schema_id: int) -> bytes:
    """Return the 5 bytes of an id. Raises ValueError for a number outside of int32, or below 0."""
    if not 0 <= schema_id <= ID_MAX:
        raise ValueError(f"{schema_id} is no schema id: they are from 0 to {ID_MAX:,}")
    return _ID.pack(MAGIC_ID, schema_id)
