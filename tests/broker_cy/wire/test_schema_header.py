"""The header of Confluent's serializers in front of values and keys."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.wire.schema_header import ID_MAX, SchemaHeader, id_header, read_schema_header

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


def test_ids_and_guids_are_read() -> None:
    """If this fails, values are decoded with the wrong schema, or not at all."""
    assert id_header(258) == b"\0\0\0\1\2"
    assert read_schema_header(b"\0\0\0\1\2rest") == SchemaHeader(258, None, 5)
    assert read_schema_header(id_header(ID_MAX)) == SchemaHeader(ID_MAX, None, 5)
    assert read_schema_header(b"\1" + GUID.bytes + b"rest") == SchemaHeader(None, GUID, 17)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\0\1", b"\1" + GUID.bytes[:-1], b"\2\0\0\0\1", b'{"a":1}', b"\0\x80\0\0\0"], ids=repr
)
def test_other_bytes_have_no_header(data: bytes) -> None:
    """If this fails, plain text and cut values are shown as records of a schema that they do not have."""
    assert read_schema_header(data) is None


@pytest.mark.parametrize("number", [-1, ID_MAX + 1])
def test_other_numbers_are_no_ids(number: int) -> None:
    """If this fails, records are written that no client can read."""
    with pytest.raises(ValueError, match="no schema id"):
        id_header(number)
