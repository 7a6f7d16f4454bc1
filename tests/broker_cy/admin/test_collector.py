"""The console's garbage is collected while no keys are pressed, and never grows without bound."""

from __future__ import annotations

import asyncio
import gc

from broker_cy.admin.collector import (
    FULL_AT_LATEST_S,
    FULL_EVERY_S,
    GROWTH_MAX_BYTES,
    QUIET_S,
    IdleCollector,
)


class World:
    """A clock, the memory of the process, and the collector's actions."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.memory_bytes = 1 << 30
        self.did: list[str] = []
        self.collector = IdleCollector(
            lambda: self.did.append("collect"),
            lambda: self.did.append("freeze"),
            lambda: self.now_s,
            lambda: self.memory_bytes,
        )

    def after(self, seconds: float, *, typing: bool = False) -> list[str]:
        """Let `seconds` pass; returns the actions of the next check."""
        self.did.clear()
        self.now_s += seconds
        if typing:
            self.collector.used()
        self.collector.look()
        return list(self.did)


def test_it_collects_when_it_is_quiet() -> None:
    """If this fails, a collection of a tenth of a second interrupts the typing of a word, or never happens."""
    world = World()
    assert world.after(QUIET_S / 2) == []
    assert world.after(QUIET_S) == ["collect", "freeze"]
    assert world.after(FULL_EVERY_S / 2) == []
    assert world.after(FULL_EVERY_S, typing=True) == []
    # Objects that are alive now are not excluded: they may become garbage with cycles.
    assert world.after(QUIET_S) == ["collect"]


def test_it_collects_in_the_end_while_somebody_always_types() -> None:
    """If this fails, memory grows for as long as keys are pressed."""
    world = World()
    assert world.after(QUIET_S) == ["collect", "freeze"]
    assert world.after(FULL_AT_LATEST_S / 2, typing=True) == []
    assert world.after(FULL_AT_LATEST_S / 2, typing=True) == ["collect"]
    world.memory_bytes += GROWTH_MAX_BYTES
    assert world.after(1.0, typing=True) == []
    world.memory_bytes += 1
    assert world.after(1.0, typing=True) == ["collect"]
    assert world.after(1.0, typing=True) == []


def test_automatic_collections_pause_while_it_runs() -> None:
    """If this fails, they scan a large response while it is decoded, or a program without a console never collects."""

    async def job() -> None:
        task = asyncio.create_task(IdleCollector().run())
        await asyncio.sleep(0)
        assert not gc.isenabled()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert gc.isenabled()

    asyncio.run(job())
