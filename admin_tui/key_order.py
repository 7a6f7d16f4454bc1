"""Keys take effect in the order in which they were typed.

Textual hands a key to the widget that has the focus at that moment. What the key does may come several queues later (a
binding is looked for when the key has gone up through all of them to the application): text that is typed quickly
behind a tab or a command, and ssh brings keys in bursts, would go to the widget that had the focus before. So each key
waits here until the one before it is done with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.events import Event
    from textual.message_pump import MessagePump

# Keys that wait; a terminal that sends more is not typed at by hand, and loses them.
KEYS_MAX = 1_000
# A widget that does something lengthy does not keep the keyboard for longer.
WAIT_S = 0.25
# What a key makes a widget say goes up the same queues once more, and so does what that brings about.
ROUNDS = 3


class KeyOrder:
    """Hands keys to `handle` one after the other."""

    def __init__(self, app: App[int], handle: Callable[[Event], Awaitable[None]]) -> None:
        self._app = app
        self._handle = handle
        self._keys: asyncio.Queue[Event] = asyncio.Queue(KEYS_MAX)

    def add(self, key: Event) -> None:
        with suppress(asyncio.QueueFull):
            self._keys.put_nowait(key)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            key = await self._keys.get()
            try:
                began = self._app.focused or self._app.screen
                await self._handle(key)
                with suppress(TimeoutError):
                    async with asyncio.timeout(WAIT_S):
                        await self._pass_queues(began)
            finally:
                self._keys.task_done()

    async def done(self) -> None:
        """Wait until every key so far has done what it does."""
        await self._keys.join()

    async def _pass_queues(self, began: DOMNode) -> None:
        """Wait until what is in the queues of the widgets that had the focus, and of those around them, was handled."""
        for _ in range(ROUNDS):
            for start in dict.fromkeys((began, self._app.focused or self._app.screen)):
                node: MessagePump | None = start
                while node is not None:
                    passed = asyncio.Event()
                    if node.call_later(passed.set):
                        await passed.wait()
                    node = node._parent
