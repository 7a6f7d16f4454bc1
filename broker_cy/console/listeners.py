"""Listeners, which are called when something is new; and the event loop that a session belongs to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

Listener = Callable[[], None]
_LOG = logging.getLogger(__name__)


class Source(Protocol):
    """What a panel shows: a feed, a history or a watch of alerts."""

    @property
    def error(self) -> str | None:
        """Why there is nothing newer."""

    @property
    def age_s(self) -> float | None:
        """How old the newest is; None before the first."""

    def subscribe(self, listener: Listener, /) -> None: ...
    def unsubscribe(self, listener: Listener, /) -> None: ...


class Listeners:
    """Callbacks without arguments. One that raises is logged, and keeps no other from being called."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Removes it once; one that is not there is ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def call(self) -> None:
        for listener in list(self._listeners):
            call(listener)


def call(listener: Listener) -> None:
    """Call one listener; what it raises is logged."""
    try:
        listener()
    except Exception:
        _LOG.exception("a listener of the console core failed")


class LoopOwner:
    """The event loop of a session: the first one that used it. Clients and their connections work in no other."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raises RuntimeError outside of the owning loop: a feed shared by two loops would be asked by neither."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise RuntimeError("this session belongs to another event loop")
