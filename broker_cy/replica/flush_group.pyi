import asyncio
from collections.abc import Callable

from broker_cy.core.clock import Clock
from broker_cy.replica.group_commit import GroupCommit
from broker_cy.replica.partition import Partition
from broker_cy.replica.replica import Replica
from broker_cy.storage.log import Log

class FlushGroup:
    """Partitions with staged batches, written together once per loop turn."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    staged_bytes: int
    flushes: int
    verifies: bool
    selects_replicas: bool
    commit: GroupCommit
    on_alter: Callable[[Partition], None] | None

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None: ...
    def flush(self) -> int: ...
    def before_ticks(self) -> None: ...

class FlushedPartition:
    """The part of a partition that a FlushGroup writes: its log, its replica, and the waiters for either."""

    topic: str
    index: int
    log: Log
    replica: Replica
    closed: bool
    on_written: Callable[[Partition], None] | None
