"""Seeded runs of the share service of one broker; see tests/sim/share_service_world.py.

A failure prints the seed, and SHARE_SERVICE_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.real_partitions import new_directory
from tests.sim.seeds import repeatable
from tests.sim.share_service_defects import DEFECTS
from tests.sim.share_service_world import World
from tests.support.tiers import by_tier

STEPS = 600
# Some defects need a failure at one of a few moments.
DEFECT_SEEDS = 60
NAME = "SHARE_SERVICE_SIM_SEED"
SEEDS = [int(os.environ[NAME])] if NAME in os.environ else list(range(1, by_tier(7, 151)))


def run(seed: int, steps: int = STEPS) -> World:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    where = "the start"
    with new_directory() as root:
        world = World(seed, root)
        try:
            with repeatable(NAME, seed, "test_share_service_simulation.py -k settled", lambda: where):
                for number in range(steps):
                    where = f"step {number}"
                    world.step()
                where = "the end"
                world.drain()
        finally:
            world.close()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_settled_once_and_none_is_passed(seed: int) -> None:
    """If this fails, a share group loses records, gets settled ones again, or waits for ever."""
    counts = run(seed).counts
    assert min(counts["delivered"], counts["moves"]) > 1, f"the run was idle: {counts}"


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the share service has this defect."""
    must_find(plant, run, monkeypatch, DEFECT_SEEDS, key=f"share service: {plant.__name__}")
