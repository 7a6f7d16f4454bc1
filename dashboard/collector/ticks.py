"""A source that only calls its listeners periodically, for data that does not report its changes."""

from __future__ import annotations

import asyncio

from broker_cy.console.listeners import Listener, Listeners, call


class Ticks:
    """Calls its listeners once, and then every `interval_s` while there are any. Its data is never old."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._listeners = Listeners()
        self._task: asyncio.Task[None] | None = None

    @property
    def error(self) -> str | None:
        return None

    @property
    def age_s(self) -> float | None:
        return 0.0

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.interval_s)
            self._listeners.call()
