"""Two clusters of real brokers in one simulated world, with links or copying processes between them
(tests/sim/world/mirrors.py, copies.py): no seed finds anything, and planted defects are found.

`MIRROR_WORLD_SEEDS=1000 python -m pytest -m soak tests/sim/test_mirror_worlds.py` runs more seeds, and `python -m
tests.sim.world --profile mirror-link --first SEED` repeats one.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.test_world import SOAK_TIMEOUT_S, fail, is_replayed, must_be_found
from tests.sim.world.mirror_planted import MIRROR_PLANTED, QUICK
from tests.sim.world.plan import MIRROR_COPY, MIRROR_LINK, Plan, plan_of
from tests.sim.world.run import collecting_seldom, run_seed
from tests.support import needs
from tests.support.tiers import by_tier

PROFILES = MIRROR_LINK, MIRROR_COPY
SEEDS = by_tier(1, 12)
SOAK_SEEDS = int(os.environ.get("MIRROR_WORLD_SEEDS", "1000"))
# A test of `make soak` runs so many seeds.
SOAK_PART = 100

pytestmark = needs.memory


def run_seeds(profile: str, first: int, count: int) -> None:
    acked = 0
    with collecting_seldom():
        for seed in range(first, first + count):
            result = run_seed(seed, profile)
            if result.failure is not None:
                fail(result, profile)
            acked += result.acked
    assert acked > 0


def test_no_seed_with_links_finds_anything() -> None:
    """If this fails, a mirror lacks records or shows uncommitted ones of its source, a promoted partition differs from
    its source, or a reversal copies equal records again. Or a mirror stops after a fault.
    """
    run_seeds(MIRROR_LINK, 0, SEEDS)


def test_no_seed_with_copying_processes_finds_anything() -> None:
    """If this fails, a copy flow loses records, copies them twice or in another order, or copies aborted ones; or it
    does not name those that were deleted before they were copied. Or the copy of a compacted topic has other values,
    the offsets of a group skip records in the target, or the flow stops after a fault.
    """
    run_seeds(MIRROR_COPY, 0, SEEDS)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("first", range(0, SOAK_SEEDS, SOAK_PART))
def test_many_seeds_find_nothing(profile: str, first: int) -> None:
    """The same, for rare combinations of faults."""
    run_seeds(profile, first, min(SOAK_PART, SOAK_SEEDS - first))


@pytest.mark.full
@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_is_replayed_exactly(profile: str) -> None:
    """If this fails, a failing seed cannot be found again."""
    is_replayed(0, 1, profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plan_is_data(profile: str) -> None:
    """If this fails, a plan that was kept is another one when it is read."""
    plans = [plan_of(seed, profile) for seed in range(40)]
    assert [Plan.from_json(plan.to_json()) for plan in plans] == plans
    assert any(plan.reverses for plan in plans) is (profile == MIRROR_LINK)
    assert any(len(plan.copiers) > 1 for plan in plans) is (profile == MIRROR_COPY)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in MIRROR_PLANTED]
)
def test_planted_defects_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the worlds pass although mirrors have this defect."""
    must_be_found(name, MIRROR_PLANTED[name], monkeypatch)
