"""One slot for each viewer and channel: a slow viewer skips frames, and delays no other viewer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from dashboard.collector.channel import Channel, channel
from dashboard.collector.hub import IDLE_MAX
from dashboard.live.viewer import MESSAGES_AT_ONCE, MESSAGES_PER_S, MESSAGES_WAITING_MAX, SUBSCRIPTIONS_MAX, Viewer
from dashboard.security.roles import Identity, Role, Scope
from tests.dashboard.support import ADMIN, CLUSTER, VIEWER, Desk

AWAY = "127.0.0.1:1"


class Ticker:
    """A source that calls its listeners when the test tells it to."""

    error: str | None = None
    age_s: float | None = 0.0

    def __init__(self) -> None:
        self.value = 0
        self.listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        self.listeners.remove(listener)

    def tick(self) -> None:
        self.value += 1
        for each in list(self.listeners):
            each()


TICKER = Ticker()


@channel("test-ticker")
class Ticks(Channel):
    PARAMS = frozenset({"topic"})

    def sources(self) -> list[Any]:
        return [TICKER]

    async def state(self) -> dict[str, Any]:
        return {"facts": [["ticks", str(TICKER.value), "PLAIN"]]}


class Browser:
    """A tab; while `is_slow`, it reads nothing."""

    def __init__(self, desk: Desk, identity: Identity) -> None:
        self.got: list[dict[str, Any]] = []
        self.may_take = asyncio.Event()
        self.may_take.set()
        self.new = asyncio.Event()
        self.viewer = Viewer(identity, desk.context.hubs, self.send)
        self.task = asyncio.create_task(self.viewer.run())

    async def send(self, text: bytes) -> None:
        await self.may_take.wait()
        self.got += map(orjson.loads, text.split(b"\n"))
        self.new.set()

    def say(self, message: Any) -> None:
        self.viewer.take(orjson.dumps(message))

    def subscribe(self, place: str = "a", channel: str = "test-ticker", **params: str) -> None:
        self.say({"subscribe": {"id": place, "cluster": CLUSTER, "channel": channel, "params": params}})

    async def until(self, wanted: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not wanted():
                self.new.clear()
                await self.new.wait()

    async def heard(self, seen: int) -> None:
        await self.until(lambda: len(self.got) > seen)

    async def ticked(self, seen: int) -> None:
        await self.until(lambda: len(self.ticks()) > seen)

    def ticks(self) -> list[str]:
        return [message["data"]["facts"][0][1] for message in self.got if "data" in message]

    async def close(self) -> None:
        self.viewer.close()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def run(job: Callable[[Desk], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with Desk(AWAY) as desk:
            await job(desk)

    asyncio.run(inside())


def test_a_slow_viewer_skips_frames_and_hinders_nobody() -> None:
    """If this fails, one sleeping tab makes the dashboard's memory grow, or delays all other tabs."""

    async def job(desk: Desk) -> None:
        quick, slow = Browser(desk, ADMIN), Browser(desk, ADMIN)
        for each in (quick, slow):
            each.subscribe()
            await each.ticked(0)
        slow.may_take.clear()
        for number in range(5):
            seen = len(quick.ticks())
            TICKER.tick()
            await quick.ticked(seen)
            assert quick.ticks()[-1] == str(TICKER.value), number
        before = len(slow.ticks())
        slow.may_take.set()
        await slow.until(lambda: slow.ticks()[-1:] == [str(TICKER.value)])
        # The frame that was being sent, and the newest.
        assert len(slow.ticks()) <= before + 2
        await slow.until(lambda: any("dropped" in message for message in slow.got))
        assert slow.got[-1]["dropped"] >= 3
        assert quick.viewer.dropped == 0
        await quick.close()
        await slow.close()

    run(job)


def test_hidden_tabs_pause_and_resume_with_the_newest() -> None:
    """If this fails, a forgotten tab keeps the cluster busy, or shows old values when its user returns."""

    async def job(desk: Desk) -> None:
        tab = Browser(desk, ADMIN)
        tab.subscribe()
        await tab.until(lambda: len(tab.ticks()) == 1)
        tab.say({"pause": True})
        (live,) = desk.hub.lives.values()
        assert live.viewers == set()
        TICKER.tick()
        tab.say({"pause": False})
        await tab.until(lambda: tab.ticks()[-1] == str(TICKER.value))
        await tab.close()
        assert live.viewers == set()

    run(job)


