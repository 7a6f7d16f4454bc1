"""Brokers that are probably gone, while the controller decides whether they are.

The first Metadata response after a connection broke decides how long a client is without a leader: one that still names
the dead one costs it seconds. Responses that name a suspected broker as a leader are therefore held until the verdict,
HOLD_S at most. The verdict is any change of the broker's registration: it was fenced, or it has registered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta

# A verdict takes a round trip to the controller and a commit. A client that is held longer than that by a wrong
# suspicion would notice it.
HOLD_S: Final = 0.15


class Suspects:
    """`ids` are the suspected brokers. A suspicion ends HOLD_S after it began, whether or not it is repeated."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ids: set[int] = set()
        self._loop = loop
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._waiting: list[tuple[frozenset[int], asyncio.Future[None]]] = []

    def suspect(self, broker_id: int) -> None:
        """The broker is probably gone."""
        if broker_id not in self.ids:
            self.ids.add(broker_id)
            self._timers[broker_id] = self._loop.call_later(HOLD_S, self.clear, broker_id)

    def clear(self, broker_id: int) -> None:
        """The verdict is known, or it takes too long: hold nothing because of this broker."""
        if broker_id not in self.ids:
            return
        self.ids.discard(broker_id)
        self._timers.pop(broker_id).cancel()
        waiting, self._waiting = self._waiting, []
        for named, future in waiting:
            if named & self.ids:
                self._waiting.append((named, future))
            elif not future.done():
                future.set_result(None)

    def apply(self, delta: ImageDelta) -> None:
        """The committed metadata have changed."""
        for broker_id in delta.brokers:
            self.clear(broker_id)

    async def verdict(self, named: Iterable[int]) -> None:
        """Wait until none of these brokers is suspected, HOLD_S at most."""
        wanted = frozenset(named)
        if not wanted & self.ids:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((wanted, future))
        try:
            async with asyncio.timeout(HOLD_S):
                await future
        except TimeoutError:
            # Others became suspected meanwhile.
            self._waiting = [entry for entry in self._waiting if entry[1] is not future]

    def stop(self) -> None:
        """Hold nothing any longer."""
        for broker_id in list(self.ids):
            self.clear(broker_id)
