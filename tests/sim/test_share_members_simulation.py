"""Seeded runs of share groups on a partition of the broker; see tests/sim/share_members_world.py.

A failure prints the seed, and SHARE_MEMBERS_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.share import initialization
from tests.sim.defects import SEEDS as SEEDS_MAX
from tests.sim.defects import Planter, must_find
from tests.sim.real_partitions import new_directory
from tests.sim.seeds import repeatable
from tests.sim.share_members_defects import DEFECTS, SEEDS_OF
from tests.sim.share_members_world import ShareMembersWorld
from tests.support.tiers import by_tier

STEPS = 1_000
# Its groups are assigned in the background.
PARTS_SEED = 7
NAME = "SHARE_MEMBERS_SIM_SEED"
SEEDS = [int(os.environ[NAME])] if NAME in os.environ else list(range(1, by_tier(3, 5)))


def run(seed: int, steps: int = STEPS) -> ShareMembersWorld:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    with new_directory() as root:
        world = ShareMembersWorld(seed, root)
        where = "the start"
        test = "test_share_members_simulation.py -k come_and_go"
        try:
            with repeatable(NAME, seed, test, lambda: where):
                for number in range(steps):
                    where = f"step {number}"
                    world.step()
        finally:
            world.store.close()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_members_come_and_go_and_every_partition_is_read(seed: int) -> None:
    """If this fails, share consumers do not read a partition, or what they have consumed is forgotten."""
    world = run(seed)
    assert world.assignments > 50, "the run was idle"
    assert world.settled > 5, "the run was idle"
    assert world.altered > 2, "no offset was altered"
    assert world.moves > 3 or not world.move_weight, "the coordinator stayed where it was"


def test_assignments_and_initializations_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, partitions of a group with 10,000 of them are read before they have state, or not at all: requests
    come between the parts of its targets, and some of the parts are lost.
    """
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    monkeypatch.setattr(assigning, "TOPICS_PER_TURN", 1)
    monkeypatch.setattr(initialization, "ASKED_PER_CALL", 2)
    assert run(PARTS_SEED).settled > 5, "the run was idle"


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although share groups have this defect."""
    must_find(plant, run, monkeypatch, SEEDS_OF.get(plant, SEEDS_MAX), key=f"share members: {plant.__name__}")
