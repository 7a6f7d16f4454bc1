"""Planted defects: wrong behaviours, each of which its simulation must find within SEEDS seeds, or the number given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Patch = pytest.MonkeyPatch
Planter = Callable[[Patch], None]
"""Replaces a function of the coordinator by a wrong one; its name and docstring say what is wrong."""

SEEDS = 6
# What a planted function raises that no longer fits the code around it: then the defect was not planted.
MISFITS = (TypeError, AttributeError, NameError)


def must_find(
    plant: Planter, run: Callable[[int], object], patch: Patch, seeds: int = SEEDS, *, first: int = 1
) -> None:
    """Fail the test unless `run(seed)` fails for one of `seeds` seeds from `first` on."""
    plant(patch)
    for seed in range(first, first + seeds):
        try:
            run(seed)
        except MISFITS as error:
            pytest.fail(f"{plant.__name__} no longer fits the code: {error!r}")
        except Exception as error:
            print(f"seed {seed}: {error!r}"[:500])
            return
    pytest.fail(f"{plant.__name__} was not found by {seeds} seeds from {first} on")
