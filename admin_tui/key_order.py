"""Keys take effect in the order in which they were typed.

Textual sends a key to the widget that has the focus at that moment. The effect of the key may come several message
queues later (a binding is run when the key has passed through all of them, up to the application). Text that is typed
quickly after a tab or a command would then go to the widget that had the focus before; over ssh, keys arrive in bursts.
So each key waits here until the one before it has taken effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from broker_cy.client.turns import URGENT

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.events import Event
    from textual.message_pump import MessagePump

# Keys that wait. Further keys are dropped, which does not happen when typing by hand.
KEYS_MAX = 1_000
# How long the next key waits at most for a widget that is busy.
WAIT_S = 0.25
# A message that a widget posts because of a key passes through the same queues, and so do the messages that it causes.
ROUNDS = 3


class KeyOrder:
    """Passes keys to `handle` one after the other."""

    def __init__(self, app: App[int], handle: Callable[[Event], Awaitable[None]]) -> None:
        self._app = app
        self._handle = handle
        self._keys: asyncio.Queue[Event] = asyncio.Queue(KEYS_MAX)

    def add(self, key: Event) -> None:
        with suppress(asyncio.QueueFull):
            self._keys.put_nowait(key)

    async def run(self) -> None:
        """Run until it is cancelled."""
        while True:
            key = await self._keys.get()
            try:
                with URGENT.under_way():
                    await self._take(key)
            finally:
                self._keys.task_done()

    async def _take(self, key: Event) -> None:
        began = self._app.focused or self._app.screen
        await self._handle(key)
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await self._pass_queues(began)

    async def done(self) -> None:
        """Wait until every key so far has taken effect."""
        await self._keys.join()

    async def _pass_queues(self, began: DOMNode) -> None:
        """Wait until the messages in the queues of the focused widgets and of their ancestors are handled."""
        for _ in range(ROUNDS):
            for start in dict.fromkeys((began, self._app.focused or self._app.screen)):
                node: MessagePump | None = start
                while node is not None:
                    passed = asyncio.Event()
                    if node.call_later(passed.set):
                        await passed.wait()
                    node = node._parent
