"""Seeded runs of the share coordinator on a partition of the broker; see tests/sim/share_state_world.py.

A failure prints the seed, and SHARE_STATE_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.real_partitions import new_directory
from tests.sim.seeds import repeatable
from tests.sim.share_state_defects import DEFECTS
from tests.sim.share_state_world import World

STEPS = 1_500
SEEDS = [int(os.environ["SHARE_STATE_SIM_SEED"])] if "SHARE_STATE_SIM_SEED" in os.environ else list(range(1, 5))


def run(seed: int, steps: int = STEPS) -> World:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    with new_directory() as root:
        world = World(seed, root)
        where = "the start"
        test = "test_share_state_simulation.py -k leaders_and_coordinators"
        try:
            with repeatable("SHARE_STATE_SIM_SEED", seed, test, lambda: where):
                for number in range(steps):
                    where = f"step {number}"
                    world.step()
        finally:
            world.store.close()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_leaders_and_coordinators_move_and_no_acknowledged_state_is_lost(seed: int) -> None:
    """If this fails, a share group gets records again that it has acknowledged, or two leaders change its state."""
    world = run(seed)
    assert world.writes > 100, "the run was idle"
    assert world.refusals > 10, "no leader was replaced"
    assert world.moves > 5, "the coordinator stayed where it was"
    assert world.cuts > 5, "the log was never cut"


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the coordinator has this defect."""
    must_find(plant, run, monkeypatch, key=f"share state: {plant.__name__}")
