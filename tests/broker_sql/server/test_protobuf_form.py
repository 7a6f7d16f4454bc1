"""Answers in Protobuf: a client reads rows by the schema in the first line."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_registry.schema_types.base import Kind
from broker_sql import types
from broker_sql.errors import StatementError
from broker_sql.server.api.protobuf_form import ProtobufForm
from broker_sql.server.queries.push import Row
from broker_sql.types import Column
from broker_streams.serdes.schemas.lookups import parse


def query(*columns: Column, is_pull: bool = False) -> Any:
    return SimpleNamespace(id="q", columns=columns, is_pull=is_pull)


@pytest.mark.parametrize("is_pull", [True, False])
def test_rows_are_messages_of_the_schema_in_the_header(is_pull: bool) -> None:
    columns = Column("ID", types.BIGINT), Column("M", types.Map(types.STRING, types.INTEGER))
    form = ProtobufForm()
    text = form.head(query(*columns, is_pull=is_pull))
    text += form.rows([Row((1, {"a": 2})), Row((None, None)), Row((3,), is_deleted=True)], None)
    text += form.end(None)
    header, *rows = json.loads(text)
    assert header["header"]["queryId"] == "q"
    schema = header["header"]["protoSchema"]
    assert schema.startswith('syntax = "proto3";\n\nmessage ConnectDefault1 {\n  int64 ID = 1;\n')
    kind = cast("Any", parse(Kind.PROTOBUF, schema)).records.class_of("ConnectDefault1")
    if not is_pull:
        assert rows.pop() == {"finalMessage": "Query Completed"}
    found = [kind.FromString(base64.b64decode(each["row"]["protobufBytes"])) for each in rows]
    assert [each.ID for each in found] == [1, 0, 3]
    assert [(each.key, each.value) for each in found[0].M] == [("a", 2)]
    assert [each["row"].get("tombstone") for each in rows] == [None, None, True]


def test_columns_without_a_message_are_refused() -> None:
    with pytest.raises(StatementError, match="an array of arrays is no field of a message"):
        ProtobufForm().head(query(Column("A", types.Array(types.Array(types.STRING)))))
