"""Seeded runs of the group coordinator on a partition of the broker; see tests/sim/group_world.py.

A failure prints the seed, and GROUP_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.group_defects import RARE
from tests.sim.group_world import World
from tests.sim.real_partitions import new_directory
from tests.sim.seeds import repeatable
from tests.support.tiers import by_tier

STEPS = 3_000
SEEDS = [int(os.environ["GROUP_SIM_SEED"])] if "GROUP_SIM_SEED" in os.environ else list(range(1, by_tier(3, 5)))


def run(seed: int, steps: int = STEPS) -> World:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    with new_directory() as root:
        world = World(seed, root)
        where = "the start"
        test = "test_group_simulation.py -k come_and_go"
        try:
            with repeatable("GROUP_SIM_SEED", seed, test, lambda: where):
                for number in range(steps):
                    where = f"step {number}"
                    world.step()
        finally:
            world.store.close()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_members_come_and_go_and_nothing_acknowledged_is_lost(seed: int) -> None:
    """If this fails, consumers hang in a rebalance, two of them read one partition, or an offset goes back."""
    world = run(seed)
    assert len(world.leaders) > 10, "the run was idle"
    assert len(world.delivered) > 10, "the run was idle"
    assert world.moves > 10 or not world.move_weight, "the coordinator stayed where it was"


# The world (tests/sim/world) finds the others.
@pytest.mark.parametrize("plant", RARE)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the coordinator has this defect."""
    must_find(plant, run, monkeypatch, key=f"group: {plant.__name__}")