def test_what_is_wrong_is_reported_and_nothing_else_changes() -> None:
    """If this fails, a message of a browser ends the connection of its other panels, or is silently ignored."""

    async def job(desk: Desk) -> None:
        tab = Browser(desk, ADMIN)
        tab.subscribe()
        await tab.until(lambda: len(tab.ticks()) == 1)
        cases: list[tuple[Any, str]] = [
            ({"subscribe": {"id": "x", "cluster": "elsewhere", "channel": "health", "params": {}}}, "unknown cluster"),
            ({"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "nothing", "params": {}}}, "no channel"),
            (
                {"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "topics", "params": {"sort": "size2"}}},
                "the columns are",
            ),
            (
                {"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "topics", "params": {"from": "-1"}}},
                "a number from 0",
            ),
            (
                {"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "topics", "params": {"count": "5000"}}},
                "to 200",
            ),
            (
                {"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "topics", "params": {"filter": "x" * 201}}},
                "200 char",
            ),
            ({"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "throughput", "params": {"range": "2d"}}}, "7d"),
            ({"subscribe": {"id": "", "cluster": CLUSTER, "channel": "topics", "params": {}}}, "an object with id"),
            (
                {"subscribe": {"id": "x", "cluster": CLUSTER, "channel": "topics", "params": {"sort": 1}}},
                "must be texts",
            ),
            ({"act": 1}, "expected subscribe"),
            ([1], "an object with one member"),
        ]
        for message, expected in cases:
            seen = len(tab.got)
            tab.say(message)
            await tab.heard(seen)
            assert expected in tab.got[-1]["reason"], tab.got[-1]
        tab.viewer.take("{")
        await tab.until(lambda: "not JSON" in tab.got[-1].get("reason", ""))
        TICKER.tick()
        await tab.until(lambda: tab.ticks()[-1] == str(TICKER.value))
        await tab.close()

    run(job)


def test_subscriptions_and_replies_are_bounded() -> None:
    """If this fails, one tab can use up the memory of the dashboard."""

    async def job(desk: Desk) -> None:
        tab = Browser(desk, ADMIN)
        for number in range(SUBSCRIPTIONS_MAX):
            tab.subscribe(f"s{number}", topic=f"t{number}")
        tab.subscribe("more", topic="more")
        await tab.until(lambda: any(f"{SUBSCRIPTIONS_MAX} subscriptions" in each.get("reason", "") for each in tab.got))
        tab.may_take.clear()
        sent = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(MESSAGES_WAITING_MAX + 50):
                sent += 1
                tab.viewer.take("{")
        assert sent == MESSAGES_WAITING_MAX + 1
        await tab.close()

    run(job)


def test_frames_of_another_role_cannot_be_had() -> None:
    """If this fails, the scope of a user only hides links, and a script's message receives other data."""
    limited = Identity("eve", Role.VIEWER, Scope(topics=("orders*",)), "password", "127.0.0.1")

    async def job(desk: Desk) -> None:
        tab = Browser(desk, limited)
        tab.subscribe(topic="payments")
        await tab.until(lambda: bool(tab.got))
        assert "payments" in tab.got[-1]["reason"]
        tab.subscribe(topic="orders-1")
        await tab.until(lambda: len(tab.ticks()) == 1)
        other = Browser(desk, VIEWER)
        other.subscribe(topic="orders-1")
        await other.until(lambda: len(other.ticks()) == 1)
        # A user with another scope receives frames of another channel, even about the same subject.
        assert len(desk.hub.lives) == 2
        await tab.close()
        await other.close()

    run(job)


def test_a_script_that_subscribes_without_end_takes_nothing_from_others() -> None:
    """If this fails, a viewer's account can use up all channels of a cluster, or the time of the loop."""

    async def job(desk: Desk) -> None:
        tab = Browser(desk, VIEWER)
        for number in range(IDLE_MAX + 150):
            tab.subscribe("one", topic=f"t{number}")
            await tab.heard(len(tab.got))
        # Abandoned channels stay for a while without being computed, and their number is limited.
        assert len(desk.hub.lives) <= IDLE_MAX + 1
        left = [live for live in desk.hub.lives.values() if not live.viewers]
        before = sum(live.computations for live in left)
        TICKER.tick()
        seen = len(tab.ticks())
        await tab.ticked(seen)
        assert sum(live.computations for live in left) == before
        # A viewer that returns to one of them gets the newest value.
        tab.subscribe("two", topic=json.loads(left[-1].key)[2]["topic"])
        await tab.until(lambda: len(left[-1].viewers) == 1 and left[-1].computations > 0)
        await tab.until(lambda: tab.ticks()[-1] == str(TICKER.value))
        await tab.close()

    run(job)


def test_messages_of_a_tab_wait_when_there_are_too_many() -> None:
    """If this fails, one socket occupies the loop with its messages."""

    async def job(desk: Desk) -> None:
        tab = Browser(desk, VIEWER)
        began_s = asyncio.get_running_loop().time()
        for _ in range(MESSAGES_AT_ONCE + 15):
            await tab.viewer.admit()
        waited_s = asyncio.get_running_loop().time() - began_s
        assert waited_s >= 15 / MESSAGES_PER_S * 0.9
        await tab.close()

    run(job)
