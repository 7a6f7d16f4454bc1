"""Planted defects: wrong behaviours. A simulation must find each one within SEEDS seeds, or within its own number.

`found_at.tsv` has the seed of each search that found the defect last. `make test` begins with that seed, and tries
others only if it no longer finds the defect: every change of the broker's draws moves seeds. `make test-all` searches
all seeds from the first one on. With BROKER_CY_FOUND=FILE each search appends a line to FILE;
`python -m tests.sim.found FILE` merges these lines into the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.tiers import IS_FULL

Patch = pytest.MonkeyPatch
Planter = Callable[[Patch], None]
"""Replaces a function of the coordinator by a wrong one; its name and docstring describe the defect."""

SEEDS = 6
# The errors of a planted function that no longer fits the code around it: then the defect was not planted.
MISFITS = (TypeError, AttributeError, NameError)
FOUND_AT = Path(__file__).with_name("found_at.tsv")


@cache
def found_at() -> dict[str, int]:
    """Return the seed that found each defect last, by the key of its search."""
    lines = FOUND_AT.read_text().splitlines() if FOUND_AT.exists() else []
    return {key: int(seed) for key, seed in (line.split("\t") for line in lines)}


def seeds_of(key: str, first: int, seeds: int) -> list[int]:
    """Return the seeds of a search, in its order: the recorded one first, unless all of them are wanted."""
    found = found_at().get(key)
    rest = range(first, first + seeds)
    return list(rest) if IS_FULL or found is None else [found, *(seed for seed in rest if seed != found)]


def note_found(key: str, seed: int) -> None:
    """Append the seed that found a defect to the file that BROKER_CY_FOUND names."""
    if path := os.environ.get("BROKER_CY_FOUND"):
        # One short write: processes that append at the same time do not mix their lines.
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{key}\t{seed}\n")


def must_find(
    plant: Planter, run: Callable[[int], object], patch: Patch, seeds: int = SEEDS, *, key: str, first: int = 1
) -> None:
    """Fail the test unless `run(seed)` fails for one of `seeds` seeds from `first` on; `key` names the search."""
    plant(patch)
    for seed in seeds_of(key, first, seeds):
        try:
            run(seed)
        except MISFITS as error:
            pytest.fail(f"{plant.__name__} no longer fits the code: {error!r}")
        except Exception as error:
            print(f"seed {seed}: {error!r}"[:500])
            note_found(key, seed)
            return
    pytest.fail(f"{plant.__name__} was not found by {seeds} seeds from {first} on")
