"""The writes of the states of one share partition, in order: one is under way, and those that wait share the next one.

The order matters: a write has the start offset, and one that arrives after a later one would move it back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from broker_cy.coordinator.share_state.state import SharePartitionKey, StateBatch
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.share import acknowledging
from broker_cy.share.state_write import client_error

if TYPE_CHECKING:
    from broker_cy.coordinator.share_state.answers import Outcome
    from broker_cy.coordinator_services.share_persister import SharePersister
    from broker_cy.share.share_partition import SharePartition
    from broker_cy.share.share_partitions import ShareKey
    from broker_cy.share.state_write import StateWrite

Done = Callable[[KafkaError | None], None]


class _Entry(NamedTuple):
    partition: SharePartition
    write: StateWrite
    done: Done | None


class StateWrites:
    """`ended(key, partition, error, wakes)` is called at the end of each write, before those that wait for it: `wakes`
    is whether fetches that wait should look again.

    The number of waiting writes is bounded: a request of a client waits for its own write, and a record has one lock.
    """

    def __init__(
        self,
        key: ShareKey,
        persister: SharePersister,
        ended: Callable[[ShareKey, SharePartition, KafkaError | None, bool], None],
    ) -> None:
        self._key = key
        self._persister = persister
        self._ended = ended
        self._waiting: deque[_Entry] = deque()
        self._sent: list[_Entry] = []
        self._idle: list[asyncio.Future[None]] = []

    @property
    def is_idle(self) -> bool:
        return not self._sent and not self._waiting

    def add(self, partition: SharePartition, write: StateWrite, done: Done | None = None) -> None:
        """Write, and call `done(error)` at the end."""
        self._waiting.append(_Entry(partition, write, done))
        if not self._sent:
            self._send()

    async def drained(self) -> None:
        """Return once no write is under way."""
        while not self.is_idle:
            future = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def _send(self) -> None:
        self._sent = _together(self._waiting)
        last = self._sent[-1].write
        batches = [StateBatch(*batch) for entry in self._sent for batch in entry.write.batches]
        self._persister.write(
            SharePartitionKey(self._key.group_id, *self._key.topic),
            last.state_epoch,
            last.leader_epoch,
            last.start_offset,
            last.delivery_complete_count,
            sorted(batches),
        ).add_done_callback(self._answered)

    def _answered(self, future: asyncio.Future[Outcome]) -> None:
        outcome = future.result()
        error = None
        if outcome.code is not ErrorCode.NONE:
            error = KafkaError(client_error(outcome.code), outcome.message or "")
        sent, self._sent = self._sent, []
        end = acknowledging.written if error is None else acknowledging.failed
        for entry in sent:
            self._ended(self._key, entry.partition, error, end(entry.partition, entry.write))
        for entry in sent:
            if entry.done is not None:
                entry.done(error)
        if self._waiting and not self._sent:
            self._send()
        if self.is_idle:
            idle, self._idle = self._idle, []
            for waiting in idle:
                # Those that wait may have been cancelled.
                if not waiting.done():
                    waiting.set_result(None)


def _together(waiting: deque[_Entry]) -> list[_Entry]:
    """Take the first writes that fit into one: of one leadership, and without a record twice."""
    taken = [waiting.popleft()]
    spans = [batch[:2] for batch in taken[0].write.batches]
    while waiting and waiting[0].partition is taken[0].partition:
        more = [batch[:2] for batch in waiting[0].write.batches]
        merged = sorted(spans + more)
        if any(after[0] <= before[1] for before, after in pairwise(merged)):
            break
        spans = merged
        taken.append(waiting.popleft())
    return taken


def settled(future: asyncio.Future[KafkaError | None]) -> Done:
    """A `done` that completes a future, which may have been cancelled."""
    return partial(_settle, future)


def _settle(future: asyncio.Future[KafkaError | None], error: KafkaError | None) -> None:
    if not future.done():
        future.set_result(error)
