"""The records that members of share groups hold when another broker becomes the leader, as events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, Event, HeldRecords, ShareLeaderChanged
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey

# The state of records that a member holds.
ACQUIRED: Final = 1


def held_records(share: SharePartition) -> int:
    """The number of records of a share partition that members hold. A state that is being persisted counts as it is to
    be.
    """
    return sum(last - first + 1 for first, last, state, _, _, _, _ in share.in_flight() if state == ACQUIRED)


class LeaderChanges:
    """Notes changes of one turn of the loop, and reports one event for each group: a broker that shuts down gives up
    thousands of partitions at once. Bounded by the share partitions of the broker.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.on_event: Callable[[Event], None] = lambda _: None
        self._loop = loop
        self._noted: dict[str, list[HeldRecords]] = {}

    def note(self, key: ShareKey, topic: str, records: int, leader: int) -> None:
        """A share partition is dropped while members hold `records` of it; `leader` serves it next."""
        if not self._noted:
            self._loop.call_soon(self._report)
        self._noted.setdefault(key.group_id, []).append(HeldRecords(topic, key.topic.partition, records, leader))

    def _report(self) -> None:
        noted, self._noted = self._noted, {}
        for group_id, held in noted.items():
            held.sort(key=lambda each: (each.topic, each.partition))
            self.on_event(
                ShareLeaderChanged(
                    group_id, sum(each.records for each in held), held[:PARTITIONS_REPORTED_MAX], len(held)
                )
            )
