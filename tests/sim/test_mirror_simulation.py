"""Seeded runs of a partition that mirrors one of another cluster; see tests/sim/mirror_world.py.

A failure prints the seed and its last steps, and MIRROR_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.mirror_defects import DEFECTS
from tests.sim.mirror_world import MirrorWorld
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

STEPS = 3_000
PARTS = 2
PART_SEEDS = by_tier(10, 50)
SOAK_SEEDS = 10_000
ONE_SEED = os.environ.get("MIRROR_SIM_SEED")
SEEDS = parts_of(ONE_SEED, PARTS, PART_SEEDS)


def run(seed: int) -> MirrorWorld:
    """Run one seed. Raises AssertionError, with the seed and the last steps, if an invariant is violated."""
    world = MirrorWorld(seed)
    with repeatable(
        "MIRROR_SIM_SEED", seed, "test_mirror_simulation.py -k equal", lambda: f"{world.story()}\n{world!r}"
    ):
        world.run(STEPS)
    return world


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_mirrors_are_equal_whatever_happens(seeds: range) -> None:
    """If this fails, a mirror lacks records, has other ones than its source, or loses its own after a promotion."""
    worlds = [run(seed) for seed in seeds]
    counts = {
        "ends": sum(world.ends for world in worlds),
        "raises": sum(world.raises for world in worlds),
        "cuts": sum(world.cuts for world in worlds),
        "copied": sum(world.copied for world in worlds),
        "losses": sum(world.source.losses for world in worlds),
    }
    print(f"{len(worlds)} seeds: {counts}")
    if ONE_SEED is None:
        assert counts["ends"] > len(worlds), "the runs were idle"
        assert counts["raises"] > len(worlds), "the runs were idle"
        assert counts["cuts"] > 0, "no mirror was truncated"
        assert counts["copied"] > 20 * len(worlds), "the runs were idle"
        assert counts["losses"] > 0, "the source lost nothing"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_mirrors_are_equal_in_many_worlds() -> None:
    """The same, for rare sequences of faults."""
    for seed in range(10_000, 10_000 + SOAK_SEEDS):
        run(seed)


def test_a_seed_repeats_itself() -> None:
    """If this fails, a failure of the simulation could not be examined."""
    assert run(3).story() == run(3).story()


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in DEFECTS])
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although mirrors have this defect."""
    must_find(plant, run, monkeypatch, DEFECTS[plant], key=f"mirror: {plant.__name__}")
