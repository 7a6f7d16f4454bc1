"""Feeds: many viewers, one request; each fails and recovers alone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker_cy.admin.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.feeds import Feed, Feeds
from broker_cy.console.session import Session


class Answers:
    """Returns numbers; raises what `failure` contains."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return self.asked


async def until(feed: Feed[int], answers: int) -> None:
    while feed.answers < answers:
        await asyncio.sleep(0.001)


def test_many_viewers_share_one_request() -> None:
    """If this fails, a hundred viewers send the broker a hundred requests."""

    async def job() -> None:
        answers = Answers()
        feeds = Feeds()
        seen: list[int] = []
        feed = feeds.get("a", answers, 3_600)
        listeners = [lambda n=n: seen.append(n) for n in range(100)]
        for listener in listeners:
            feeds.get("a", answers, 3_600).subscribe(listener)
        await until(feed, 1)
        assert answers.asked == 1
        assert sorted(seen) == list(range(100))
        for listener in listeners:
            feed.unsubscribe(listener)
        assert not feed.is_watched
        assert feed._task is None

    asyncio.run(job())


def test_a_listener_that_fails_hinders_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, one viewer's defect freezes the panels of all viewers."""

    def fails() -> None:
        raise ZeroDivisionError

    async def job() -> None:
        feed: Feed[int] = Feed(Answers(), 0.001)
        seen: list[int | None] = []
        feed.subscribe(fails)
        feed.subscribe(lambda: seen.append(feed.value))
        await until(feed, 3)
        assert seen[:2] == [1, 2]

    with caplog.at_level(logging.ERROR):
        asyncio.run(job())
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("failure", [ClientError(Failure.UNREACHABLE, "away"), KeyError("defect")])
def test_a_failure_is_reported_and_the_feed_recovers(failure: Exception) -> None:
    """If this fails, a panel never changes after one bad response, and users cannot see why."""

    async def job() -> None:
        answers = Answers()
        feed: Feed[int] = Feed(answers, 0.001)
        errors: list[str | None] = []
        feed.subscribe(lambda: errors.append(feed.error))
        await until(feed, 1)
        answers.failure = failure
        while not errors[-1]:
            await asyncio.sleep(0.001)
        assert (str(failure) if isinstance(failure, ClientError) else "KeyError: 'defect'") in str(errors[-1])
        assert feed.value is not None
        answers.failure = None
        await until(feed, feed.answers + 1)
        assert feed.error is None

    asyncio.run(job())


def test_fresh_waits_for_the_next_answer_only_where_the_last_is_too_old() -> None:
    """If this fails, a callback of the dashboard shows nothing on its first call, or sends a request at each call."""

    async def job() -> None:
        answers = Answers()
        feed: Feed[int] = Feed(answers, 3_600)
        assert await feed.fresh(60) == 1
        assert await feed.fresh(60) == 1
        assert await feed.fresh(-1) == 2
        answers.failure = ClientError(Failure.UNREACHABLE, "away")
        with pytest.raises(ClientError, match="away"):
            await feed.fresh(-1)
        with pytest.raises(ClientError, match="away"):
            await feed.fresh(-1)
        assert feed.value == 2
        assert not feed.is_watched

    asyncio.run(job())


def test_a_session_belongs_to_one_event_loop() -> None:
    """If this fails, a callback in another thread waits for a response that never comes."""
    session = Session(ClusterEntry("c", parse_addresses("127.0.0.1:1"), 0.1), client_id="test")

    async def use() -> None:
        session.topics().subscribe(lambda: None)

    asyncio.run(use())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(use())


def test_sessions_share_nothing() -> None:
    """If this fails, two clusters in one dashboard show each other's data."""

    async def job() -> None:
        first, second = (
            Session(ClusterEntry(name, parse_addresses("127.0.0.1:1"), 0.1), client_id="test") for name in "ab"
        )
        assert first.topics() is first.topics()
        assert first.topics() is not second.topics()
        assert first.lag_history is not second.lag_history

    asyncio.run(job())
