"""The endpoint `/live`.

A browser sends one JSON object in each message: {"subscribe": {"id", "cluster", "channel", "params"}},
{"unsubscribe": id}, {"pause": bool} or {"refresh": true}. It receives {"hello": {...}} first, then {"subscribed": id,
"key"}, {"refused": id, "reason"}, {"dropped": number}, and frames (collector/frames.py); a message to it has one JSON
text or several, one on each line.

The guard checks origin and login before a connection arrives here. After the login ended, it closes the connection at
the next message in either direction.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from broker_cy.console.session import now_ms
from dashboard.collector.hub import ClusterHub
from dashboard.live.viewer import MESSAGE_BYTES_MAX, Gatherer, Viewer
from dashboard.security.roles import LOOPBACK, Identity

# Open tabs over all users, and of one logged-in user; each costs about 100 KB.
VIEWERS_MAX = 5_000
VIEWERS_OF_USER_MAX = 200
# A connection that accepts no data for this long is closed: its tab is gone or suspended. One task checks all
# connections, because a timer for each message would cost a tenth of the message.
SEND_TIMEOUT_S = 30.0
WATCH_S = 5.0
_TOO_BIG, _TRY_LATER = 1009, 1013


class LiveSockets:
    """All open tabs."""

    def __init__(self, hubs: Mapping[str, ClusterHub], build: str) -> None:
        self._hubs = hubs
        self._build = build
        self.viewers: set[Viewer] = set()
        self._gatherer = Gatherer()
        self._senders: dict[Viewer, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None

    async def serve(self, socket: WebSocket) -> None:
        identity: Identity = socket.scope["state"]["identity"]
        if len(self.viewers) >= VIEWERS_MAX:
            await socket.close(_TRY_LATER, f"{VIEWERS_MAX:,} tabs are open, which is the limit")
            return
        if identity.login != LOOPBACK and self._tabs_of(identity.name) >= VIEWERS_OF_USER_MAX:
            await socket.close(_TRY_LATER, f"{identity.name} has {VIEWERS_OF_USER_MAX} open tabs, which is the limit")
            return
        await socket.accept()

        async def send(text: bytes) -> None:
            await socket.send_text(text.decode())

        viewer = Viewer(identity, self._hubs, send, self._gatherer)
        self.viewers.add(viewer)
        tasks = [asyncio.create_task(each) for each in (self._receive(socket, viewer), viewer.run())]
        self._senders[viewer] = tasks[1]
        if self._watch is None:
            self._watch = asyncio.create_task(self._end_stuck())
        try:
            await send(orjson.dumps({"hello": {"at_ms": now_ms(), "build": self._build}}))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            viewer.close()
            self.viewers.discard(viewer)
            self._senders.pop(viewer, None)
            if not self._senders and self._watch is not None:
                self._watch.cancel()
                self._watch = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close()

    def _tabs_of(self, name: str) -> int:
        return sum(viewer.identity.name == name for viewer in self.viewers)

    async def _end_stuck(self) -> None:
        """Close connections that have accepted no data for SEND_TIMEOUT_S."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_S)
            for viewer, sender in list(self._senders.items()):
                since_s = viewer.sending_since_s
                if since_s is not None and loop.time() - since_s > SEND_TIMEOUT_S:
                    sender.cancel()

    async def _receive(self, socket: WebSocket, viewer: Viewer) -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text") or message.get("bytes") or ""
            if len(text) > MESSAGE_BYTES_MAX:
                await socket.close(_TOO_BIG, f"a message may have {MESSAGE_BYTES_MAX:,} bytes")
                return
            await viewer.admit()
            viewer.take(text)
