"""Brokers that are probably gone, while the controller decides whether they are.

The first Metadata response after a connection broke decides how long a client is without a leader: a response that
still names the dead leader costs the client seconds. So responses that name a suspected broker as a leader are held
until the verdict. The verdict is any change of the broker's registration: it was fenced, or it has registered again.
Other leaders may be elected before it is fenced: a response that no longer names it is not held.

    suspected               held for HOLD_S at most: the suspicion may be wrong
    certainly dead (gone)   held for GONE_S at most: maybe no controller is active yet

A client may notice the end of its connection before this node notices that of its own, so `verdict` waits for SETTLE_S
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from broker_cy.core.waiters import Waiters

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta, MetadataImage

# A verdict takes a round trip to the controller and a commit. A client that is held longer than that by a wrong
# suspicion would notice it.
HOLD_S: Final = 0.15
# A client that is sent to a dead leader loses a second or more. An election of controllers takes less.
GONE_S: Final = 1.0
# A process that ends closes its sockets one after the other.
SETTLE_S: Final = 0.002
# A loop that was late runs its timers before it reads its sockets; the end of a connection is known three turns later.
SETTLE_TURNS: Final = 5
# How long Departed names a broker: clients refresh their metadata once a second while a leader cannot be reached.
DEPARTED_S: Final = 5.0


class Suspects:
    """`ids` are the suspected brokers. A suspicion ends by itself, whether or not it is repeated."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ids: set[int] = set()
        self._loop = loop
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._waiters = Waiters(loop)

    def suspect(self, broker_id: int) -> None:
        """The broker is probably gone."""
        if broker_id not in self.ids:
            self.ids.add(broker_id)
            self._timers[broker_id] = self._loop.call_later(HOLD_S, self.clear, broker_id)

    def gone(self, broker_id: int) -> None:
        """The broker is certainly gone, and not fenced yet."""
        self.ids.add(broker_id)
        if (timer := self._timers.pop(broker_id, None)) is not None:
            timer.cancel()
        self._timers[broker_id] = self._loop.call_later(GONE_S, self.clear, broker_id)

    def clear(self, broker_id: int) -> None:
        """The verdict is known, or it takes too long: hold nothing because of this broker."""
        if broker_id not in self.ids:
            return
        self.ids.discard(broker_id)
        self._timers.pop(broker_id).cancel()
        self._waiters.wake(broker_id)

    def apply(self, delta: ImageDelta) -> None:
        """The committed metadata have changed."""
        for broker_id in delta.brokers:
            self.clear(broker_id)
        if delta.topics:
            for broker_id in self.ids:
                self._waiters.wake(broker_id)

    async def verdict(self, named: Callable[[], Collection[int]]) -> None:
        """Wait until none of the brokers that are `named` then is suspected, SETTLE_S + GONE_S at most."""
        await asyncio.sleep(SETTLE_S)
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)
        deadline_s = self._loop.time() + GONE_S
        # Others may be suspected, or named, meanwhile.
        while self.ids and (suspected := self.ids.intersection(named())):
            if not await self._waiters.wait(min(suspected), deadline_s - self._loop.time()):
                return

    def stop(self) -> None:
        """Hold nothing any longer."""
        for broker_id in list(self.ids):
            self.clear(broker_id)


class Departed:
    """The brokers that were fenced DEPARTED_S ago or later.

    librdkafka takes a broker that a Metadata response does not list for removed. If the same response moves the
    partitions of this broker to others, the removal overtakes the move, and they have no leader until the next refresh
    a second later. So responses for topics with replicas on such a broker still list it for a while.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._in_service: set[int] = set()
        self._until_s: dict[int, float] = {}  # by broker

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self._in_service.add(broker_id)
                self._until_s.pop(broker_id, None)
            elif broker is None or broker_id in self._in_service:
                self._in_service.discard(broker_id)
                self._until_s.pop(broker_id, None)
                if broker is not None:
                    self._until_s[broker_id] = self._loop.time() + DEPARTED_S

    @property
    def ids(self) -> frozenset[int]:
        if not self._until_s:
            return frozenset()
        now_s = self._loop.time()
        self._until_s = {each: until_s for each, until_s in self._until_s.items() if now_s < until_s}
        return frozenset(self._until_s)
