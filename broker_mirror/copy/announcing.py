"""Offset syncs outside transactions: they are written in their order, after the records are stored."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from broker_cy.admin.caller import Caller
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Producer
from broker_cy.client.errors import ClientError
from broker_cy.wire.records import Record
from broker_mirror.formats.offset_syncs import OffsetSync

SYNCS_MAX: Final = 10_000
"""Offset syncs that wait; beyond that, the oldest ones are not written."""


class Announcing:
    """Writes offset syncs into their topic. `failed` gets a sentence about those that were not written: a group that
    has an offset in their range is translated to the end of the sync before.
    """

    def __init__(self, caller: Caller, topic: str, failed: Callable[[str], None]) -> None:
        self._place = TopicPartition(topic, 0)
        self._producer = Producer(caller)
        self._failed = failed
        self._waiting: deque[OffsetSync] = deque(maxlen=SYNCS_MAX)
        self._writing = asyncio.Lock()

    def add(self, syncs: Iterable[OffsetSync]) -> bool:
        """Add syncs to those that wait; returns whether none waited, so that `write_all` is to be called."""
        is_idle = not self._waiting
        self._waiting.extend(syncs)
        return is_idle

    async def write_all(self) -> None:
        """Write the syncs that wait."""
        async with self._writing:
            while self._waiting:
                waiting = list(self._waiting)
                self._waiting.clear()
                now_ms = int(time.time() * 1000)
                try:
                    await self._producer.send_batch(self._place, [sync_record(each, now_ms) for each in waiting])
                except ClientError as error:
                    self._failed(f"offset syncs were not written: {error}")


def sync_record(sync: OffsetSync, now_ms: int) -> Record:
    return Record(timestamp=now_ms, key=sync.key(), value=sync.value(), headers=sync.headers())
