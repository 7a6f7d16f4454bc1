"""Records as tools show them: without a registry that answers, and with records that their schema does not fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest

from broker_cy.client.decoded import Seen, matching
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.record_filter import RecordFilter
from broker_cy.wire.records import Record
from broker_registry.client import Refused, RegistryClient, Schema
from broker_registry.client_settings import settings_of
from broker_registry.serdes.framing import with_id
from broker_registry.serdes.records import RETRY_S, RETRY_S_MAX, SCHEMAS_MAX, UNKNOWN_S, RecordDecoder
from tests.broker_registry.operations.support import record_of

T = TypeVar("T")

AVRO = Schema("AVRO", record_of("x:int", "s:string"))
JSON = Schema("JSON", json.dumps({"type": "object", "properties": {"x": {"type": "integer"}}}))
# x is 7, s is "hi".
ROW = b"\x0e\x04hi"
GUID = UUID(int=5)


class FakeRegistry(RegistryClient):
    """Schemas by id. `down` is what every request raises; `held` delays the answers."""

    def __init__(self, schemas: dict[int, Schema], places: dict[int, list[tuple[str, int]]] | None = None) -> None:
        super().__init__(settings_of("http://registry:1"))
        self.schemas = schemas
        self.places = places or {}
        self.down: ClientError | None = None
        self.held: asyncio.Event | None = None
        self.asked: list[int | UUID] = []

    async def schema_of(self, schema_id: int, subject: str | None = None) -> Schema:
        return await self._of(schema_id)

    async def schema_of_guid(self, guid: UUID) -> Schema:
        return await self._of(guid.int)

    async def places_of(self, schema_id: int) -> list[tuple[str, int]]:
        return self.places.get(schema_id, [])

    async def _of(self, schema_id: int) -> Schema:
        self.asked.append(schema_id)
        if self.held is not None:
            await self.held.wait()
        if self.down is not None:
            raise self.down
        if schema_id not in self.schemas:
            raise Refused(404, 40403, f"Schema {schema_id} not found", "GET")
        return self.schemas[schema_id]


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def run(call: Callable[[], Awaitable[T]]) -> T:
    async def inside() -> T:
        return await call()

    return asyncio.run(inside())


def record(value: bytes | None, key: bytes | None = None, offset: int = 0, headers: Any = ()) -> Record:
    return Record(offset, 1, key, value, headers)


def see(decoder: RecordDecoder, *records: Record, topic: str = "orders") -> list[Seen]:
    return run(lambda: decoder.seen(topic, records))


def test_keys_and_values_are_json() -> None:
    """If this fails, users read the bytes of Avro records."""
    fake = FakeRegistry({1: AVRO, 2: JSON}, {1: [("z", 3), ("orders-value", 2)], 2: [(":.c:orders-key", 1)]})
    (seen,) = see(RecordDecoder(fake), record(with_id(1, ROW), with_id(2, b'{"x":  1.0}')))
    assert seen.record.value == b'{"x": 7, "s": "hi"}'
    # JSON stays as it was written.
    assert seen.record.key == b'{"x":  1.0}'
    assert str(seen.value.schema) == "AVRO schema 1, orders-value version 2"
    assert str(seen.key.schema) == "JSON schema 2, :.c:orders-key version 1"
    assert (seen.key.problem, seen.value.problem, seen.is_final) == ("", "", True)


def test_other_records_stay_as_they_are() -> None:
    """If this fails, topics without schemas look different because a registry is set."""
    fake = FakeRegistry({1: AVRO})
    for each in (record(b"plain", None), record(None, b""), record(b"\0abc"), record(b"\1" + b"x" * 15)):
        (seen,) = see(RecordDecoder(fake), each)
        assert seen.record is each
        assert (seen.value.schema, seen.value.problem) == (None, "")
    assert fake.asked == []


def test_a_part_may_stay_as_it_is() -> None:
    """If this fails, `--value-format string` decodes values."""
    fake = FakeRegistry({1: AVRO})
    given = record(with_id(1, ROW), with_id(1, ROW))
    (seen,) = see(RecordDecoder(fake, values=False), given)
    assert (seen.record.key, seen.record.value) == (b'{"x": 7, "s": "hi"}', given.value)
    (seen,) = see(RecordDecoder(fake, keys=False), given)
    assert (seen.record.key, seen.record.value) == (given.key, b'{"x": 7, "s": "hi"}')


def test_the_guid_may_be_in_a_header() -> None:
    """If this fails, records of Confluent's newest serializers are shown as bytes."""
    fake = FakeRegistry({5: AVRO})
    (seen,) = see(RecordDecoder(fake), record(ROW, headers=[("__value_schema_id", b"\1" + GUID.bytes)]))
    assert seen.record.value == b'{"x": 7, "s": "hi"}'
    assert str(seen.value.schema) == f"AVRO schema {GUID}"
    (seen,) = see(RecordDecoder(fake), record(ROW, headers=[("__value_schema_id", b"?")]))
    assert (seen.record.value, seen.value.problem) == (ROW, "the header __value_schema_id names no schema")


