"""Creating the logs of topics with many partitions, some in each turn of the loop.

A log takes a millisecond or more, most of it in the file system. A broker that created thousands in one turn would send
no answer for seconds: other brokers would suspect that it stands still, and clients would wait for it. Until its log is
created, a partition counts as not open yet, and requests wait for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker_cy.replica.partition import Partition

# Logs that are created in one turn.
AT_ONCE: Final = 50


class Creations:
    """Calls `create` for each unopened partition that was added, in order, unless it was deleted meanwhile.
    `on_waiting` is called when partitions begin to wait, and when none is left.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        create: Callable[[Partition], None],
        on_waiting: Callable[[bool], None],
    ) -> None:
        self._loop = loop
        self._create = create
        self._on_waiting = on_waiting
        self._waiting: deque[Partition] = deque()

    def add(self, partition: Partition) -> None:
        """Have the log created in one of the next turns."""
        if not self._waiting:
            self._on_waiting(True)
            self._loop.call_soon(self._create_some)
        self._waiting.append(partition)

    def _create_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            partition = self._waiting.popleft()
            if partition.unopened and not partition.closed:
                self._create(partition)
        if self._waiting:
            self._loop.call_soon(self._create_some)
        else:
            self._on_waiting(False)
