"""Seeded runs of consumer groups on a partition of the broker; see tests/sim/consumer_world.py.

A failure prints the seed, and CONSUMER_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from broker_cy.coordinator.modern import assigning, journal
from tests.sim.consumer_defects import DEFECTS
from tests.sim.consumer_world import ConsumerWorld
from tests.sim.defects import Planter, must_find
from tests.sim.real_partitions import new_directory
from tests.sim.seeds import repeatable
from tests.support.tiers import by_tier

STEPS = 1_000
SEEDS = [int(os.environ["CONSUMER_SIM_SEED"])] if "CONSUMER_SIM_SEED" in os.environ else list(range(1, by_tier(3, 5)))

# In every fourth world, from 3 on, each group is assigned in the background.
PARTS_SEED = 3


def run(seed: int, steps: int = STEPS) -> ConsumerWorld:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    with new_directory() as root:
        world = ConsumerWorld(seed, root)
        where = "the start"
        test = "test_consumer_simulation.py -k come_and_go"
        try:
            with repeatable("CONSUMER_SIM_SEED", seed, test, lambda: where):
                for number in range(steps):
                    where = f"step {number}"
                    world.step()
        finally:
            world.store.close()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_members_come_and_go_and_no_partition_has_two_readers(seed: int) -> None:
    """If this fails, two consumers read one partition, one of them reads nothing, or an offset goes back."""
    world = run(seed)
    assert world.assignments > 50, "the run was idle"
    assert world.settled > 2, "the run was idle"
    assert world.moves > 3 or not world.move_weight, "the coordinator stayed where it was"


def test_targets_that_are_appended_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a partition of a group with thousands of members has two owners or none: requests come between
    the parts of its targets, and some of the parts are lost.
    """
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    monkeypatch.setattr(assigning, "TOPICS_PER_TURN", 1)
    monkeypatch.setattr(journal, "MOVES_PER_TURN", 0)
    assert run(PARTS_SEED).settled > 5, "the run was idle"


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although consumer groups have this defect."""
    must_find(plant, run, monkeypatch, key=f"consumer: {plant.__name__}")