@pytest.mark.parametrize(
    ("schema", "payload", "problem"),
    [
        (AVRO, b"\x0e", "no record of AVRO schema 1: "),
        (AVRO, ROW + b"!", "no record of AVRO schema 1: 1 bytes follow the record"),
        (JSON, b"{", "no record of JSON schema 1: the record is no JSON"),
        (JSON, b"[" * 100_000, "no record of JSON schema 1: the record is nested too deep"),
        (Schema("PROTOBUF", 'syntax = "proto3"; message A { int32 x = 1; }'), b"\0\xff", "no record of PROTOBUF"),
        (Schema("AVRO", "?"), b"", "its schema 1 cannot be used: "),
        (Schema("THRIFT", "?"), b"", "its schema 1 cannot be used: "),
    ],
)
def test_what_cannot_be_decoded_says_why(schema: Schema, payload: bytes, problem: str) -> None:
    """If this fails, one bad record ends a page, or users do not see why it is shown as bytes."""
    bad, good = record(with_id(1, payload)), record(with_id(2, ROW), offset=1)
    seen = see(RecordDecoder(FakeRegistry({1: schema, 2: AVRO})), bad, good)
    assert seen[0].record is bad
    assert seen[0].value.problem.startswith(problem)
    assert seen[1].record.value == b'{"x": 7, "s": "hi"}'


def test_json_that_breaks_its_schema_is_shown() -> None:
    """If this fails, users see neither the value that a producer wrote nor what is wrong with it."""
    (seen,) = see(RecordDecoder(FakeRegistry({1: JSON})), record(with_id(1, b'{"x":"a"}')))
    assert seen.record.value == b'{"x":"a"}'
    assert seen.value.problem == 'against JSON schema 1: /x: "a" is not of type "integer"'


def test_deep_and_endless_records_end() -> None:
    """If this fails, a record of a few bytes ends a console, or keeps it busy for years."""
    chain = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    nulls = {"type": "array", "items": "null"}
    fake = FakeRegistry({1: Schema("AVRO", json.dumps(chain)), 2: Schema("AVRO", json.dumps(nulls))})
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"
    deep, many, fine = see(
        RecordDecoder(fake),
        record(with_id(1, b"\x02" * 100_000 + b"\0")),
        record(with_id(2, endless), offset=1),
        record(with_id(1, b"\x02\x02\0"), offset=2),
    )
    assert deep.value.problem == "no record of AVRO schema 1: the record is nested deeper than 400 levels"
    assert many.value.problem == "no record of AVRO schema 2: the record has more than 100,000 items without bytes"
    assert fine.record.value == b'{"next": {"next": {"next": null}}}'


def test_large_values_stay_bytes_in_consoles() -> None:
    """If this fails, one value of 20 MB stops a console while it is decoded."""
    given = record(with_id(1, b"\x0e" + b"\xd0\x0f" + b"x" * 1_000))
    (seen,) = see(RecordDecoder(FakeRegistry({1: AVRO}), bytes_max=1_000), given)
    assert seen.record is given
    assert seen.value.problem == "AVRO schema 1: more than 1,000 bytes are not decoded here"
    (seen,) = see(RecordDecoder(FakeRegistry({1: AVRO})), given)
    assert seen.value.problem == ""


