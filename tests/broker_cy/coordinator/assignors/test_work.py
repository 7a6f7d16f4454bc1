"""The work of the assignors grows with the size of the group, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from bench.studies import assignors as study
from broker_cy.coordinator.assignors import range_, uniform
from broker_cy.coordinator.assignors.streams_spec import NO_TASKS

SIZES = (50, 200)  # members
TOPICS = 10
# Four times the size takes four times the lines, and a little more for the rounds of a balance.
FACTOR_MAX = 6.0


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def consumer(assign: Callable[[Any], Any], is_homogeneous: bool, members: int) -> list[Callable[[], object]]:
    return works(assign, study.group(members, 10 * members, is_homogeneous, TOPICS), {})


def works(assign: Callable[[Any], Any], new: Any, fresh: Any) -> list[Callable[[], object]]:
    """The assignments of a new group, after members have left, and after others have joined."""
    target = assign(new)
    held = [(name, member._replace(assigned=target[name])) for name, member in new.members.items()]
    joined = {f"new-{name}": member._replace(assigned=fresh) for name, member in held[::3]}
    left = new._replace(members=dict(held[len(held) // 4 :]))
    grown = new._replace(members={**dict(held), **joined})
    return [lambda: assign(new), lambda: assign(left), lambda: assign(grown)]


CASES: dict[str, Callable[[int], list[Callable[[], object]]]] = {
    "uniform": lambda members: consumer(uniform.assign, True, members),
    "uniform, mixed": lambda members: consumer(uniform.assign, False, members),
    "range": lambda members: consumer(range_.assign, True, members),
    "simple": lambda members: works(study.share_assignor, study.group(members, members, True, TOPICS), {}),
    "simple, mixed": lambda members: works(study.share_assignor, study.group(members, members, False, TOPICS), {}),
    "sticky": lambda members: works(study.streams_assignor, study.streams_group(members, 4 * members), NO_TASKS),
}


@pytest.mark.parametrize("name", CASES)
def test_work_is_linear(name: str) -> None:
    """If this fails, the rebalance of a large group keeps a core busy for seconds."""
    small, large = (CASES[name](members) for members in SIZES)
    for less, more in zip(small, large, strict=True):
        assert lines_of(more) <= FACTOR_MAX * lines_of(less)
