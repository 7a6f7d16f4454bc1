"""Reassignments in the consoles: bytes, rate and time left."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from broker_cy.admin.address import parse_addresses
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.clusters import ClusterEntry
from broker_cy.console import session as sessions
from broker_cy.console.session import Session
from tests.support.fake_cluster import FakeCluster, FakePool, Part


def test_the_rate_of_moves_is_that_since_the_answer_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the time left of a reassignment is wrong by days, or partitions that were complete before count as
    copied now.
    """
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, step_bytes=10)
    keys = [TopicPartition("t", number) for number in range(2)]
    cluster.parts = {keys[0]: Part((1, 2), 20), keys[1]: Part((1, 2), 100)}
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(cluster))
    # Two seconds between two answers.
    clock = count(0, 2_000)
    monkeypatch.setattr(sessions, "now_ms", lambda: next(clock))
    for key in keys:
        cluster._move(key, [1, 3])

    async def job() -> None:
        session = Session(ClusterEntry("c", parse_addresses("127.0.0.1:1")), client_id="test")
        first = await session._moves()
        assert (first.copied_bytes, first.total_bytes, first.rate_bytes_per_s, first.left_s) == (20, 120, None, None)
        # The small partition is complete now: it is no longer listed, and its bytes are not counted.
        second = await session._moves()
        assert (second.copied_bytes, second.total_bytes, second.rate_bytes_per_s) == (20, 100, 5.0)
        assert second.left_s == 16.0
        await session.client.close()

    asyncio.run(job())
