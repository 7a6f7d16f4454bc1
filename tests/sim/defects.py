"""Planted defects: wrong behaviours. A simulation must find each one within SEEDS seeds, or within its own number.

`found_at.tsv` has the seed of each search that found the defect last. `make test` tries only that seed. It fails if the
seed no longer finds the defect, because a change of the broker's draws moves seeds; the message has the command that
searches and records another one. `make test-all` searches all seeds from the first one on. With BROKER_CY_FOUND=FILE
each search appends a line to FILE; `python -m tests.sim.found FILE` merges these lines into the table.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NoReturn

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
    """Return the seeds that a search tries, in its order: the recorded one, or all under `make test-all`. Fails the
    test if no seed is recorded.
    """
    if IS_FULL:
        return list(range(first, first + seeds))
    if key not in found_at():
        pytest.fail(f"no seed is recorded for {key!r}\n{search_command()}")
    return [found_at()[key]]


def search_command() -> str:
    """Return a sentence with the command that searches the defect of the running test, and records the seed."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "tests/sim").rpartition(" (")[0] or "tests/sim"
    return (
        "search another seed, and record it, with: BROKER_CY_TESTS=all BROKER_CY_FOUND=/tmp/found "
        f".venv/bin/python -m pytest {shlex.quote(test)} && .venv/bin/python -m tests.sim.found /tmp/found"
    )


def fail_unfound(key: str, first: int, seeds: int) -> NoReturn:
    """Fail the test, because no seed of the search found the defect."""
    if IS_FULL:
        pytest.fail(f"{key!r} was not found by {seeds} seeds from {first} on")
    pytest.fail(f"{key!r} is no longer found by its recorded seed {found_at()[key]}\n{search_command()}")


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
    fail_unfound(key, first, seeds)