def test_a_registry_that_is_down_is_asked_again_later() -> None:
    """If this fails, each record of a page waits for a registry that does not answer, or none is decoded later."""
    fake, clock = FakeRegistry({1: AVRO}), Clock()
    decoder = RecordDecoder(fake, clock=clock)
    given = record(with_id(1, ROW))
    fake.down = ClientError(Failure.UNREACHABLE, "http://registry:1: connection refused", what="the registry")

    async def scenario() -> None:
        wait_s = RETRY_S
        for attempt in range(1, 8):
            for _ in range(3):
                (seen,) = await decoder.seen("orders", [given])
                assert seen.record is given
                reason = "the registry does not answer: http://registry:1: connection refused"
                assert (seen.value.problem, seen.is_final) == (reason, False)
            assert len(fake.asked) == attempt
            assert decoder.notice == "http://registry:1: connection refused"
            assert decoder.retry_in_s == wait_s
            clock.now_s += wait_s
            wait_s = min(wait_s * 2, RETRY_S_MAX)
        fake.down = None
        (seen,) = await decoder.seen("orders", [given])
        assert seen.record.value == b'{"x": 7, "s": "hi"}'
        assert (decoder.notice, decoder.retry_in_s) == ("", 0.0)

    run(scenario)


def test_a_page_waits_for_a_bounded_time() -> None:
    """If this fails, a page is empty for as long as a slow registry takes."""
    fake = FakeRegistry({1: AVRO})
    decoder = RecordDecoder(fake, wait_s=0.01)
    given = record(with_id(1, ROW))

    async def scenario() -> None:
        fake.held = asyncio.Event()
        (seen,) = await decoder.seen("orders", [given])
        assert (seen.record, seen.is_final) == (given, False)
        assert decoder.notice == "http://registry:1: no answer within 0.01 s"
        assert decoder.look("orders", given).is_final is False
        fake.held.set()
        async with asyncio.timeout(60):
            while decoder.notice:
                await asyncio.sleep(0)
        # The answer came behind the limit, and counts.
        assert decoder.look("orders", given).record.value == b'{"x": 7, "s": "hi"}'
        assert decoder.notice == ""

    run(scenario)


def test_an_unknown_id_is_asked_for_again() -> None:
    """If this fails, each record with a number for a key asks the registry, or a schema that came later is not seen."""
    fake, clock = FakeRegistry({}), Clock()
    decoder = RecordDecoder(fake, clock=clock)
    given = record(None, b"\0\0\0\0\x07")

    async def scenario() -> None:
        for _ in range(3):
            (seen,) = await decoder.seen("orders", [given])
            assert (seen.key.problem, seen.is_final) == ("Schema 7 not found (error code 40403)", True)
        assert fake.asked == [7]
        clock.now_s += UNKNOWN_S
        fake.schemas[7] = Schema("AVRO", '"null"')
        (seen,) = await decoder.seen("orders", [given])
        assert seen.record.key == b"null"

    run(scenario)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a topic of numbers fills the memory of a console."""
    monkeypatch.setattr("broker_registry.serdes.records.SCHEMAS_MAX", 3)
    assert SCHEMAS_MAX == 10_000
    decoder = RecordDecoder(FakeRegistry({}))
    see(decoder, *(record(with_id(number, b""), offset=number) for number in range(20)))
    assert len(decoder._unusable) == 3


def test_searches_look_at_decoded_values() -> None:
    """If this fails, a search for the text of a field finds nothing in topics with schemas."""
    fake = FakeRegistry({1: AVRO})
    records = [record(with_id(1, bytes([2 * n]) + b"\x04hi"), offset=n) for n in range(10)]

    def found(**parts: str) -> list[int]:
        keep = RecordFilter(**parts).compile()
        return [each.offset for each in run(lambda: matching(RecordDecoder(fake), "orders", records, keep))]

    assert found(path="$.x >= 8") == [8, 9]
    assert found(value='"x": 3') == [3]
    assert found(value='~"x": [12]\\b') == [1, 2]
    assert RecordFilter(value="hi", header="h=abc").needle(is_decoded=True) == b"abc"
    assert RecordFilter(value="hi", path="$.x").needle(is_decoded=True) is None
