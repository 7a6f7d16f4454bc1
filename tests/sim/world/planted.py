"""Defects that the world has to find: wrong behaviours of all parts of the broker, with the seeds of which one fails.

Most are those of the simulations of single parts (power_planted, group_defects, txn_defects): the whole broker shows
them to its clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.sim.power_planted import PLANTED as OF_STORAGE

Plant = Callable[[pytest.MonkeyPatch], Any]


@dataclass(frozen=True)
class Planted:
    """`plant` makes the code wrong; one of `seeds` seeds from `first` on finds it."""

    plant: Plant
    seeds: int
    first: int = 0


def _of_storage(name: str, seeds: int, first: int = 0) -> tuple[str, Planted]:
    return name, Planted(OF_STORAGE[name].plant, seeds, first)


def _of_groups(plant: Plant, seeds: int, first: int = 0) -> tuple[str, Planted]:
    return f"groups: {plant.__name__}", Planted(plant, seeds, first)


def _of_transactions(plant: Plant, seeds: int, first: int = 0) -> tuple[str, Planted]:
    return f"transactions: {plant.__name__}", Planted(plant, seeds, first)


PLANTED: dict[str, Planted] = dict(
    [
        _of_storage("group commit syncs nothing", 20),
        _of_storage("a start serves what a killed process did not sync", 20),
    ]
)
