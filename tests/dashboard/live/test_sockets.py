"""Connections that end: clients that stop reading, and closed connections."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from starlette.websockets import WebSocket
from websockets.frames import Frame, Opcode

from dashboard.live import socket as live
from dashboard.live.protocol import text_frame
from dashboard.live.socket import LiveSockets
from tests.dashboard.support import ADMIN


class Connection:
    """A WebSocket whose client reads only `takes` messages, and sends nothing."""

    def __init__(self, takes: int) -> None:
        self.scope = {"state": {"identity": ADMIN}}
        self.takes = takes
        self.sent: list[str] = []
        self.is_closed = False
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def accept(self) -> None:
        pass

    async def send_text(self, text: str) -> None:
        if len(self.sent) >= self.takes:
            await asyncio.Event().wait()
        self.sent.append(text)

    async def receive(self) -> dict[str, Any]:
        return await self.incoming.get()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.is_closed = True


def test_a_connection_that_takes_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, tabs that disappear without closing use up the dashboard's connections until it refuses new
    ones.
    """
    monkeypatch.setattr(live, "SEND_TIMEOUT_S", 0.01)
    monkeypatch.setattr(live, "WATCH_S", 0.01)

    async def job() -> None:
        sockets = LiveSockets({}, "1.0")
        stuck, well = Connection(takes=1), Connection(takes=10)
        tasks = [asyncio.create_task(sockets.serve(cast(WebSocket, each))) for each in (stuck, well)]
        for each in (stuck, well):
            await each.incoming.put({"type": "websocket.receive", "text": '{"unknown": 1}'})
        async with asyncio.timeout(20):
            await tasks[0]
        assert stuck.is_closed
        assert len(sockets.viewers) == 1
        assert not well.is_closed
        await well.incoming.put({"type": "websocket.disconnect"})
        async with asyncio.timeout(20):
            await tasks[1]
        assert len(well.sent) == 2
        assert sockets.viewers == set()
        # No task is left that would keep the loop busy.
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(job())


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_a_message_has_the_frame_of_the_library(size: int) -> None:
    """If this fails, browsers close the connection when a message of this size arrives."""
    text = b"x" * size
    assert text_frame(text) == Frame(Opcode.TEXT, text).serialize(mask=False)
