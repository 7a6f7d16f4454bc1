"""Feeds: each repeats one request to the cluster while it has subscribers.

The last answer is kept, with its age and the reason why there is no newer one: each feed fails and recovers
independently. Any number of subscribers share one feed, and so one request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.listeners import Listener, Listeners, LoopOwner, call

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

# Time limit of one request. The next one is sent `interval_s` after it ended, so that a slow broker has only one.
TIMEOUT_S = 10.0
# A subscriber that returns sees the last answer before the next request is sent.
FIRST_REQUEST_DELAY_S = 0.2
# Feeds without subscribers whose last answers are kept, to be shown immediately to a subscriber that returns.
IDLE_FEEDS_MAX = 32


class Feed(Generic[T]):
    """One request. `value` is the last answer, None before the first; `error` says why there is no newer one."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[T]],
        interval_s: float,
        timeout_s: float = TIMEOUT_S,
        owner: LoopOwner | None = None,
    ) -> None:
        self._fetch = fetch
        self.interval_s = interval_s
        self.timeout_s = timeout_s
        self._owner = owner or LoopOwner()
        self.value: T | None = None
        self.failure: ClientError | None = None
        self._answered_at_s: float | None = None
        self._listeners = Listeners()
        self._task: asyncio.Task[None] | None = None
        self._kicked = asyncio.Event()
        self.answers = 0
        self._attempts = 0

    @property
    def error(self) -> str | None:
        """Return why the last request failed; None if it did not."""
        return None if self.failure is None else str(self.failure)

    @property
    def age_s(self) -> float | None:
        """Return the age of `value`; None before the first answer."""
        if self._answered_at_s is None:
            return None
        return asyncio.get_running_loop().time() - self._answered_at_s

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> None:
        """Send requests from now on, and call `listener` after each answer and each failure."""
        self._owner.check()
        self._listeners.add(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        if self._answered_at_s is not None or self.failure is not None:
            call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling `listener`. Without listeners no requests are sent."""
        self._listeners.remove(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    def kick(self) -> None:
        """Send the next request now."""
        self._kicked.set()

    async def fresh(self, max_age_s: float) -> T:
        """Return a value that is at most `age_s` old: the last one, or that of the next request. Raises ClientError."""
        age_s = self.age_s
        if self.value is not None and age_s is not None and age_s <= max_age_s:
            return self.value
        before, called = self._attempts, asyncio.Event()
        self.subscribe(called.set)
        try:
            self.kick()
            while self._attempts == before:
                called.clear()
                await called.wait()
        finally:
            self.unsubscribe(called.set)
        if self.failure is not None:
            raise self.failure
        assert self.value is not None
        return self.value

    async def _run(self) -> None:
        if self.value is not None:
            await self._pause(FIRST_REQUEST_DELAY_S)
        while True:
            self._kicked.clear()
            await self._ask()
            self._listeners.call()
            await self._pause(self.interval_s)

    async def _pause(self, seconds: float) -> None:
        """Wait for this long, or until the feed is kicked."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._kicked.wait()

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                value = await self._fetch()
        except ClientError as error:
            self.failure = error
        except TimeoutError:
            self.failure = ClientError(Failure.TIMED_OUT, f"no answer within {self.timeout_s:g} s")
        except Exception as error:
            # A bug in reading one answer: this feed reports it, and all other feeds continue.
            _LOG.exception("a feed failed")
            self.failure = ClientError(Failure.MALFORMED, f"{type(error).__name__}: {error}")
        else:
            self.value, self.failure = value, None
            self.answers += 1
            self._answered_at_s = asyncio.get_running_loop().time()
        self._attempts += 1


class Feeds:
    """Feeds by the subject of their requests. The most recently used idle feeds are kept."""

    def __init__(self, owner: LoopOwner | None = None) -> None:
        self._owner = owner or LoopOwner()
        self._feeds: OrderedDict[Hashable, Feed[Any]] = OrderedDict()

    def get(
        self, key: Hashable, fetch: Callable[[], Awaitable[T]], interval_s: float, timeout_s: float = TIMEOUT_S
    ) -> Feed[T]:
        """Return the feed of `key`, creating it if necessary."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(fetch, interval_s, timeout_s, self._owner)
        self._feeds.move_to_end(key)
        idle = [each for each, other in self._feeds.items() if not other.is_watched and each != key]
        for each in idle[: max(0, len(idle) - IDLE_FEEDS_MAX)]:
            del self._feeds[each]
        return cast("Feed[T]", feed)

    def kick_all(self) -> None:
        """Refresh every feed that has subscribers. The others are dropped, because their answers may be outdated."""
        for key, feed in list(self._feeds.items()):
            if feed.is_watched:
                feed.kick()
            else:
                del self._feeds[key]
