"""The group's answers about an application, and changes of its topics, without a broker."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker_cy.client.group_member import State
from broker_cy.client.streams_member import Status
from broker_cy.core.errors import ErrorCode
from broker_streams import STRING, StreamsBuilder, StreamsError
from broker_streams.hosts.embedded.group_news import MISSING_S, GroupNews, MissingSourceTopics
from broker_streams.hosts.embedded.topics import Topics

MISSING = Status(1, "Source topics orders are missing.")


def member(*statuses: Status, failure: ErrorCode = ErrorCode.NONE, text: str = "") -> Any:
    state = State.FAILED if failure else State.STABLE
    return SimpleNamespace(statuses=statuses, state=state, failure=failure, failure_text=text)


def test_missing_source_topics_end_the_application_after_a_while() -> None:
    """If this fails, an application waits for ever for a topic, or ends although the topic came back."""
    news = GroupNews("app")
    news.look(member(MISSING), 0.0)
    news.look(member(MISSING), MISSING_S - 1)
    news.look(member(), MISSING_S)
    news.look(member(MISSING), MISSING_S + 1)
    news.look(member(MISSING), 2 * MISSING_S)
    with pytest.raises(MissingSourceTopics, match=r"MISSING_SOURCE_TOPICS: Source topics orders are missing\."):
        news.look(member(MISSING), 2 * MISSING_S + 1)


def test_reasons_to_wait_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a user does not see why nothing is processed, or the log is full of it."""
    news = GroupNews("app")
    with caplog.at_level(logging.WARNING, "broker_streams"):
        for _ in range(3):
            news.look(member(Status(3, "Internal topics are missing: app-x"), Status(5, "soon")), 0.0)
    assert [each.getMessage() for each in caplog.records] == [
        "group app waits: MISSING_INTERNAL_TOPICS: Internal topics are missing: app-x"
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            member(Status(2, "Existing topic app-x has 2")),
            "group app cannot run the application: INCORRECTLY_PARTITIONED_TOPICS: Existing topic app-x has 2",
        ),
        (member(Status(4, "it failed")), "an instance asked all instances of group app to end: it failed"),
        (
            member(failure=ErrorCode.UNSUPPORTED_VERSION),
            "group app refuses the application: UNSUPPORTED_VERSION (the cluster has no streams groups (KIP-1071)",
        ),
        (
            member(failure=ErrorCode.INVALID_REQUEST, text="the topology differs"),
            "group app refuses the application: INVALID_REQUEST the topology differs (a group keeps the topology",
        ),
        (
            member(failure=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            "group app refuses the application: GROUP_AUTHORIZATION_FAILED",
        ),
    ],
    ids=["partitions", "shutdown", "version", "topology", "authorization"],
)
def test_reasons_to_end_are_named(given: Any, text: str) -> None:
    """If this fails, an application that cannot run hangs, or ends without a reason."""
    with pytest.raises(StreamsError) as failed:
        GroupNews("app").look(given, 0.0)
    assert str(failed.value).startswith(text)


class FakeCluster:
    """Describes topics: the id and the number of partitions of each."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[int, int]] = {}
        self.topics = self
        self.asked: list[str] = []

    async def describe(self, names: list[str]) -> Any:
        self.asked = names
        found = {
            name: SimpleNamespace(topic_id=UUID(int=number), partitions=range(partitions))
            for name, (number, partitions) in self.given.items()
        }
        return SimpleNamespace(found=found, failed={})


def topics_of(cluster: Any) -> Topics:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=STRING, value=STRING).group_by(lambda key, value: value, name="by")
    grouped.count(name="c").to_stream().to("out")
    return Topics(cluster, builder.build().plan, "app")


def test_topics_are_looked_at_in_one_request() -> None:
    """If this fails, new partitions are not noticed, or each topic takes a request."""
    cluster = FakeCluster()
    cluster.given = {"in": (1, 2), "out": (2, 3)}
    topics = topics_of(cluster)
    asyncio.run(topics.look())
    assert {"in", "out", "app-by-repartition"} <= set(cluster.asked)
    assert any(name.endswith("-changelog") for name in cluster.asked)
    assert (topics.partitions("in"), topics.partitions("out"), topics.partitions("app-by-repartition")) == (2, 3, 0)
    cluster.given["in"] = (1, 4)
    asyncio.run(topics.look())
    assert topics.partitions("in") == 4


def test_a_topic_that_was_created_again_is_named() -> None:
    """If this fails, an application goes on with a changelog that lacks its former changes."""
    cluster = FakeCluster()
    cluster.given = {"in": (1, 2), "out": (2, 3)}
    topics = topics_of(cluster)
    asyncio.run(topics.look())
    # Nothing is kept for a topic of results.
    cluster.given["out"] = (3, 3)
    asyncio.run(topics.look())
    cluster.given["in"] = (4, 2)
    with pytest.raises(StreamsError, match="topic in was deleted and created again"):
        asyncio.run(topics.look())
