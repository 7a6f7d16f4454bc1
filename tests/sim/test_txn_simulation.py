"""Seeded runs of the transaction coordinator on partitions of the broker; see tests/sim/txn_world.py.

A failure prints the seed, and TXN_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import SEEDS as SEEDS_MAX
from tests.sim.defects import Planter, must_find
from tests.sim.real_partitions import new_directory
from tests.sim.seeds import repeatable
from tests.sim.txn_defects import RARE
from tests.sim.txn_world import World
from tests.support.tiers import by_tier

# 40,000 steps over all seeds of `make test-all`. After each step, the state is compared with what a restart would find.
STEPS = 4_000
SEEDS = [int(os.environ["TXN_SIM_SEED"])] if "TXN_SIM_SEED" in os.environ else list(range(1, by_tier(6, 11)))

# Defects that more seeds are needed for: markers must arrive after two moves and the begin of another transaction.
LATE = {"markers_of_an_old_coordinator_are_accepted": 12}


def run(seed: int, steps: int = STEPS) -> World:
    """Run one seed. Raises AssertionError, with the seed and the step, if an invariant is violated."""
    with new_directory() as root:
        world = World(seed, root)
        where = "the start"
        try:
            with repeatable("TXN_SIM_SEED", seed, "test_txn_simulation.py -k one_way", lambda: where):
                for number in range(steps):
                    where = f"step {number}"
                    world.step()
                where = "the end"
                world.finish()
        finally:
            world.store.close()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_end_in_one_way_whatever_happens(seed: int) -> None:
    """If this fails, a transaction has two ends, or none, or two producers share one."""
    world = run(seed)
    print(f"{STEPS} steps, {len(world.harness.log)} records, {world.crashes} crashes")
    assert len(world.decisions) > 20, "the run was idle"
    assert world.moves > 20, "the coordinator stayed where it was"
    assert set(world.decisions.values()) == {True, False}, "the run was idle"


# The world (tests/sim/world) finds the others.
@pytest.mark.parametrize("plant", RARE)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the coordinator has this defect."""
    must_find(plant, run, monkeypatch, LATE.get(plant.__name__, SEEDS_MAX), key=f"txn: {plant.__name__}")
