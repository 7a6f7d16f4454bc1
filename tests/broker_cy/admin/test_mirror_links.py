"""The mirror topics of links: by the pages of brokers, and by settings."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from broker_cy.admin import AdminClient, mirror_links
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.caller import Caller
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import LinkTopic, link_partitions, link_topics, topics_of
from broker_cy.admin.topics import NewTopic
from broker_cy.core import mirror_settings as mirror
from tests.support.broker import BrokerProcess


def row(topic: str, partition: int, state: str, **more: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "link": "east", "source_topic": topic, "state": state, **more}


def test_pages_of_brokers_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, consoles show mirrors of one broker only, or topics that were promoted."""
    first = [row("a", 0, "active", end=5, lag_records=0, new=1), row("b", 0, "promoted")]
    second = [row("a", 1, "failed", reason="the id differs"), row("c", 2, "paused")]

    async def pages(*_: object) -> dict[int, bytes]:
        found = [json.dumps({"partitions": rows}).encode() for rows in (first, second)]
        return dict(enumerate([*found, b"something else"]))

    monkeypatch.setattr(mirror_links, "pages_of", pages)
    found = asyncio.run(link_partitions(cast("Caller", None)))
    assert found is not None
    assert {str(key): each.state for key, each in found.items()} == {"a-0": "active", "a-1": "failed", "c-2": "paused"}
    assert (found[TopicPartition("a", 0)].end, found[TopicPartition("a", 1)].reason) == (5, "the id differs")
    assert topics_of(found.values(), {"a": 3}) == [
        LinkTopic("a", "east", "a", False, 3),
        LinkTopic("c", "east", "c", True, 3),
    ]


def test_brokers_without_the_page_are_unknown_and_no_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a cluster whose brokers report nothing looks like one without mirrors."""

    async def pages(*_: object) -> dict[int, bytes]:
        return {1: b"something else"}

    monkeypatch.setattr(mirror_links, "pages_of", pages)
    assert asyncio.run(link_partitions(cast("Caller", None))) is None


def test_mirrors_are_found_by_their_settings(ours: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, consoles do not show the mirrors of brokers without a metrics listener."""
    monkeypatch.setattr(mirror_links, "TOPICS_A_CALL", 1)
    assert (mirror_links.LINK, mirror_links.SOURCE_TOPIC, mirror_links.PAUSED) == (
        mirror.LINK,
        mirror.SOURCE_TOPIC,
        mirror.PAUSED,
    )

    async def job() -> None:
        async with AdminClient(parse_addresses(ours.bootstrap)) as client:
            settings: dict[str, str | None] = {mirror.LINK: "east", mirror.SOURCE_TOPIC: "o", mirror.PAUSED: "true"}
            await client.topics.create([NewTopic(name, 2, configs=settings), NewTopic(f"{name}-other", 1)])
            found = await link_topics(client.configs, {name: 2, f"{name}-other": 1, f"{name}-absent": 1})
            assert found == [LinkTopic(name, "east", "o", True, 2)]

    asyncio.run(job())
