"""What is on the screen, kept fresh: a feed asks for one thing again and again while somebody looks at it.

The last answer stays, with its age and with why there is no newer one: each feed fails and recovers alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from broker_cy.admin.errors import AdminError

T = TypeVar("T")
Listener = Callable[[], None]

# How long one look may take; the next follows `interval_s` after its end, so that a slow broker is not asked twice.
TIMEOUT_S = 10.0
# What is known already is drawn before it is asked for anew.
FIRST_LOOK_S = 0.2
# Feeds that nobody looks at, whose last answers are kept to be shown at once when somebody comes back.
IDLE_FEEDS_MAX = 32


class Feed(Generic[T]):
    """One thing that is asked for. `value` is the last answer, None before the first; `error` why there is no newer."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], interval_s: float, timeout_s: float = TIMEOUT_S) -> None:
        self._fetch = fetch
        self.interval_s = interval_s
        self.timeout_s = timeout_s
        self.value: T | None = None
        self.error: str | None = None
        self._answered_at_s: float | None = None
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._kicked = asyncio.Event()
        self.answers = 0

    @property
    def age_s(self) -> float | None:
        """How old `value` is; None before the first answer."""
        if self._answered_at_s is None:
            return None
        return asyncio.get_running_loop().time() - self._answered_at_s

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> None:
        """Ask from now on, and call `listener` after each answer and each failure."""
        self._listeners.append(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        if self._answered_at_s is not None or self.error is not None:
            listener()

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling it; the last one to go stops the asking."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    def kick(self) -> None:
        """Ask now."""
        self._kicked.set()

    async def _run(self) -> None:
        if self.value is not None:
            # Who comes back sees the last answer first; reading the next one would hold its drawing up.
            await self._pause(FIRST_LOOK_S)
        while True:
            self._kicked.clear()
            await self._ask()
            for listener in list(self._listeners):
                listener()
            await self._pause(self.interval_s)

    async def _pause(self, seconds: float) -> None:
        """So long, or until it is kicked."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._kicked.wait()

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                value = await self._fetch()
        except AdminError as error:
            self.error = str(error)
        except TimeoutError:
            self.error = f"no answer within {self.timeout_s:g} s"
        else:
            self.value, self.error = value, None
            self.answers += 1
            self._answered_at_s = asyncio.get_running_loop().time()


class Feeds:
    """Feeds by what they are about; those that were looked at last are kept."""

    def __init__(self) -> None:
        self._feeds: OrderedDict[Hashable, Feed[Any]] = OrderedDict()

    def get(
        self, key: Hashable, fetch: Callable[[], Awaitable[T]], interval_s: float, timeout_s: float = TIMEOUT_S
    ) -> Feed[T]:
        """The feed of `key`, made where there is none."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(fetch, interval_s, timeout_s)
        self._feeds.move_to_end(key)
        idle = [each for each, other in self._feeds.items() if not other.is_watched and each != key]
        for each in idle[: max(0, len(idle) - IDLE_FEEDS_MAX)]:
            del self._feeds[each]
        return cast("Feed[T]", feed)

    def kick_all(self) -> None:
        """Ask anew for whatever is looked at; what is not is forgotten, as it may have changed."""
        for key, feed in list(self._feeds.items()):
            if feed.is_watched:
                feed.kick()
            else:
                del self._feeds[key]
