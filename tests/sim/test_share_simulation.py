"""Seeded runs of a share group on one partition; see tests/sim/share_world.py.

A failure prints the seed, and SHARE_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
from functools import cache

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


# Acts that each run has several times.
ALWAYS = ("delivered", "settled", "redelivered", "leaders")


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


@cache
def counts_of(seed: int) -> dict[str, int]:
    """The acts of a run without a planted defect, by name."""
    return run(seed).counts


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_settled_once_and_none_is_passed(seed: int) -> None:
    """If this fails, a share group loses records, gets settled ones again, or waits for ever."""
    counts = counts_of(seed)
    assert min(counts[each] for each in ALWAYS) > 1, f"the run was idle: {counts}"


def test_the_runs_wait_and_are_operated_on() -> None:
    """If this fails, no run has fetches that wait, or an operator: some seeds have few of these."""
    found = [counts_of(seed) for seed in SEEDS]
    assert min(sum(each[name] for each in found) for name in found[0].keys() - set(ALWAYS)) > len(found), found


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although share partitions have this defect."""
    must_find(plant, run, monkeypatch, DEFECT_SEEDS, key=f"share: {plant.__name__}")
