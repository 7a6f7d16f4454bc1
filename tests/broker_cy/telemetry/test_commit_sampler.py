"""The commits that the commit sampler looks at: each partition once in a period, the oldest first, within bounds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import Place
from broker_cy.metrics.events import Committed
from broker_cy.telemetry import commit_sampler
from broker_cy.telemetry.commit_sampler import CommitSampler


class Looked(CommitSampler):
    """Records each place that the sampler looks at; no place has a committed offset."""

    def __init__(self) -> None:
        broker: Any = None
        super().__init__(broker)
        self.seen: list[Place] = []

    async def _look_at(self, machine: GroupMachine, group: str, topic: str, index: int) -> Committed | None:
        self.seen.append((group, topic, index))
        return None


def place(index: int) -> Place:
    return ("g", "t", index)


def test_what_waits_longest_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, partitions with continuous commits leave others without a time lag forever."""
    monkeypatch.setattr(commit_sampler, "LOOKUPS_MAX", 2)
    sampler, machine = Looked(), GroupMachine(GroupSettings())
    sampler.note(machine, [place(0), place(1), place(0), place(2)])
    asyncio.run(sampler.sample())
    assert sampler.seen == [place(0), place(1)]
    sampler.note(machine, [place(0), place(2)])
    asyncio.run(sampler.sample())
    asyncio.run(sampler.sample())
    assert sampler.seen[2:] == [place(2), place(0)]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, commits of a million partitions within a second fill the memory."""
    monkeypatch.setattr(commit_sampler, "NOTED_MAX", 3)
    sampler, machine = Looked(), GroupMachine(GroupSettings())
    sampler.note(machine, [place(index) for index in range(5)])
    sampler.note(machine, [place(1), place(4)])
    asyncio.run(sampler.sample())
    assert sampler.seen == [place(0), place(1), place(2)]
