"""The producer ids that this broker hands out, from blocks that the active controller allocates.

No id is handed out twice: a block belongs to one broker, and its unused ids are dropped when the broker stops. The next
block is requested early, so that no request waits for the disk while ids are left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from broker_cy.controller.producer_ids import PRODUCER_ID_RANGE_BITS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker_cy.controller.producer_ids import ProducerIdBlock

# The next block is requested when this many ids are left. Its size is the controller's: 1,000.
LOW: Final = 200


class ProducerIds:
    """`allocate` gets a block from the active controller, or raises KafkaError. `next_id` is the first id that the
    committed metadata have left; ids below the range of the cluster that it belongs to (mirror_ops) are dropped.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        allocate: Callable[[], Awaitable[ProducerIdBlock]],
        next_id: Callable[[], int] = lambda: 0,
    ) -> None:
        self._loop = loop
        self._allocate = allocate
        self._next_id = next_id
        self._left: deque[int] = deque()
        self._requested: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """A producer id that was never used before. Raises KafkaError."""
        while True:
            if len(self._left) <= LOW and self._requested is None:
                self._requested = self._loop.create_task(self._request())
                self._requested.add_done_callback(_seen)
            range_start = self._next_id() >> PRODUCER_ID_RANGE_BITS << PRODUCER_ID_RANGE_BITS
            while self._left and self._left[0] < range_start:
                self._left.popleft()
            if self._left:
                return self._left.popleft()
            assert self._requested is not None
            # Shielded: a connection that closes must not take the block from the others that wait for it.
            await asyncio.shield(self._requested)

    async def _request(self) -> None:
        try:
            block = await self._allocate()
            self._left.extend(range(block.first, block.first + block.size))
        finally:
            self._requested = None


def _seen(task: asyncio.Task[None]) -> None:
    """Mark the error as seen: the next request that finds no producer id requests another block."""
    if not task.cancelled():
        task.exception()
