"""The age of unchanged data, which viewers count from the last frame."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from broker_cy.console.listeners import Source
from dashboard.collector.channel import Channel
from dashboard.collector.frames import Health
from dashboard.collector.hub import ClusterHub
from dashboard.collector.live_channel import LiveChannel
from dashboard.collector.patches import State
from dashboard.security.roles import Scope


class Aged(Channel):
    """Constant data, with the age from `ages_ms` at each computation; the last age repeats."""

    def __init__(self, ages_ms: list[int]) -> None:
        hub: Any = type("Hub", (), {"session": None})()
        super().__init__(cast(ClusterHub, hub), {}, Scope())
        self._ages_ms = ages_ms

    def sources(self) -> Sequence[Source]:
        return []

    async def state(self) -> State | None:
        return {"facts": []}

    def health(self) -> Health:
        return Health(self._ages_ms.pop(0) if len(self._ages_ms) > 1 else self._ages_ms[0])


class Ages:
    """A viewer that notes the age in each frame."""

    def __init__(self) -> None:
        self.seen: list[int | None] = []

    def offer(self, live: LiveChannel) -> None:
        assert live.frame is not None
        self.seen.append(live.frame.health.age_ms)


def ages_shown(ages_ms: list[int], computations: int) -> list[int | None]:
    async def run() -> list[int | None]:
        live, viewer = LiveChannel("key", Aged(ages_ms)), Ages()
        live.viewers.add(viewer)
        live.start()
        async with asyncio.timeout(60):
            while live.computations < computations:
                live.kick()
                await asyncio.sleep(0.01)
        await live.close()
        return viewer.seen

    return asyncio.run(run())


def test_a_newer_answer_with_the_same_data_is_told_at_once() -> None:
    """If this fails, a panel that was just refreshed shows for a whole interval that its data is a minute old."""
    assert ages_shown([60_000, 5], 3) == [60_000, 5]


def test_the_same_age_is_not_told_with_each_computation() -> None:
    """If this fails, every computation sends a frame to every viewer although nothing changed."""
    assert ages_shown([40, 20, 10, 5], 4) == [40]
