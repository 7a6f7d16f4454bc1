"""A few pages of a process over HTTP/1.1, such as its state and its metrics, on asyncio and h11. Only GET and HEAD are
served, without TLS.

Bounds: CONNECTIONS_MAX connections, further ones are closed; a request of at most 16 KiB (h11), which must be complete
and answered REQUEST_S after the connection; one request on each connection.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import h11

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError, Failure

CONNECTIONS_MAX: Final = 32
REQUEST_S: Final = 5.0
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
_READ_BYTES: Final = 16_384
_READING: Final = (b"GET", b"HEAD")


class PageRequest(NamedTuple):
    """A request. Names of headers are lower case. The last value of a repeated parameter counts."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    def has_token(self, token: str) -> bool:
        """Whether the request has this token: Authorization: Bearer TOKEN."""
        given = self.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


class PageAnswer(NamedTuple):
    status: int
    kind: str
    body: bytes


Answer = Callable[[PageRequest], Awaitable[PageAnswer]]


class PageServer:
    """`async with PageServer(address, answer, setting=...) as server`; `url` has the port that was bound.

    `setting` names the address in the error of one that cannot be bound.
    """

    def __init__(
        self,
        address: Address,
        answer: Answer,
        *,
        setting: str,
        connections_max: int = CONNECTIONS_MAX,
        request_s: float = REQUEST_S,
    ) -> None:
        self._address, self._answer, self._setting = address, answer, setting
        self._connections_max, self._request_s = connections_max, request_s
        self._server: asyncio.Server | None = None
        self._open = 0
        self.url = ""

    async def __aenter__(self) -> PageServer:
        """Listen. Raises ClientError if the address cannot be bound."""
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            reason = f"{host}:{port} cannot be bound: {error.strerror or error}"
            raise ClientError(Failure.INVALID, reason, what=self._setting) from None
        self.url = f"http://{Address(host, self._server.sockets[0].getsockname()[1])}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= self._connections_max:
            writer.close()
            return
        self._open += 1
        try:
            with suppress(TimeoutError, OSError, h11.ProtocolError):
                async with asyncio.timeout(self._request_s):
                    await self._exchange(reader, writer)
        finally:
            self._open -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                break
            else:
                return
        if event.method in _READING:
            path, _, query = event.target.partition(b"?")
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
            parameters = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
            found = await self._answer(PageRequest(path.decode("latin-1"), parameters, headers))
        else:
            found = PageAnswer(405, TEXT, b"only GET and HEAD are served\n")
        status, kind, body = found
        lines = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Connection", "close")]
        answer = connection.send(h11.Response(status_code=status, headers=lines))
        if event.method != b"HEAD":
            answer = (answer or b"") + (connection.send(h11.Data(data=body)) or b"")
        writer.write(answer or b"")
        await writer.drain()
