"""A channel in use: its sources are followed, its state is computed, and each new frame is offered to its viewers.

The state is computed at most once every MIN_INTERVAL_S, and never takes more than a twentieth of a core: after a
computation the channel rests for REST_FACTOR times as long as it took. One computation follows, even if several sources
call in that time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from broker_cy.client.errors import ClientError
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from dashboard.collector.channel import Channel
from dashboard.collector.frames import Frame, Health
from dashboard.collector.patches import State

_LOG = logging.getLogger(__name__)

MIN_INTERVAL_S = 0.1
REST_FACTOR = 20
# An error of a computation is retried after this time even if no source calls.
RETRY_S = 5.0


class Receiver(Protocol):
    """A viewer."""

    def offer(self, live: LiveChannel) -> None:
        """Note that `live.frame` is new. Must not wait."""


class LiveChannel:
    """`frame` is the newest, None before the first. `viewers` are offered each new one."""

    def __init__(self, key: str, channel: Channel) -> None:
        self.key = key
        self.channel = channel
        self.frame: Frame | None = None
        self.viewers: set[Receiver] = set()
        self.computations = 0
        self._sources: list[Source] = []
        self._dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sources = list(self.channel.sources())
        self._dirty.set()
        for source in self._sources:
            source.subscribe(self._dirty.set)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        for source in self._sources:
            source.unsubscribe(self._dirty.set)
        self._sources = []
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.channel.close()

    def add(self, viewer: Receiver) -> None:
        """Add a viewer, and offer it the frame if there is one; it is computed again if the channel had no viewers."""
        if not self.viewers:
            self._dirty.set()
        self.viewers.add(viewer)
        if self.frame is not None:
            viewer.offer(self)

    def kick(self) -> None:
        """Compute again now, for a channel whose own parameters changed."""
        self._dirty.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            # A channel without viewers computes nothing: the next viewer sets it again.
            if not self.viewers:
                continue
            began_s = loop.time()
            failed = await self._compute()
            await asyncio.sleep(max(MIN_INTERVAL_S, (loop.time() - began_s) * REST_FACTOR))
            if failed:
                loop.call_later(RETRY_S, self._dirty.set)

    async def _compute(self) -> bool:
        """Publish the next frame; returns whether the computation failed."""
        state: State | None = None
        error = ""
        try:
            state = await self.channel.state()
        except ClientError as refused:
            error = str(refused)
        except Exception as bug:
            # One panel reports it; all others continue.
            _LOG.exception("channel %s failed", self.key)
            error = f"{type(bug).__name__}: {bug}"
        self.computations += 1
        health = self.channel.health()
        if error:
            health = Health(health.age_ms, error, health.is_absent)
        self._publish(state, health)
        return bool(error)

    def _publish(self, state: State | None, health: Health) -> None:
        last = self.frame
        before = None if last is None else last.state
        if state is None and health.error:
            # The last data stays visible, with the reason why there is nothing newer.
            state = before
        if (
            last is not None
            and state == before
            and (health.error, health.is_absent) == (last.health.error, last.health.is_absent)
            and health.age_ms is not None
            and last.health.age_ms is not None
            and not self._needs_age(last, health)
        ):
            return
        seq = 0 if last is None else last.seq + 1
        self.frame = Frame(self.key, seq, now_ms(), health, state, before)
        for viewer in list(self.viewers):
            viewer.offer(self)

    @staticmethod
    def _needs_age(last: Frame, health: Health) -> bool:
        """Whether viewers need a frame to learn that unchanged data is current: they count from the last frame."""
        assert health.age_ms is not None
        assert last.health.age_ms is not None
        since_ms = now_ms() - last.at_ms
        # This is immediate if they count the age of an older answer.
        return since_ms >= 1_000 or last.health.age_ms + since_ms - health.age_ms >= 1_000
