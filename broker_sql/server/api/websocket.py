"""/ws/query: the rows of a query over a WebSocket. The query parameter `request` has the JSON object of /query."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.types import Receive, Scope, Send

from broker_cy.client.errors import ClientError
from broker_sql.errors import SqlError
from broker_sql.server.api.ksql import checked_session, failure
from broker_sql.server.api.requests import parse_object, text_of
from broker_sql.server.entities import value_fields
from broker_sql.server.errors import ApiError
from broker_sql.server.printing import print_topic
from broker_sql.server.queries.opening import open_query, the_query
from broker_sql.server.queries.pull import PullQuery
from broker_sql.server.rows import encoder
from broker_sql.server.service import Service
from broker_sql.statements import Print
from broker_streams.kernel.errors import StreamsError

_NORMAL, _UNSUPPORTED, _FAILED = 1000, 1003, 1011
_REASON_MAX = 120


async def run(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Accept the socket and send the rows: first the columns, then an object for each row, then a final message."""
    await send({"type": "websocket.accept"})
    sending = asyncio.ensure_future(_send_rows(service, scope, send))
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def _send_rows(service: Service, scope: Scope, send: Send) -> None:
    async def say(found: Any) -> None:
        await send({"type": "websocket.send", "text": orjson.dumps(found).decode()})

    async def close(code: int, reason: str) -> None:
        with contextlib.suppress(Exception):
            await send({"type": "websocket.close", "code": code, "reason": reason[:_REASON_MAX]})

    try:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("request", [""])[0]
        found = parse_object(given.encode("latin-1"), "the parameter request")
        text = text_of(found, "ksql")
        session = checked_session(service, found, "streamsProperties")
        statement = the_query(service, text, session)
        if isinstance(statement, Print):
            async for part in await print_topic(service, statement):
                await send({"type": "websocket.send", "text": part.decode().rstrip("\n")})
            await close(_NORMAL, "done")
            return
        query = await open_query(service, statement, session)
    except (SqlError, ClientError, ApiError, StreamsError) as error:
        await close(_UNSUPPORTED, failure(error, "").message)
        return
    try:
        await say(value_fields(query.columns))
        encode = encoder(query.columns)
        async for batch in query.batches():
            for row in batch:
                shown: dict[str, Any] = {"columns": encode(row.values)}
                if row.is_deleted:
                    shown["tombstone"] = True
                await say({"row": shown})
        await say({"finalMessage": query.end or "Query Completed"})
        await close(_NORMAL, "done")
    except (SqlError, ClientError, StreamsError) as error:
        await say({"errorMessage": failure(error, "").to_json()})
        await close(_FAILED, str(error))
    finally:
        if isinstance(query, PullQuery):
            await query.close()
        else:
            await service.close_push_query(query.id)
