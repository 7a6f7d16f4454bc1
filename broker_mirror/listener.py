"""The pages of a process over HTTP/1.1, at `brokercy.mirror.listener`: /status (JSON), /metrics (Prometheus), /healthz,
and /readyz (503 with a line for each flow that does not run). Only GET and HEAD are served, without a login and without
TLS.

Bounds: CONNECTIONS_MAX connections, further ones are closed; a request of at most 16 KiB (h11), which must be complete
REQUEST_S after the connection; one request on each connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import h11

from broker_cy.admin import ClientError, Failure
from broker_cy.client.address import Address
from broker_cy.client.mirror_status import MirrorStatus
from broker_cy.metrics.exposition import CONTENT_TYPE
from broker_mirror.status import metrics_page

CONNECTIONS_MAX: Final = 32
REQUEST_S: Final = 5.0
_READ_BYTES: Final = 16_384
_TEXT: Final = "text/plain; charset=utf-8"
_READING: Final = (b"GET", b"HEAD")


class Listener:
    """`async with Listener(address, status) as listener`; `url` has the port that was bound."""

    def __init__(self, address: Address, status: Callable[[], MirrorStatus]) -> None:
        self._address, self._status = address, status
        self._server: asyncio.Server | None = None
        self._open = 0
        self.url = ""

    async def __aenter__(self) -> Listener:
        """Listen. Raises ClientError if the address cannot be bound."""
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            reason = f"{host}:{port} cannot be bound: {error.strerror or error}"
            raise ClientError(Failure.INVALID, reason, what="brokercy.mirror.listener") from None
        self.url = f"http://{host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open += 1
        try:
            with suppress(TimeoutError, OSError, h11.ProtocolError):
                async with asyncio.timeout(REQUEST_S):
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
        status, kind, body = self._answer(event)
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Connection", "close")]
        answer = connection.send(h11.Response(status_code=status, headers=headers))
        if event.method != b"HEAD":
            answer = (answer or b"") + (connection.send(h11.Data(data=body)) or b"")
        writer.write(answer or b"")
        await writer.drain()

    def _answer(self, request: h11.Request) -> tuple[int, str, bytes]:
        if request.method not in _READING:
            return 405, _TEXT, b"only GET and HEAD are served\n"
        match request.target.partition(b"?")[0]:
            case b"/status":
                return 200, "application/json", self._status().to_json()
            case b"/metrics":
                return 200, CONTENT_TYPE, metrics_page(self._status())
            case b"/healthz":
                return 200, _TEXT, b"ok\n"
            case b"/readyz":
                missing = [f"{flow.name} is {flow.state}" for flow in self._status().flows if flow.state != "running"]
                if missing:
                    return 503, _TEXT, "".join(f"{each}\n" for each in missing).encode()
                return 200, _TEXT, b"ok\n"
            case _:
                return 404, _TEXT, b"the pages are /status, /metrics, /healthz and /readyz\n"
