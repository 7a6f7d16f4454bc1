"""Seeded runs of several instances of the registry on one topic; see tests/sim/registry_world.py.

A failure prints the seed, and REGISTRY_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.registry_defects import DEFECTS
from tests.sim.registry_world import World
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

DEFECT_SEEDS = 60
PARTS = 4
SEEDS = parts_of(os.environ.get("REGISTRY_SIM_SEED"), PARTS, by_tier(10, 250))


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError, with the seed, if an invariant is violated."""
    world = World(seed)
    with repeatable("REGISTRY_SIM_SEED", seed, "test_registry_simulation.py -k writers", lambda: str(world.counts)):
        world.run()
    return world


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_writers_give_each_id_once_and_lose_nothing(seeds: range) -> None:
    """If this fails, an id means two schemas, a version changes, or a schema that was confirmed is gone."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run(seed).counts
    if len(seeds) > 1:
        assert min(counts[name] for name in ("registered", "found", "deleted", "kills", "lost")) > len(seeds), counts


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the writer has this defect."""
    must_find(plant, run, monkeypatch, DEFECT_SEEDS, key=f"registry: {plant.__name__}")
