"""The schemas that the records of a batch name, against the plain reader of the registry's serializers."""

from __future__ import annotations

from random import Random

import pytest

from broker_cy.core.errors import WireError
from broker_cy.wire.records import Record, encode_batch
from broker_cy.wire.schema_header import KEY_HEADER, MAGIC_GUID, VALUE_HEADER, id_header
from broker_cy.wire.schema_uses import schemas_of
from broker_registry.serdes.framing import framed

BATCH_HEADER_BYTES = 61
GUIDS = [bytes([each]) * 16 for each in range(3)]
Schema = int | bytes | None


def records_of(records: list[Record]) -> bytes:
    return encode_batch(records)[BATCH_HEADER_BYTES:]


def slow(records: list[Record], *, is_key: bool) -> dict[Schema, list[int]]:
    """Return the places of each schema, as the registry's serializers read one record."""
    found: dict[Schema, list[int]] = {}
    for place, record in enumerate(records):
        data = record.key if is_key else record.value
        if data is None:
            continue
        try:
            parts = framed(data, record.headers, is_key=is_key)
        except ValueError:
            parts = None
        name: Schema = None
        if parts is not None:
            name = parts.id if parts.guid is None else parts.guid.bytes
        found.setdefault(name, []).append(place)
    return found


def fast(records: list[Record], *, is_key: bool) -> dict[Schema, list[int]]:
    keys, values = schemas_of(records_of(records), len(records), keys=is_key, values=not is_key)
    uses = keys if is_key else values
    assert uses is not None
    assert (values if is_key else keys) is None
    assert all(use.records == len(use.places) for use in uses.found.values())
    return {name: list(use.places) for name, use in uses.found.items()}


def random_bytes(draw: Random) -> bytes | None:
    kind = draw.randrange(7)
    payload = draw.randbytes(draw.choice((0, 3, 200)))
    if kind == 0:
        return None
    if kind == 1:
        return payload
    if kind == 2:
        return bytes([MAGIC_GUID]) + draw.choice(GUIDS) + payload
    if kind == 3:
        return b"\0\xff\xff\xff\xff" + payload
    return id_header(draw.choice((0, 1, 1, 1, 7, 2**31 - 1))) + payload


def random_record(draw: Random) -> Record:
    names = (KEY_HEADER, VALUE_HEADER, "trace", VALUE_HEADER.upper(), "")
    headers = [(draw.choice(names), random_bytes(draw)) for _ in range(draw.choice((0, 0, 1, 3)))]
    return Record(key=random_bytes(draw), value=random_bytes(draw), headers=headers)


@pytest.mark.parametrize("seed", range(40))
def test_schemas_are_those_that_serializers_wrote(seed: int) -> None:
    """If this fails, records with a registered schema are refused, or others are stored."""
    draw = Random(seed)
    records = [random_record(draw) for _ in range(draw.randrange(1, 80))]
    for is_key in (True, False):
        assert fast(records, is_key=is_key) == slow(records, is_key=is_key)


def test_schemas_of_one_batch_are_bounded() -> None:
    """If this fails, a batch with a schema for each record takes 300 bytes of memory for each."""
    records = [Record(value=id_header(number)) for number in range(1_200)]
    _, uses = schemas_of(records_of(records), len(records), values=True)
    assert uses is not None
    assert uses.is_full
    assert len(uses.found) == 1_000


def test_places_of_one_schema_are_bounded() -> None:
    """If this fails, the answer to a batch of small records without a schema is larger than the batch."""
    records = [Record(value=b"x")] * 5_000
    _, uses = schemas_of(records_of(records), len(records), values=True)
    assert uses is not None
    assert uses.found[None].records == 5_000
    assert len(uses.found[None].places) == 4_096


def test_malformed_records_are_no_overrun() -> None:
    """If this fails, bytes behind the batch are read."""
    data = records_of([Record(key=b"k", value=id_header(1), headers=[("a", b"b")])])
    for size in range(len(data)):
        with pytest.raises(WireError, match="malformed"):
            schemas_of(data[:size], 1, values=True)
