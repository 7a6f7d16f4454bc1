"""Watches the brokers of the cluster by a connection to each: a process that is killed closes its sockets at once, long
before its session ends.

Every node has one idle connection to each unfenced broker. When it ends, the broker is suspected (metadata.suspects),
and is connected again at once:

    accepted, and stays   the process is there: suspect nobody
    refused               on all of its listeners, twice: no process listens where this incarnation listened; it is dead
    anything else         decides nothing: a network that loses packets, or a host that does not answer

A process that is ending closes its connections before its listeners, and may accept others in between: only a
connection that stays for a moment says that it is there.

Only certainty fences: a timeout never does, so that a broker that stands still, or that cannot be reached, is left to
its session. A refusal is certain only where no other host can have answered it, so it counts only for a broker whose
last connection had this host at both ends; for others, two hosts would have to agree. A broker that this node was never
connected to is not dead, because it may be that nobody can reach it there.

What is known to be dead is kept until the registration changes, for a node that becomes the active controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from broker_cy.client.address import Address
from broker_cy.client.connection import Connection, ConnectionFailed, ConnectionRefused, TimedOut, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.core.logs import facts

if TYPE_CHECKING:
    from broker_cy.metadata.image import BrokerImage, ImageDelta, MetadataImage

LOGGER = logging.getLogger("broker_cy.server.metadata")

# Of one attempt to connect.
CONNECT_S: Final = 2.0
# Between attempts that decided nothing, and the longest pause after connections that lasted shorter than that.
RETRY_S: Final = 1.0
# Between the two refusals of a verdict, and how long a connection has to last so that it is one.
AGAIN_S: Final = 0.02
# After so many short connections the pause does not grow.
SHORT_MAX: Final = 6


class BrokerWatch:
    """`apply` follows the registrations; `dead` has the epoch of each broker that is certainly dead.

    There is one task and one connection for each broker of the cluster.
    """

    def __init__(
        self,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        listener: str,
        on_suspect: Callable[[int], None],
        on_clear: Callable[[int], None],
        on_dead: Callable[[Mapping[int, int]], None],
    ) -> None:
        """`listener` is the name of the inter-broker listener. `on_suspect(broker_id)`: it is probably gone;
        `on_clear(broker_id)`: it is not; `on_dead(epochs)`: these brokers, by id, are gone.
        """
        self.dead: dict[int, int] = {}
        self._node_id = node_id
        self._loop = loop
        self._listener = listener
        self._on_suspect = on_suspect
        self._on_clear = on_clear
        self._on_dead = on_dead
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by broker, with its epoch

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced or broker_id == self._node_id:
                self.dead.pop(broker_id, None)
                self._forget(broker_id)
                continue
            watched = self._tasks.get(broker_id)
            if watched is None or watched[0] != broker.epoch:
                self.dead.pop(broker_id, None)
                self._forget(broker_id)
                task = self._loop.create_task(self._watch(broker))
                self._tasks[broker_id] = (broker.epoch, task)

    async def stop(self) -> None:
        """Watch nobody any longer."""
        tasks = [task for _, task in self._tasks.values()]
        for broker_id in list(self._tasks):
            self._forget(broker_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, broker_id: int) -> None:
        watched = self._tasks.pop(broker_id, None)
        if watched is not None:
            watched[1].cancel()

    async def _watch(self, broker: BrokerImage) -> None:
        """Watch one incarnation of a broker until it is dead."""
        own = broker.listeners.get(self._listener)
        if own is None:
            return
        addresses = [Address(each.host, each.port) for each in broker.listeners.values()]
        was_here = False
        short = 0  # connections that ended soon, one after the other
        while True:
            connection = await self._connect(Address(own.host, own.port))
            if connection is None:
                if was_here and await self._refuses(addresses):
                    break
                await asyncio.sleep(RETRY_S)
                continue
            was_here = connection.is_local
            lasted_s = await self._follow(broker.broker_id, connection)
            short = 0 if lasted_s >= RETRY_S else min(short + 1, SHORT_MAX)
            if short:
                await asyncio.sleep(min(AGAIN_S * 2**short, RETRY_S))
        LOGGER.warning("a broker is gone: its port refuses connections", extra=facts(broker=broker.broker_id))
        self.dead[broker.broker_id] = broker.epoch
        self._on_dead({broker.broker_id: broker.epoch})

    async def _follow(self, broker_id: int, connection: Connection) -> float:
        """Wait for the end of the connection; returns how long it lasted, in seconds."""
        began = self._loop.time()
        try:
            await connection.ended(AGAIN_S)
            stayed = connection.closed is None
            if stayed:
                self._on_clear(broker_id)
                await connection.ended()
                self._on_suspect(broker_id)
        finally:
            connection.close()
        return self._loop.time() - began

    async def _connect(self, address: Address) -> Connection | None:
        try:
            return await open_connection(address, f"broker-cy-{self._node_id}-watch", Deadline(CONNECT_S))
        except (ConnectionFailed, TimedOut):
            return None

    async def _refuses(self, addresses: Sequence[Address]) -> bool:
        """Whether all addresses refuse connections, twice."""
        for attempt in range(2):
            if attempt:
                await asyncio.sleep(AGAIN_S)
            for address in addresses:
                try:
                    connection = await open_connection(address, f"broker-cy-{self._node_id}-watch", Deadline(CONNECT_S))
                except ConnectionRefused:
                    continue
                except (ConnectionFailed, TimedOut):
                    return False
                connection.close()
                return False
        return True
