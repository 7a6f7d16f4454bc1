"""Listeners, which are called with new data, and the event loop of a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

Listener = Callable[[], None]
_LOG = logging.getLogger(__name__)


class Source(Protocol):
    """A data source of a panel: a feed, a history or a watch of alerts."""

    @property
    def error(self) -> str | None:
        """Return why there is no newer data."""

    @property
    def age_s(self) -> float | None:
        """Return the age of the newest data; None before the first data."""

    def subscribe(self, listener: Listener, /) -> None: ...
    def unsubscribe(self, listener: Listener, /) -> None: ...


class Listeners:
    """Callbacks without arguments. An exception of one is logged, and the others are still called."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Remove a listener once; an unknown one is ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def call(self) -> None:
        for listener in list(self._listeners):
            call(listener)


def call(listener: Listener) -> None:
    """Call one listener, and log its exception."""
    try:
        listener()
    except Exception:
        _LOG.exception("a listener of the console core failed")


class LoopOwner:
    """The event loop of a session: the first one that used it. Clients and their connections work in no other loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise RuntimeError outside of the owning loop: a feed shared by two loops would not work in either."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise RuntimeError("this session belongs to another event loop")
