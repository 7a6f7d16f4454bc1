"""The HTTP connections of the registry: those of uvicorn, which answer most GETs without a task (see `quick`), with the
bounds of http.bounds.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from broker_cy.http import bounds
from broker_cy.http.bounds import CERTIFICATE, HEAD_BYTES_MAX, Bounds, admitted
from broker_registry.api.quick import Peer, Requests, Short, head_of

PIPELINED_MAX: Final = 100
"""Requests that wait for the answer to an earlier one of their connection."""


class Quick(Protocol):
    """Answers a request at once: status, type of the content, and body. None if the answer has to wait."""

    def __call__(self, request: Short, peer: Peer, /) -> tuple[int, bytes, bytes] | None: ...


class QuickProtocol(HttpToolsProtocol):
    """One connection. uvicorn calls it with its own arguments; `quick` and `requests` are those of the process."""

    def __init__(self, *own: Any, quick: Quick, requests: Requests, **named: Any) -> None:
        super().__init__(*own, **named)
        self._quick, self._requests = quick, requests
        # Whether uvicorn's parser has a part of a request.
        self._is_amid = False
        # The bytes of data with a part of the head; its size is known to the last piece of data only.
        self._head_bytes = 0
        self._has_head = False
        # When the last request was answered here, on the clock of the loop.
        self._answered_s = 0.0
        self._common: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    _bounds: Bounds
    _peer: Peer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._bounds = admitted(self, transport, self.loop)
        self._peer = Peer(self.client[0] if self.client else "", self.app_state.get(CERTIFICATE))

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_amid and (self.cycle is None or self.cycle.response_complete):
            request = self._requests.read(data)
            if request is not None and not self.flow.write_paused:
                answer = self._quick(request, self._peer)
                if answer is not None:
                    self._bounds.done()
                    self._write(*answer)
                    return
        super().data_received(data)
        if self._is_amid and not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.transport.abort()
            elif not self._bounds.is_waiting:
                self._bounds.wait(bounds.HEAD_S)

    def on_message_begin(self) -> None:
        self._is_amid, self._has_head, self._head_bytes = True, False, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            # The parser takes it for a malformed request, answers so, and closes.
            raise ValueError(f"more than {PIPELINED_MAX} requests wait for their answers")
        self._has_head = True
        self._bounds.wait(bounds.BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_amid = False
        self._bounds.done()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._bounds.stall()

    def resume_writing(self) -> None:
        self._bounds.resume()
        super().resume_writing()

    def _write(self, status: int, content_type: bytes, body: bytes) -> None:
        self.transport.write(head_of(status, content_type, len(body), self._common_headers()) + body)
        self._answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_more(self.timeout_keep_alive)

    def _common_headers(self) -> bytes:
        """Return the lines of uvicorn's own headers. It has a new list of them for each second."""
        found = self.server_state.default_headers
        if found is not self._common[0]:
            self._common = found, b"".join(b"%s: %s\r\n" % pair for pair in found)
        return self._common[1]

    def _wait_for_more(self, wait_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(wait_s, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless a request was answered here since the timer was set."""
        left_s = self._answered_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._wait_for_more(left_s)
        else:
            super().timeout_keep_alive_handler()
