"""Seeded runs of a copy flow between two clusters; see tests/sim/mirror_copy_world.py.

A failure prints the seed, and MIRROR_COPY_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.mirror_copy_defects import DEFECTS, FILTER_DEFECTS
from tests.sim.mirror_copy_world import World
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

DEFECT_SEEDS = 100
PARTS = 4
SEEDS = parts_of(os.environ.get("MIRROR_COPY_SIM_SEED"), PARTS, by_tier(5, 250))
FILTER_SEEDS = parts_of(os.environ.get("MIRROR_COPY_SIM_SEED"), 1, by_tier(4, 250))


def run(seed: int, *, has_filter: bool = False) -> World:
    """Run one seed. Raises AssertionError, with the seed, if an invariant is violated."""
    world = World(seed, has_filter=has_filter)
    test = f"test_mirror_copy_simulation.py -k {'keeps' if has_filter else 'source'}"
    with repeatable("MIRROR_COPY_SIM_SEED", seed, test, lambda: str(world.counts)):
        world.run()
    return world


def run_with_filter(seed: int) -> World:
    return run(seed, has_filter=True)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_the_target_gets_what_the_source_has(seeds: range) -> None:
    """If this fails, a mirror loses records, copies them twice in exactly-once flows, or changes their order."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run(seed).counts
    if len(seeds) > 1:
        assert min(counts[name] for name in ("kills", "usurped", "moved", "forbidden", "lost")) > 0, counts


@pytest.mark.parametrize("seeds", FILTER_SEEDS, ids=str)
def test_the_target_gets_what_a_filter_keeps(seeds: range) -> None:
    """If this fails, a flow with transforms loses records or copies them twice, or filters the same ones each time that
    it starts.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run_with_filter(seed).counts
    if len(seeds) > 1:
        assert min(counts[name] for name in ("filtered", "kills", "lost")) > 0, counts


@pytest.mark.parametrize("plant", FILTER_DEFECTS)
def test_planted_defect_of_filters_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although a flow with transforms has this defect."""
    must_find(plant, run_with_filter, monkeypatch, DEFECT_SEEDS, key=f"mirror copy: {plant.__name__}")


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the mirror has this defect."""
    must_find(plant, run, monkeypatch, DEFECT_SEEDS, key=f"mirror copy: {plant.__name__}")
