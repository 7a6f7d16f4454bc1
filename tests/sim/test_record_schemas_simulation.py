"""Seeded runs of brokers that check the schemas of records; see tests/sim/record_schemas_world.py.

A failure prints the seed, and RECORD_SCHEMAS_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.record_schemas_defects import DEFECTS
from tests.sim.record_schemas_world import World
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

DEFECT_SEEDS = 60
PARTS = 4
SEEDS = parts_of(os.environ.get("RECORD_SCHEMAS_SIM_SEED"), PARTS, by_tier(10, 250))
ACTS = (
    "NONE",
    "INVALID_RECORD",
    "NOT_ENOUGH_REPLICAS",
    "registered",
    "deleted",
    "aborted",
    "leaders lost",
    "slow reads",
)


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError, with the seed, if an invariant is violated."""
    world = World(seed)
    command = "test_record_schemas_simulation.py -k registered"
    with repeatable("RECORD_SCHEMAS_SIM_SEED", seed, command, lambda: str(world.counts)):
        world.run()
    return world


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_records_are_accepted_exactly_if_their_schemas_are_registered(seeds: range) -> None:
    """If this fails, records with a registered schema are lost, or some are stored with one that does not exist."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run(seed).counts
    if len(seeds) > 1:
        assert min(counts[name] for name in ACTS) > len(seeds), counts


@pytest.mark.parametrize("plant", DEFECTS)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the check has this defect."""
    must_find(plant, run, monkeypatch, DEFECT_SEEDS, key=f"record schemas: {plant.__name__}")
