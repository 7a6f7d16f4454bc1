"""An application of broker_streams on real brokers in one simulated world (tests/sim/world/applications.py): no seed
finds anything, and planted defects of its host are found.

`APP_WORLD_SEEDS=1000 python -m pytest -m soak tests/sim/test_app_worlds.py` runs more seeds, and `python -m
tests.sim.world --profile streams-app --first SEED` repeats one.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.test_world import SOAK_TIMEOUT_S, fail, is_replayed, must_be_found
from tests.sim.world.app_planted import APP_PLANTED, QUICK
from tests.sim.world.plan import STREAMS_APP, Plan, plan_of
from tests.sim.world.run import collecting_seldom, run_seed
from tests.support import needs
from tests.support.tiers import by_tier

SEEDS = by_tier(1, 12)
SOAK_SEEDS = int(os.environ.get("APP_WORLD_SEEDS", "1000"))
# A test of `make soak` runs so many seeds.
SOAK_PART = 100

pytestmark = needs.memory


def run_seeds(first: int, count: int) -> None:
    acked = 0
    with collecting_seldom():
        for seed in range(first, first + count):
            result = run_seed(seed, STREAMS_APP)
            if result.failure is not None:
                fail(result, STREAMS_APP)
            acked += result.acked
    assert acked > 0


def test_no_seed_with_an_application_finds_anything() -> None:
    """If this fails, the embedded host loses records, counts some twice or in another order, restores a store that is
    not its changelog, or does not get on after a fault.
    """
    run_seeds(0, SEEDS)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("first", range(0, SOAK_SEEDS, SOAK_PART))
def test_many_seeds_find_nothing(first: int) -> None:
    """The same, for rare combinations of faults."""
    run_seeds(first, min(SOAK_PART, SOAK_SEEDS - first))


@pytest.mark.full
def test_a_seed_is_replayed_exactly() -> None:
    """If this fails, a failing seed cannot be found again."""
    is_replayed(0, 1, STREAMS_APP)


def test_a_plan_is_data() -> None:
    """If this fails, a plan that was kept is another one when it is read."""
    plans = [plan_of(seed, STREAMS_APP) for seed in range(40)]
    assert [Plan.from_json(plan.to_json()) for plan in plans] == plans
    assert {len(plan.instances) for plan in plans} == {1, 2, 3}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in APP_PLANTED]
)
def test_planted_defects_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the worlds pass although the host has this defect."""
    must_be_found(name, APP_PLANTED[name], monkeypatch)
