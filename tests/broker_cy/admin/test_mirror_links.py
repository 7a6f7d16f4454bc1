"""The mirror topics of links: by the pages of brokers, and by settings."""

from __future__ import annotations

import asyncio
import json
from typing import cast
from uuid import UUID

import pytest

from broker_cy.admin import AdminClient, mirror_links
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.caller import Caller
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic, link_partitions, mirror_topics, topics_of
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.core import mirror_settings as mirror
from broker_cy.core import uuid as uuids
from tests.support.broker import BrokerProcess

SOURCE_ID = UUID(int=7)


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
        MirrorTopic("a", "east", "a", None, 3),
        MirrorTopic("c", "east", "c", None, 3, is_paused=True),
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

    async def job() -> None:
        async with AdminClient(parse_addresses(ours.bootstrap)) as client:
            settings: dict[str, str | None] = {mirror.LINK: "east", mirror.SOURCE_TOPIC: "o", mirror.PAUSED: "true"}
            promoted: dict[str, str | None] = {mirror.SOURCE_TOPIC_ID: uuids.to_text(SOURCE_ID)}
            new = [NewTopic(name, 2, configs=settings), NewTopic(f"{name}-other", 1)]
            await client.topics.create([*new, NewTopic(f"{name}-promoted", 1, configs=promoted)])
            topics = {name: 2, f"{name}-other": 1, f"{name}-absent": 1, f"{name}-promoted": 1}
            assert await mirror_topics(client.configs, topics) == [
                MirrorTopic(name, "east", "o", None, 2, is_paused=True),
                MirrorTopic(f"{name}-promoted", None, f"{name}-promoted", SOURCE_ID, 1),
            ]
            with pytest.raises(ClientError):
                await mirror_topics(client.configs, topics, is_strict=True)

    asyncio.run(job())
