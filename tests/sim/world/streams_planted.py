"""Defects of streams groups (KIP-1071) that worlds of the profiles `streams` and `cluster-streams` have to find. They
are those of streams_defects and modern_defects that the brokers show to their clients.
"""

from __future__ import annotations

from typing import Any

from tests.sim import modern_defects, streams_defects
from tests.sim.world.plan import CLUSTER_STREAMS
from tests.sim.world.planted import Planted

STREAMS = "streams"
# So many seeds from the first one on find a defect.
SEEDS = 30


def _planted(plant: Any, first: int = 0, profile: str = STREAMS) -> tuple[str, Planted]:
    return f"threads: {plant.__name__}", Planted(plant, SEEDS, first, profile)


STREAMS_PLANTED: dict[str, Planted] = dict(
    [
        _planted(streams_defects.revoked_tasks_are_free),
        _planted(streams_defects.copies_do_not_count),
        _planted(streams_defects.members_that_join_again_are_refused),
        _planted(modern_defects.commits_need_the_newest_epoch),
        _planted(modern_defects.silent_members_stay),
        _planted(modern_defects.slow_members_stay),
        _planted(streams_defects.loaded_members_have_no_session, 0, CLUSTER_STREAMS),
        _planted(streams_defects.leaving_begins_no_epoch),
        _planted(modern_defects.changed_topics_are_not_noticed),
        _planted(streams_defects.unreleased_members_wait),
        _planted(streams_defects.tasks_are_taken_at_once),
        _planted(streams_defects.assignments_are_not_persisted, 0, CLUSTER_STREAMS),
    ]
)
