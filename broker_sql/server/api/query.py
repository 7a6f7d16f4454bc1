"""/query and /query-stream: the rows of a query as they come; /close-query.

/query answers with an array of objects by default, /query-stream with lines of JSON; the header Accept chooses:

    application/vnd.ksql.v1+json              [{"header":{...}},{"row":{"columns":[...]}},...]
    application/vnd.ksqlapi.delimited.v1      {"queryId":...}, then a line [...] for each row
    application/json                          the same lines as the elements of one array
    application/vnd.ksql.v1+protobuf          as the first one, rows as messages of Protobuf (/query-stream)
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Protocol

import orjson

from broker_cy.client.errors import ClientError
from broker_sql.errors import SqlError
from broker_sql.server.api.ksql import checked_session, failure
from broker_sql.server.api.requests import (
    DELIMITED,
    JSON,
    PROTOBUF,
    V1,
    Answer,
    Request,
    Streamed,
    Whole,
    preferred,
    text_of,
)
from broker_sql.server.api.router import Router
from broker_sql.server.errors import ApiError, Code, bad_request
from broker_sql.server.printing import print_topic
from broker_sql.server.queries.opening import open_by_key, open_query, the_query
from broker_sql.server.queries.pull import PullQuery
from broker_sql.server.queries.push import PushQuery, Row
from broker_sql.server.rows import encoder
from broker_sql.server.service import Service
from broker_sql.server.session import Session
from broker_sql.statements import Print
from broker_sql.types import Column, quoted
from broker_streams.kernel.errors import StreamsError

_LOG = logging.getLogger(__name__)
_OLD: Final = (V1, JSON, DELIMITED)
_NEW: Final = (DELIMITED, JSON, V1, PROTOBUF)
_FAILED: Final = (SqlError, ClientError, ApiError, StreamsError)


def add_routes(router: Router) -> None:
    router.add("POST", "/query", old_query)
    router.add("POST", "/query-stream", new_query)
    router.add("POST", "/close-query", close_query)


async def old_query(service: Service, request: Request) -> Streamed | Whole:
    found = await request.json()
    accept = preferred(request.accept, _OLD)
    # For this resource, application/json is the older form.
    form: Form = LinesForm() if accept == DELIMITED else ObjectsForm()
    return await _opened(service, text_of(found, "ksql"), checked_session(service, found, "streamsProperties"), form)


async def new_query(service: Service, request: Request) -> Streamed | Whole:
    found = await request.json()
    accept = preferred(request.accept, _NEW)
    form: Form = ObjectsForm() if accept == V1 else ArrayForm() if accept == JSON else LinesForm()
    if accept == PROTOBUF:
        # Its library is loaded by the first client that asks for it.
        from broker_sql.server.api.protobuf_form import ProtobufForm

        form = ProtobufForm()
    return await _opened(service, text_of(found, "sql"), checked_session(service, found, "properties"), form)


async def close_query(service: Service, request: Request) -> Answer:
    found = await request.json()
    query_id = found.get("queryId")
    if isinstance(query_id, dict):
        query_id = query_id.get("id")
    if not isinstance(query_id, str):
        raise bad_request("queryId is missing; a text is expected")
    if not await service.close_push_query(query_id):
        raise ApiError(Code.BAD_REQUEST, f"No query with id {query_id}")
    return Answer(None)


async def _opened(service: Service, text: str, session: Session, form: Form) -> Streamed | Whole:
    """Raises ApiError."""
    try:
        by_key = await open_by_key(service, text, session)
        if by_key is not None:
            return await _by_key(service, by_key, form)
        statement = the_query(service, text, session)
        if isinstance(statement, Print):
            if not isinstance(form, LinesForm | ObjectsForm):
                raise ApiError(Code.NOT_ACCEPTABLE, f"PRINT answers with {DELIMITED} only")
            return Streamed("text/plain; charset=utf-8", await print_topic(service, statement))
        query = await open_query(service, statement, session)
    except _FAILED as error:
        raise failure(error, text) from None
    return Streamed(form.content_type, rows_of(service, query, form))


async def _by_key(service: Service, query: PullQuery, form: Form) -> Streamed | Whole:
    """A key without windows has one row: an answer in one part takes half of the CPU time of one in several."""
    parts = rows_of(service, query, form)
    if query.is_windowed:
        return Streamed(form.content_type, parts)
    return Whole(form.content_type, b"".join([each async for each in parts]))


async def rows_of(service: Service, query: PushQuery | PullQuery, form: Form) -> AsyncIterator[bytes]:
    """Yield the parts of an answer; the query is closed at its end, or when the client goes."""
    is_pull = isinstance(query, PullQuery)
    service.pulls += is_pull
    encode = encoder(query.columns)
    try:
        yield form.head(query)
        async for batch in query.batches():
            if query.is_pull:
                yield form.rows(batch, encode)
                continue
            # Each row in a part of its own: the client ksqldb-client takes a frame of HTTP/2 for a row.
            for row in batch:
                yield form.rows([row], encode)
        yield form.end(query.end)
    except _FAILED as error:
        _LOG.warning("query %s: %s", query.id, error)
        yield form.error(failure(error, ""))
    finally:
        service.pulls -= is_pull
        if isinstance(query, PullQuery):
            await query.close()
        else:
            await service.close_push_query(query.id)


# ---- forms


class Form(Protocol):
    """The text of an answer, in parts."""

    content_type: str

    def head(self, query: PushQuery | PullQuery) -> bytes: ...
    def rows(self, batch: Iterable[Row], encode: Any) -> bytes: ...
    def end(self, reason: str | None) -> bytes: ...
    def error(self, error: ApiError) -> bytes: ...


def schema_text(columns: Iterable[Column], *, with_keys: bool) -> str:
    return ", ".join(str(each) if with_keys else f"{quoted(each.name)} {each.type}" for each in columns)


def _metadata(query: PushQuery | PullQuery) -> dict[str, Any]:
    return {
        "queryId": query.id,
        "columnNames": [each.name for each in query.columns],
        "columnTypes": [str(each.type) for each in query.columns],
    }


class LinesForm:
    content_type = DELIMITED

    def head(self, query: PushQuery | PullQuery) -> bytes:
        return orjson.dumps(_metadata(query)) + b"\n"

    def rows(self, batch: Iterable[Row], encode: Any) -> bytes:
        # As in ksqlDB, this form has no deletions.
        return b"".join(orjson.dumps(encode(each.values)) + b"\n" for each in batch if not each.is_deleted)

    def end(self, reason: str | None) -> bytes:
        return b""

    def error(self, error: ApiError) -> bytes:
        return orjson.dumps(error.to_json()) + b"\n"


class ArrayForm:
    content_type = JSON

    def head(self, query: PushQuery | PullQuery) -> bytes:
        return b"[" + orjson.dumps(_metadata(query))

    def rows(self, batch: Iterable[Row], encode: Any) -> bytes:
        return b"".join(b",\n" + orjson.dumps(encode(each.values)) for each in batch if not each.is_deleted)

    def end(self, reason: str | None) -> bytes:
        return b"]"

    def error(self, error: ApiError) -> bytes:
        return b",\n" + orjson.dumps(error.to_json()) + b"]"


class ObjectsForm:
    """Clients read line by line: each line but the last ends with a comma. The line break at the end is that of older
    releases of ksqlDB, which the Python client `ksql` needs.
    """

    content_type = V1

    def __init__(self) -> None:
        self._is_pull = False
        # Of a pull query, the last row is written without a comma, so a row waits for the next one.
        self._waiting = b""

    def head(self, query: PushQuery | PullQuery) -> bytes:
        self._is_pull = query.is_pull
        schema = schema_text(query.columns, with_keys=query.is_pull)
        return b"[" + self._line({"header": {"queryId": query.id, "schema": schema}})

    def _line(self, found: dict[str, Any]) -> bytes:
        text = orjson.dumps(found)
        if not self._is_pull:
            return text + b",\n"
        before, self._waiting = self._waiting, text
        return before + b",\n" if before else b""

    def rows(self, batch: Iterable[Row], encode: Any) -> bytes:
        return b"".join(
            self._line({"row": {"columns": encode(each.values), **({"tombstone": True} if each.is_deleted else {})}})
            for each in batch
        )

    def end(self, reason: str | None) -> bytes:
        if self._is_pull:
            return self._waiting + b"]\n"
        return orjson.dumps({"finalMessage": reason or "Query Completed"}) + b"]\n"

    def error(self, error: ApiError) -> bytes:
        before = self._waiting + b",\n" if self._waiting else b""
        return before + orjson.dumps({"errorMessage": error.to_json()}) + b"]\n"
