"""Seeded runs of several nodes of the metadata quorum; see tests/sim/quorum_world.py.

A failure prints the seed and its last steps, and QUORUM_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.sim.defects import Planter, must_find
from tests.sim.quorum_defects import DEFECTS, FIRST, SEEDS_MAX
from tests.sim.quorum_world import World
from tests.sim.seeds import parts_of, repeatable
from tests.support.tiers import by_tier

STEPS = 3_000
PARTS = by_tier(2, 4)
PART_SEEDS = 25
SOAK_SEEDS = 10_000
SOAK_TIMEOUT_S = 3_600
RARE = (pytest.mark.soak, pytest.mark.timeout(SOAK_TIMEOUT_S))
ONE_SEED = os.environ.get("QUORUM_SIM_SEED")
SEEDS = parts_of(ONE_SEED, PARTS, PART_SEEDS)


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError, with the seed and the last steps, if an invariant is violated."""
    world = World(seed)
    with repeatable("QUORUM_SIM_SEED", seed, "test_quorum_simulation.py -k agree", world.story):
        world.run(STEPS)
    return world


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_voters_agree_whatever_happens(seeds: range) -> None:
    """If this fails, committed metadata is lost or changed, an epoch has two leaders, or the quorum stands still."""
    crashes = committed = leaders = changes = snapshots = wipes = joined = succeeded = 0
    for seed in seeds:
        world = run(seed)
        changes += world.checks.changes
        snapshots += world.fetched_snapshots
        wipes += world.wipes
        succeeded += world.succeeded
        crashes += world.crashes
        joined += world.joined
        committed += len(world.checks.committed)
        leaders += len(world.checks.leaders)
    print(
        f"{len(seeds)} seeds, {leaders} leaders, {committed} batches committed, {crashes} crashes, {changes} changes "
        f"the voters, {snapshots} snapshots fetched, {wipes} disks lost, {joined} nodes join, {succeeded} successions"
    )
    if ONE_SEED is None:
        assert crashes > 10 * len(seeds), "the runs were idle"
        assert leaders > 3 * len(seeds), "the runs were idle"
        assert committed > 30 * len(seeds), "the runs were idle"
        assert joined > len(seeds) // 2, "the runs were idle"
        assert 2 * min(changes, snapshots, wipes) > len(seeds), "the runs were idle"
        assert succeeded > len(seeds) / 10, "the runs were idle"


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_voters_agree_in_many_worlds() -> None:
    """The same, for rare sequences of faults."""
    began_s = time.process_time()
    for seed in range(10_000, 10_000 + SOAK_SEEDS):
        run(seed)
    print(f"{SOAK_SEEDS} seeds; a core: {SOAK_SEEDS / (time.process_time() - began_s) * 3600:,.0f} seeds/h")


def test_a_seed_repeats_itself() -> None:
    """If this fails, a failure of the simulation could not be examined."""
    one, other = run(3), run(3)
    assert list(one.trace) == list(other.trace)
    assert one.story() == other.story()


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, id=plant.__name__, marks=RARE if seeds > SEEDS_MAX else ())
        for plant, seeds in DEFECTS.items()
    ],
)
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the quorum has this defect."""
    must_find(plant, run, monkeypatch, DEFECTS[plant], first=FIRST.get(plant, 1), key=f"quorum: {plant.__name__}")
