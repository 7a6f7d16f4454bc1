"""Samples committed offsets with the time of the record at each, which makes a group's time lag exact.

The group coordinator reports commits, and the leader of a partition the progress of a share group; each of their
partitions gets at most one sample every PERIOD_S. Looking up a record's time reads its batch; LOOKUPS_MAX bounds the
lookups, and the rest waits for the next period. If more than NOTED_MAX partitions wait, some get no sample.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from broker_cy.core.supervision import keep_running
from broker_cy.metrics.events import Commits, Committed
from broker_cy.storage.cold_lookup import look_up
from broker_cy.storage.errors import StorageError
from broker_cy.storage.lookups import timestamp_at

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.coordinator.group_machine import GroupMachine
    from broker_cy.coordinator.step import Place
    from broker_cy.replica.partition import Partition
    from broker_cy.share.share_partitions import ShareKey

LOGGER = logging.getLogger("broker_cy.server.commits")

PERIOD_S = 1.0
LOOKUPS_MAX = 1_000
NOTED_MAX = 100_000
# Lookups per turn of the loop; in memory, each takes a few microseconds.
LOOKUPS_PER_TURN = 20
NO_RECORD = -1


class CommitSampler:
    """Runs from `start` to `stop`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        # Commits without a sample, the oldest first.
        self._due: dict[Place, GroupMachine] = {}
        # Share partitions without a sample, the oldest first, with the time of their last progress.
        self._due_shares: dict[ShareKey, int] = {}

    def note(self, machine: GroupMachine, places: Sequence[Place]) -> None:
        """Other offsets were committed at `places`."""
        for place in places:
            if len(self._due) < NOTED_MAX or place in self._due:
                self._due[place] = machine

    def note_share(self, key: ShareKey) -> None:
        """A share partition was loaded, or its state was persisted."""
        if len(self._due_shares) < NOTED_MAX or key in self._due_shares:
            self._due_shares[key] = self._broker.clock.wall_ms()

    def start(self) -> None:
        self._task = keep_running(self._broker.loop, self._run, "samples of commits")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            if self._broker.config["brokercy.events.enable"]:
                try:
                    await self.sample()
                except (StorageError, OSError) as error:
                    LOGGER.warning("could not sample commits", exc_info=error)

    async def sample(self) -> None:
        """Report the commits and share partitions that were noted, the oldest LOOKUPS_MAX of each."""
        due = list(islice(self._due.items(), LOOKUPS_MAX))
        for key, _ in due:
            del self._due[key]
        sampled: dict[str, list[Committed]] = {}
        for count, (key, machine) in enumerate(due):
            found = await self._look_at(machine, *key)
            if found is not None:
                sampled.setdefault(key[0], []).append(found)
            if count % LOOKUPS_PER_TURN == LOOKUPS_PER_TURN - 1:
                await asyncio.sleep(0)
        shares = list(islice(self._due_shares.items(), LOOKUPS_MAX))
        for share_key, _ in shares:
            del self._due_shares[share_key]
        for count, (share_key, progress_ms) in enumerate(shares):
            found = await self._look_at_share(share_key, progress_ms)
            if found is not None:
                sampled.setdefault(share_key.group_id, []).append(found)
            if count % LOOKUPS_PER_TURN == LOOKUPS_PER_TURN - 1:
                await asyncio.sleep(0)
        for group, offsets in sampled.items():
            self._broker.events.note(Commits(group, offsets))

    async def _look_at(self, machine: GroupMachine, group: str, topic: str, index: int) -> Committed | None:
        """The current offset; None if it, the partition or its log no longer exists."""
        partition = self._broker.partitions.get(topic, index)
        await self._broker.openings.opened([partition])
        committed = machine.offsets.get(group, topic, index)
        if committed is None or partition is None or partition.offline is not None:
            return None
        offset = committed.committed_offset
        time_ms, end = await self._record_time(partition, offset)
        return Committed(topic, index, offset, committed.commit_timestamp_ms, time_ms, end)

    async def _look_at_share(self, key: ShareKey, progress_ms: int) -> Committed | None:
        """The current start offset; None if this broker no longer serves the share partition."""
        service = self._broker.share
        share, topic = service.table.get(key), service.topic_name(key.topic)
        partition = None if topic is None else self._broker.partitions.get(topic, key.topic.partition)
        if share is None or not share.is_active or topic is None or partition is None or partition.offline is not None:
            return None
        offset, completed = share.start_offset, share.delivery_complete_count
        time_ms, end = await self._record_time(partition, offset)
        return Committed(topic, key.topic.partition, offset, progress_ms, time_ms, end, completed)

    async def _record_time(self, partition: Partition, offset: int) -> tuple[int, int]:
        """The timestamp of the record at an offset, or NO_RECORD, and the high watermark."""
        end = partition.high_watermark
        found = None
        if offset < end:
            found = await look_up(self._broker, timestamp_at, partition.log, offset)
        return NO_RECORD if found is None or found[1] >= end else found[0], end
