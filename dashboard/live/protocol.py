"""The WebSocket protocol of the server: uvicorn's, with a faster path for messages to browsers, and without an error in
the log for each refused upgrade.
"""

from __future__ import annotations

import struct

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import OPEN

# RFC 6455, section 5.2: a whole text message; the length is in the second byte up to 125, and behind it up to 65,535.
_TEXT = 0x81
_SHORT_MAX, _MIDDLE_MAX = 125, 0xFFFF


class SocketProtocol(WebSocketsSansIOProtocol):
    """Writes a text message of an open connection itself: nearly all messages of a dashboard are of this kind, and the
    general path through uvicorn and websockets takes a sixth of the time that Python spends on one.

    Counts a complete HTTP response as the end of the handshake.

    With the ASGI extension `websocket.http.response`, by which the guard answers with 401 or 403, uvicorn 0.54 counts
    it only when the connection is lost, and until then logs "ASGI callable returned without completing handshake".
    """

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.send" and self._is_plainly_open():
            text = message.get("text")
            if text is not None:
                self.transport.write(text_frame(text.encode()))
                return
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def _is_plainly_open(self) -> bool:
        """Whether a message only has to be written: there is no handshake, close, extension or unwritten data, and the
        browser reads.
        """
        conn = self.conn
        return (
            self.handshake_complete
            and self.initial_response is None
            and not self.close_sent
            and not self.disconnected
            and self.writable.is_set()
            and conn.state is OPEN
            and not conn.extensions
            and not conn.expect_continuation_frame
            and not conn.writes
        )


def text_frame(text: bytes) -> bytes:
    """Return the frame of a whole text message of a server."""
    size = len(text)
    if size <= _SHORT_MAX:
        return struct.pack(">BB", _TEXT, size) + text
    if size <= _MIDDLE_MAX:
        return struct.pack(">BBH", _TEXT, 126, size) + text
    return struct.pack(">BBQ", _TEXT, 127, size) + text
