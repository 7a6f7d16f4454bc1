"""The connections of the HTTP server: those of uvicorn on h11, with the bounds of http.bounds."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from broker_cy.http import bounds
from broker_cy.http.bounds import Bounds, admitted


class BoundedProtocol(H11Protocol):
    """One connection."""

    _bounds: Bounds
    _has_head = False
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._bounds = admitted(self, transport, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.close()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        # The connection belongs to another protocol, with bounds of its own.
        self._is_upgraded = True
        self._bounds.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_upgraded:
            return
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            if not self._has_head:
                self._has_head = True
                self._bounds.wait(bounds.BODY_S)
        elif state is h11.IDLE:
            if self._has_head or not self._bounds.is_waiting:
                self._has_head = False
                self._bounds.wait(bounds.HEAD_S)
        else:
            self._has_head = False
            self._bounds.done()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._bounds.stall()

    def resume_writing(self) -> None:
        self._bounds.resume()
        super().resume_writing()
