"""Rows of a query as messages of Protobuf, in an array of objects (application/vnd.ksql.v1+protobuf).

[{"header":{"queryId":..., "protoSchema": TEXT}},
 {"row":{"protobufBytes": BASE64}}, ...]
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from broker_registry.schema_types.base import Kind
from broker_sql.errors import StatementError
from broker_sql.formats.connect import shape_of_row
from broker_sql.formats.protobuf import Messages
from broker_sql.formats.protobuf_text import schema_text
from broker_sql.server.api.query import ObjectsForm
from broker_sql.server.api.requests import PROTOBUF
from broker_sql.server.queries.pull import PullQuery
from broker_sql.server.queries.push import PushQuery, Row
from broker_streams.serdes import SerdeError
from broker_streams.serdes.schemas.lookups import parse


class ProtobufForm(ObjectsForm):
    """As in PROTOBUF_NOSR, NULL in a field without presence is its default value."""

    content_type = PROTOBUF

    def __init__(self) -> None:
        super().__init__()
        self._names: tuple[str, ...] = ()
        self._write: Callable[[Any], bytes] | None = None

    def head(self, query: PushQuery | PullQuery) -> bytes:
        """Raises StatementError: a message cannot hold the columns."""
        self._is_pull = query.is_pull
        self._names = tuple(each.name for each in query.columns)
        shape = shape_of_row(self._names, [each.type for each in query.columns], unwraps=False)
        try:
            parsed = parse(Kind.PROTOBUF, schema_text(shape, {}))
            self._write = Messages(parsed, {}, None).writer()
        except (SerdeError, ValueError) as error:
            raise StatementError(f"the columns have no message of Protobuf: {error}") from None
        return b"[" + self._line({"header": {"queryId": query.id, "protoSchema": parsed.canonical}})

    def rows(self, batch: Iterable[Row], encode: Any) -> bytes:
        write = self._write
        assert write is not None
        lines = []
        for each in batch:
            # A deleted row has the columns of its key alone.
            message = write(dict(zip(self._names, each.values, strict=False)))
            found: dict[str, Any] = {"protobufBytes": base64.b64encode(message).decode()}
            lines.append(self._line({"row": found | ({"tombstone": True} if each.is_deleted else {})}))
        return b"".join(lines)
