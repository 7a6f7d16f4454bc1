"""Defects of brokers with several disks that worlds of the profile `cluster-jbod` have to find: those of jbod_defects
that they reach (docs/simulation.md says why not the others), and some that only a whole cluster has.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.controller.rules import directory_of
from broker_cy.partitions import lost_logs
from tests.sim import jbod_defects
from tests.sim.world.cluster_planted import dead_disks_are_not_noticed
from tests.sim.world.plan import CLUSTER_JBOD
from tests.sim.world.planted import Planted

# So many seeds from the first one on find a defect.
SEEDS = 30


def replaced_disks_stay_empty(patch: pytest.MonkeyPatch) -> None:
    """The replicas of a disk that was replaced by an empty one get no log again."""
    right = lost_logs.reason

    def reason(part: Any, node_id: int, directories: Any, *, is_start: bool) -> str | None:
        named = directory_of(part, node_id)
        if named in {each.directory_id for each in directories} | lost_logs._UNKNOWN:
            return right(part, node_id, directories, is_start=is_start)
        return f"its log was in {named}"

    patch.setattr(lost_logs, "reason", reason)


def _planted(plant: Any, first: int = 0) -> tuple[str, Planted]:
    return f"several disks: {plant.__name__}", Planted(plant, SEEDS, first, CLUSTER_JBOD)


JBOD_PLANTED: dict[str, Planted] = dict(
    [
        _planted(dead_disks_are_not_noticed, 30),
        _planted(replaced_disks_stay_empty),
        _planted(jbod_defects.failed_disks_are_written_to_first),
        _planted(jbod_defects.copies_are_swapped_as_they_are),
        _planted(jbod_defects.elections_fence_copies),
        _planted(jbod_defects.rounds_of_a_former_disk_count),
    ]
)
