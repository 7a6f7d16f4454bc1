"""Defects of consumer groups (KIP-848) that worlds of the profiles `consumers` and `cluster-consumers` have to find.
Most are those of consumer_defects and modern_defects: the broker shows them to its clients.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.consumer import downgrade
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from tests.sim import consumer_defects, modern_defects
from tests.sim.world.plan import CLUSTER_CONSUMERS
from tests.sim.world.planted import Planted

CONSUMERS = "consumers"
# So many seeds from the first one on find a defect.
SEEDS = 30


def groups_that_go_back_hold_nothing(patch: pytest.MonkeyPatch) -> None:
    """When a group becomes a classic one, the partitions of its members are given to the next consumer that joins,
    while they are still read.
    """
    patch.setattr(downgrade, "united", lambda parts: {})


def sessions_end_with_a_move(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that was loaded drops the members that it knows from its log."""
    right = HookedConsumerGroup.loaded

    def wrong(self: HookedConsumerGroup, machine: Any, step: Any, now: Any) -> None:
        right(self, machine, step, now._replace(mono_ms=now.mono_ms - 10_000_000))

    patch.setattr(HookedConsumerGroup, "loaded", wrong)


def _planted(plant: Any, first: int = 0, profile: str = CONSUMERS, seeds: int = SEEDS) -> tuple[str, Planted]:
    return plant.__name__, Planted(plant, seeds, first, profile)


CONSUMER_PLANTED: dict[str, Planted] = dict(
    [
        _planted(consumer_defects.revoked_partitions_are_free),
        _planted(consumer_defects.members_that_join_again_are_fenced),
        _planted(consumer_defects.static_members_are_fenced_by_themselves, 160),
        _planted(modern_defects.commits_need_the_newest_epoch),
        _planted(modern_defects.stale_members_commit),
        _planted(consumer_defects.fenced_members_commit),
        _planted(modern_defects.silent_members_stay),
        _planted(consumer_defects.partitions_are_taken_at_once),
        _planted(modern_defects.answers_are_sent_before_the_write),
        _planted(groups_that_go_back_hold_nothing, 90),
        _planted(sessions_end_with_a_move, 0, CLUSTER_CONSUMERS),
    ]
)
