"""The WebSocket protocol of the server: uvicorn's, without an error in the log for each upgrade that is refused."""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class SocketProtocol(WebSocketsSansIOProtocol):
    """Counts a complete HTTP response as the end of the handshake.

    With the ASGI extension `websocket.http.response`, by which the guard answers with 401 or 403, uvicorn 0.54 counts
    it only when the connection is lost, and until then logs "ASGI callable returned without completing handshake".
    """

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
