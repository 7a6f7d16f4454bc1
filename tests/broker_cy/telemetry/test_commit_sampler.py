"""The commits that the commit sampler looks at: each partition once in a period, the oldest first, within bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import Place
from broker_cy.metrics.events import Commits, Committed, Event
from broker_cy.telemetry import commit_sampler
from broker_cy.telemetry.commit_sampler import CommitSampler
from tests.broker_cy.coordinator_services.group_broker import run
from tests.broker_cy.share_service.share_broker import ACCEPT, NONE, Range, ShareBroker

WAIT_MS = 20_000


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


def test_share_groups_are_sampled_by_leaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, share groups have no lag in `__cluster_events` and in the analytics, or another one than Kafka's
    tool shows.
    """

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            noted: list[Event] = []
            events = broker.server.broker.events
            monkeypatch.setattr(events, "note", noted.append)
            sampler = broker.server._commit_sampler
            topic = await broker.topic()
            await broker.produce(4)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 3, 1)]
            await sampler.sample()
            assert await a.acknowledge(topic, (0, 0, [ACCEPT]), (2, 2, [ACCEPT])) == NONE
            await sampler.sample()
            assert await a.acknowledge(topic, (1, 1, [ACCEPT]), (3, 3, [ACCEPT])) == NONE
            await sampler.sample()
            # Without progress, nothing is written.
            await sampler.sample()
            found = [each for each in noted if isinstance(each, Commits)]
            assert {each.group for each in found} == {"g"}
            rows = [row for each in found for row in each.offsets]
            assert [(row.offset, row.completed, row.end) for row in rows] == [(0, 0, 4), (1, 1, 4), (4, 0, 4)]
            assert [row.record_time_ms >= 0 for row in rows] == [True, True, False]
            assert rows[1].commit_ms <= rows[2].commit_ms

    run(work)
