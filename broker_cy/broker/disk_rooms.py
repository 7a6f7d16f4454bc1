"""The sizes of a node's disks, for requests and metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.storage.rooms import Rooms


async def measured(broker: Broker) -> Rooms:
    """The sizes, measured now; those of a disk that hangs, when it last answered. Waits rooms.WAIT_MS at most."""
    future: asyncio.Future[None] = broker.loop.create_future()

    def done() -> None:
        if not future.done():
            future.set_result(None)

    rooms = broker.log_manager.rooms
    rooms.measure(done)
    await future
    return rooms
