"""Delivery of alerts to a real HTTP server, which also fails, hangs and recovers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from bench.launch.nodes import free_ports
from broker_cy.admin.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError
from broker_cy.console.alerts.looks import LOOKS, Broken
from broker_cy.console.alerts.rules import AlertSettings, Rule, WebhookSettings
from broker_cy.console.alerts.watch import Alerting, Notice
from broker_cy.console.alerts.webhook import Webhook
from broker_cy.console.session import Session
from tests.support.endpoint import Endpoint

WAIT_S = 60.0


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    try:
        yield server
    finally:
        server.close()


def webhook(url: str, *, attempts: int = 5, timeout_s: float = 30.0, queue_max: int = 1_000) -> Webhook:
    return Webhook(WebhookSettings(url, timeout_s, attempts), queue_max=queue_max, backoff_s=0.01, backoff_max_s=0.02)


def run(job: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(WAIT_S):
            await job()

    asyncio.run(inside())


async def done(hook: Webhook) -> None:
    while hook.queued:
        await asyncio.sleep(0.005)


def test_alerts_are_delivered_in_order_as_json(endpoint: Endpoint) -> None:
    """If this fails, a receiver sees the resolution before the alert, or cannot tell them apart."""

    async def job() -> None:
        hook = webhook(endpoint.url)
        rule = Rule("low disk space", "disk", free_percent=10)
        for is_firing in (True, False):
            hook.put(Notice("prod", rule, "/srv of broker 1", "Größe: 1 %", is_firing, 1_000, 2_000).payload())
        await done(hook)
        assert (hook.delivered, hook.failed, hook.dropped, hook.error) == (2, 0, 0, "")

    run(job)
    path, headers, _ = endpoint.received[0]
    assert path == "/alerts?key=1"
    assert headers["Content-Type"] == "application/json"
    expected = {
        "cluster": "prod",
        "rule": "low disk space",
        "kind": "disk",
        "subject": "/srv of broker 1",
        "text": "Größe: 1 %",
        "since_ms": 1_000,
        "at_ms": 2_000,
    }
    assert endpoint.payloads == [{"state": "firing", **expected}, {"state": "resolved", **expected}]


def test_failures_are_retried(endpoint: Endpoint) -> None:
    """If this fails, alerts are lost because of one short failure of the receiver."""
    endpoint.answers = [500, 503, 429, -1]

    async def job() -> None:
        hook = webhook(endpoint.url)
        hook.put({"n": 1})
        hook.put({"n": 2})
        await done(hook)
        assert (hook.delivered, hook.failed, hook.attempts) == (2, 0, 6)

    run(job)
    assert endpoint.payloads == [{"n": 1}, {"n": 2}]


def test_a_receiver_that_does_not_answer_is_given_up_in_time(endpoint: Endpoint) -> None:
    """If this fails, one endpoint that hangs delays every later alert forever."""
    endpoint.answers = [0, 0]

    async def job() -> None:
        # Long enough for the alert that is answered, also on a busy machine.
        hook = webhook(endpoint.url, attempts=2, timeout_s=2.0)
        hook.put({"n": 1})
        hook.put({"n": 2})
        await done(hook)
        assert (hook.delivered, hook.failed, hook.attempts) == (1, 1, 3)

    run(job)
    assert endpoint.payloads == [{"n": 2}]


def test_a_receiver_that_comes_back_gets_what_waited() -> None:
    """If this fails, the receiver is restarted, and the alerts of that minute are lost."""
    (port,) = free_ports(1)

    async def job() -> None:
        hook = webhook(f"http://127.0.0.1:{port}/", attempts=10_000)
        hook.put({"n": 1})
        hook.put({"n": 2})
        while hook.attempts < 3:
            await asyncio.sleep(0.005)
        assert hook.queued == 2
        assert hook.error == "connection refused: no process listens there"
        server = await asyncio.to_thread(Endpoint, port)
        try:
            await done(hook)
            assert server.payloads == [{"n": 1}, {"n": 2}]
            assert (hook.delivered, hook.failed, hook.error) == (2, 0, "")
        finally:
            await asyncio.to_thread(server.close)

    run(job)


def test_a_refusal_is_not_retried(endpoint: Endpoint) -> None:
    """If this fails, a wrong URL is tried for minutes while later alerts wait, or a redirection is followed."""
    endpoint.answers = [404, 302]

    async def job() -> None:
        hook = webhook(endpoint.url)
        hook.put({"n": 1})
        hook.put({"n": 2})
        await done(hook)
        assert (hook.delivered, hook.failed, hook.attempts, hook.error) == (0, 2, 2, "HTTP status 302")

    run(job)


def test_a_full_queue_drops_the_oldest_and_counts() -> None:
    """If this fails, a receiver that is unavailable for a day exhausts the memory, or users do not see that alerts were
    lost.
    """
    (port,) = free_ports(1)

    async def job() -> None:
        hook = webhook(f"http://127.0.0.1:{port}/", attempts=10_000, queue_max=3)
        hook.put({"n": 0})
        while not hook.attempts:
            await asyncio.sleep(0.005)
        for n in range(1, 9):
            hook.put({"n": n})
        assert (hook.queued, hook.dropped) == (4, 5)
        server = await asyncio.to_thread(Endpoint, port)
        try:
            await done(hook)
            assert server.payloads == [{"n": 0}, {"n": 6}, {"n": 7}, {"n": 8}]
            assert (hook.delivered, hook.dropped) == (4, 5)
        finally:
            await asyncio.to_thread(server.close)

    run(job)


def test_closing_delivers_what_it_can_and_counts_the_rest(endpoint: Endpoint) -> None:
    """If this fails, a console that ends loses its last alerts, or never ends."""

    async def job() -> None:
        hook = webhook(endpoint.url)
        hook.put({"n": 1})
        await hook.close(WAIT_S)
        assert (hook.delivered, hook.dropped) == (1, 0)
        away = webhook(f"http://127.0.0.1:{free_ports(1)[0]}/", attempts=10_000)
        away.put({"n": 1})
        away.put({"n": 2})
        await away.close(0.05)
        assert (away.delivered, away.dropped, away.queued) == (0, 2, 0)

    run(job)


def test_a_secret_in_the_url_is_not_shown() -> None:
    """If this fails, a token is shown on the screen and in its picture."""
    hook = webhook("https://user:secret@hooks.example.com/token/abc")
    assert hook.target == "hooks.example.com"
    assert AlertSettings().webhook is None


def test_of_many_consoles_only_one_that_is_told_notifies(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each alert arrives as many times as consoles are open."""

    async def broken(session: Session, rule: Rule) -> list[Broken]:
        return [Broken("disk", "the disk is full")]

    monkeypatch.setitem(LOOKS, "disk", broken)
    settings = AlertSettings((Rule("full", "disk"),), WebhookSettings(endpoint.url))
    entry = ClusterEntry("c", parse_addresses("127.0.0.1:1"))

    async def job() -> None:
        consoles = [Alerting(settings, notifies=told) for told in (False, True, False)]
        for each in consoles:
            assert len(await each.look(Session(entry, client_id="test"))) == 1
        for each in consoles:
            await each.close(WAIT_S)
        assert ["not by this program" in str(each.webhook_facts()) for each in consoles] == [True, False, True]

    run(job)
    assert len(endpoint.payloads) == 1
    assert Alerting(AlertSettings()).webhook_facts() == []
    with pytest.raises(ClientError, match="--notify: the rules have no webhook"):
        Alerting(AlertSettings(), notifies=True)
