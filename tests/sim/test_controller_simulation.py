"""Seeded runs of the controller; see tests/sim/controller_world.py.

A failure prints the seed and its last steps, and CONTROLLER_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.controller_defects import DEFECTS
from tests.sim.controller_world import World
from tests.sim.defects import Planter, must_find
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

STEPS = 400
PARTS, PART_SEEDS = 4, by_tier(20, 50)
SOAK_SEEDS = 20_000
SOAK_TIMEOUT_S = 3_600
ONE_SEED = os.environ.get("CONTROLLER_SIM_SEED")
SEEDS = parts_of(ONE_SEED, PARTS, PART_SEEDS)


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError, with the seed and the last steps, if a check fails."""
    world = World(seed)
    with repeatable("CONTROLLER_SIM_SEED", seed, "test_controller_simulation.py -k any_order", world.story):
        world.run(STEPS)
    return world


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_any_order_of_requests_and_crashes(seeds: range) -> None:
    """If this fails, a partition loses acknowledged records, has a leader that is dead, or is never led again."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run(seed).counts
    print(f"{len(seeds)} seeds: {dict(counts)}")
    if ONE_SEED is None:
        wanted = {"accepted": 5, "crash": 4, "led": 120, "unclean leader": 0.1, "ended": 0.5, "cancelled": 0.4}
        wanted |= {"token": 5, "token renewed": 1, "token swept": 2}
        wanted |= {"flap": 0.5, "silence": 1, "refused": 5, "refused for good": 0.5, "replaced": 0.3}
        wanted |= {"rights": 10, "quotas": 10}
        idle = {name: counts[name] for name, least in wanted.items() if counts[name] < least * len(seeds)}
        assert not idle, f"the runs were idle: {idle}"


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_any_order_in_many_worlds() -> None:
    """The same, for rare orders."""
    for seed in range(10_000, 10_000 + SOAK_SEEDS):
        run(seed)


def test_a_seed_repeats_itself() -> None:
    """If this fails, a failure of the simulation could not be examined."""
    one, other = run(3), run(3)
    assert one.story() == other.story()
    assert one.counts == other.counts


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in DEFECTS])
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the controller has this defect."""
    must_find(plant, run, monkeypatch, DEFECTS[plant], key=f"controller: {plant.__name__}")
