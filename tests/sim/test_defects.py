"""Searches for planted defects: the recorded seed only under `make test`, all seeds otherwise."""

from __future__ import annotations

import pytest

from tests.sim import defects

KEY = "a simulation: a wrong function"


def plant(_patch: pytest.MonkeyPatch) -> None:
    """Nothing: the runs below decide."""


def tried(patch: pytest.MonkeyPatch, found: dict[str, int], finds: int, *, is_full: bool) -> list[int]:
    """Search with the table `found`; only the seed `finds` finds the defect. Return the seeds that were tried."""
    patch.setattr(defects, "found_at", lambda: found)
    patch.setattr(defects, "IS_FULL", is_full)
    patch.delenv("BROKER_CY_FOUND", raising=False)
    seeds: list[int] = []

    def run(seed: int) -> None:
        seeds.append(seed)
        if seed == finds:
            raise AssertionError("a record is lost")

    defects.must_find(plant, run, patch, 3, key=KEY)
    return seeds


def test_the_quick_tier_tries_the_recorded_seed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one change of the broker's draws makes `make test` as slow as `make test-all`."""
    assert tried(monkeypatch, {KEY: 2}, 2, is_full=False) == [2]
    with pytest.raises(pytest.fail.Exception, match="no longer found by its recorded seed 1") as failed:
        tried(monkeypatch, {KEY: 1}, 2, is_full=False)
    named = "BROKER_CY_TESTS=all BROKER_CY_FOUND=/tmp/found .venv/bin/python -m pytest tests/sim/test_defects.py::"
    assert named in str(failed.value)
    with pytest.raises(pytest.fail.Exception, match="no seed is recorded") as failed:
        tried(monkeypatch, {}, 2, is_full=False)
    assert named in str(failed.value)


def test_the_full_tier_tries_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a defect that only an unlucky seed finds looks as easy to find as the others."""
    assert tried(monkeypatch, {KEY: 3}, 2, is_full=True) == [1, 2]
    with pytest.raises(pytest.fail.Exception, match="not found by 3 seeds from 1 on"):
        tried(monkeypatch, {}, 4, is_full=True)
