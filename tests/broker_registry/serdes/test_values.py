"""Values of records with the schemas of a running registry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

import pytest

from broker_registry.client import RegistryClient, Schema
from broker_registry.client_settings import settings_of
from broker_registry.schema_types.base import Reference
from broker_registry.serdes.values import Values, json_value
from tests.broker_registry.operations.support import record_of
from tests.support.registry import RegistryProcess

T = TypeVar("T")

PROTO = 'syntax = "proto3"; message A { int32 x = 1; } message B { string s = 1; }'
JSON = json.dumps({"type": "object", "properties": {"x": {"type": "integer"}}})


def ask(registry: RegistryProcess, call: Callable[[RegistryClient], Awaitable[T]]) -> T:
    async def run() -> T:
        return await call(RegistryClient(settings_of(registry.url)))

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("AVRO", record_of("x:int"), {"x": 7}), ("JSON", JSON, {"x": 7}), ("PROTOBUF", PROTO, {"x": 7})],
)
def test_values_of_each_type_return(registry: RegistryProcess, subject: str, kind: str, text: str, value: Any) -> None:
    """If this fails, commands show other values than producers wrote."""

    async def call(client: RegistryClient) -> None:
        schema_id = await client.register(subject, Schema(kind, text))
        values = Values(client)
        data = await values.encode(schema_id, value)
        assert data[:5] == b"\0" + schema_id.to_bytes(4)
        assert await values.decode(data) == (value, kind, schema_id, None)
        guid = (await client.version(subject)).guid
        assert guid is not None
        # The indexes of Protobuf's first message are one byte behind the id, and in the header behind the GUID.
        cut = 6 if kind == "PROTOBUF" else 5
        header = ("__key_schema_id", b"\1" + UUID(guid).bytes + data[5:cut])
        assert await values.decode(data[cut:], [header], is_key=True) == (value, kind, None, UUID(guid))
        assert await values.decode(b"plain") is None
        with pytest.raises(ValueError, match=r"."):
            await values.decode(data[:5])

    ask(registry, call)


def test_schemas_refer_to_others(registry: RegistryProcess, subject: str) -> None:
    """If this fails, values of schemas with references are not decoded."""

    async def call(client: RegistryClient) -> None:
        await client.register(f"{subject}-in", Schema("AVRO", record_of("x:int", name="Inner")))
        outer = json.dumps({"type": "record", "name": "Outer", "fields": [{"name": "i", "type": "Inner"}]})
        schema = Schema("AVRO", outer, (Reference("Inner", f"{subject}-in", 1),))
        schema_id = await client.register(subject, schema)
        assert (await Values(client).decode(b"\0" + schema_id.to_bytes(4) + b"\x0e")) == (
            {"i": {"x": 7}},
            "AVRO",
            schema_id,
            None,
        )

    ask(registry, call)


def test_values_have_types_of_json() -> None:
    """If this fails, a record with a date or bytes ends a command with an error."""
    value = {"b": b"\0\xff", "d": date(2026, 1, 2), "n": [Decimal("1.50"), float("nan"), float("-inf")], "t": None}
    assert json_value(value) == {"b": "\0ÿ", "d": "2026-01-02", "n": ["1.50", "NaN", "-Infinity"], "t": None}
