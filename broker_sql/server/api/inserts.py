"""/inserts-stream: rows of JSON, one in a line, into a stream or table; a line answers each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from broker_cy.client.errors import ClientError
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import SourceInfo
from broker_sql.errors import SqlError
from broker_sql.server.api.ksql import failure
from broker_sql.server.api.requests import DELIMITED, JSON, Request, Streamed, object_of, parse_object, preferred
from broker_sql.server.api.requests import text_of as member_of
from broker_sql.server.api.router import Router
from broker_sql.server.errors import ApiError, Code, bad_request
from broker_sql.server.inserting import WrongValue, record_of, row_of_json, writable
from broker_sql.server.service import Service

LINE_BYTES_MAX: Final = 1 << 20
IN_FLIGHT_MAX: Final = 100
"""Rows that were sent to the brokers and are not acknowledged; no more are read meanwhile."""


def add_routes(router: Router) -> None:
    router.add("POST", "/inserts-stream", insert)


async def insert(service: Service, request: Request) -> Streamed:
    """The first line has the target. Raises ApiError: it is wrong, so that no rows are taken."""
    accept = preferred(request.accept, (DELIMITED, JSON))
    lines = _lines(request)
    first = await anext(lines, None)
    if first is None:
        raise bad_request("the body is empty; its first line is an object with the target")
    found = parse_object(first, "the first line")
    target = member_of(found, "target")
    try:
        settings = service.engine.settings(object_of(found, "properties"))
        source = writable(_name_of(target), service.engine.catalog, settings)
    except SqlError as error:
        raise failure(error, target) from None
    if service.config.is_readonly(source.topic):
        raise bad_request(f"topic {source.topic} is only read: see ksql.readonly.topics")
    acks = _Inserting(service, source, settings).acks(lines)
    return Streamed(accept, acks if accept == DELIMITED else _array(acks), reads_body=True)


def _name_of(target: str) -> str:
    is_quoted = len(target) > 1 and target[0] == target[-1] == "`"
    return target[1:-1] if is_quoted else target.upper()


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """Yield the lines of the body as they come. Raises ApiError: one is too long."""
    left = bytearray()
    async for part in request.parts():
        left += part
        while (at := left.find(b"\n")) >= 0:
            line = bytes(left[:at]).strip()
            del left[: at + 1]
            if line:
                yield line
        if len(left) > LINE_BYTES_MAX:
            raise ApiError(Code.TOO_LARGE, f"a line has more than {LINE_BYTES_MAX:,} bytes")
    if line := bytes(left).strip():
        yield line


async def _array(acks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines as the elements of one array."""
    before = b"["
    async for each in acks:
        yield before + each.rstrip(b"\n")
        before = b",\n"
    yield b"]" if before != b"[" else b"[]"


class _Inserting:
    def __init__(self, service: Service, source: SourceInfo, settings: Settings) -> None:
        self._service, self._source, self._settings = service, source, settings

    async def acks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield a line for each row, in their order; the first row that fails ends the stream."""
        sent: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(IN_FLIGHT_MAX)

        async def send_all() -> None:
            try:
                sequence = 0
                async for line in lines:
                    await sent.put(asyncio.create_task(self._insert(line, sequence)))
                    sequence += 1
            finally:
                await sent.put(None)

        sending = asyncio.create_task(send_all())
        try:
            while (task := await sent.get()) is not None:
                ack = await task
                yield ack
                if b'"status":"error"' in ack:
                    return
            await sending
        finally:
            sending.cancel()
            while not sent.empty():
                if (left := sent.get_nowait()) is not None:
                    left.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _insert(self, line: bytes, sequence: int) -> bytes:
        try:
            row = row_of_json(self._source, parse_object(line, "the line"))
            record = record_of(self._source, row, self._settings)
            await self._service.producer.send(self._source.topic, [record])
        except (ApiError, SqlError, ClientError, WrongValue) as error:
            code = error.code if isinstance(error, ApiError) else Code.BAD_REQUEST
            return _line({"status": "error", "seq": sequence, "error_code": int(code), "message": str(error)})
        return _line({"status": "ok", "seq": sequence})


def _line(found: dict[str, Any]) -> bytes:
    return orjson.dumps(found) + b"\n"
