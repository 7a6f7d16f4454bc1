"""Seeded runs of the replicas of one partition; see tests/sim/replica_world.py.

A failure prints the seed and its last steps, and REPLICA_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.replica_defects import DEFECTS, SEEDS_MAX
from tests.sim.replica_world import World
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

STEPS = 4_000
PARTS = 4
PART_SEEDS = by_tier(12, 25)
SOAK_SEEDS = 10_000
SOAK_TIMEOUT_S = 3_600
RARE = (pytest.mark.soak, pytest.mark.timeout(SOAK_TIMEOUT_S))
ONE_SEED = os.environ.get("REPLICA_SIM_SEED")
SEEDS = parts_of(ONE_SEED, PARTS, PART_SEEDS)


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError, with the seed and the last steps, if an invariant is violated."""
    world = World(seed)
    with repeatable(
        "REPLICA_SIM_SEED", seed, "test_replica_simulation.py -k agree", lambda: f"{world.story()}\n{world!r}"
    ):
        world.run(STEPS)
    return world


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_replicas_agree_whatever_happens(seeds: range) -> None:
    """If this fails, acknowledged records are lost, consumers read records that change, or replicas never get in
    sync.
    """
    ends = acked = elections = truncations = held = deletions = 0
    for seed in seeds:
        world = run(seed)
        ends += world.ends
        acked += len(world.checks.acked)
        elections += world.controller.elections
        truncations += world.truncations
        held += world.checks.holds_count
        deletions += world.deletions
    print(
        f"{len(seeds)} seeds, {elections} elections, {acked} records acknowledged, {ends} ends, "
        f"{truncations} truncated, {held} fetches held, {deletions} deletions"
    )
    if ONE_SEED is None:
        assert ends > 2 * len(seeds), "the runs were idle"
        assert elections > 2 * len(seeds), "the runs were idle"
        assert acked > 30 * len(seeds), "the runs were idle"
        assert truncations > len(seeds) // 2, "the runs were idle"
        assert held > len(seeds), "the runs were idle"
        assert deletions > 2 * len(seeds), "the runs were idle"


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_replicas_agree_in_many_worlds() -> None:
    """The same, for rare sequences of faults."""
    for seed in range(10_000, 10_000 + SOAK_SEEDS):
        run(seed)


def test_a_seed_repeats_itself() -> None:
    """If this fails, a failure of the simulation could not be examined."""
    assert run(3).story() == run(3).story()


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, id=plant.__name__, marks=RARE if seeds > SEEDS_MAX else ())
        for plant, seeds in DEFECTS.items()
    ],
)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the replicas have this defect."""
    must_find(plant, run, monkeypatch, DEFECTS[plant], key=f"replica: {plant.__name__}")
