"""Seeded runs of a share group on one partition; see tests/sim/share_world.py.

A failure prints the seed, and SHARE_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.seeds import repeatable
from tests.sim.share_defects import DEFECTS
from tests.sim.share_world import World
from tests.support.tiers import by_tier

STEPS = 400
# Some defects need a change of the leader at one of a few moments.
DEFECT_SEEDS = 60
SEEDS = [int(os.environ["SHARE_SIM_SEED"])] if "SHARE_SIM_SEED" in os.environ else list(range(1, by_tier(7, 201)))


def run(seed: int, steps: int = STEPS) -> World:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    world = World(seed)
    where = "the start"
    with repeatable("SHARE_SIM_SEED", seed, "test_share_simulation.py -k settled", lambda: where):
        for number in range(steps):
            where = f"step {number}"
            world.step()
        where = "the end"
        world.drain()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_settled_once_and_none_is_passed(seed: int) -> None:
    """If this fails, a share group loses records, gets settled ones again, or waits for ever."""
    counts = run(seed).counts
    assert min(counts.values()) > 1, f"the run was idle: {counts}"


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although share partitions have this defect."""
    must_find(plant, run, monkeypatch, DEFECT_SEEDS, key=f"share: {plant.__name__}")
