"""Turns: a long computation on the event loop lets other tasks run, such as those that handle a console's keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from broker_cy.core.clock import MACHINE_CLOCK, Clock

# A key press takes some twenty turns of the loop, while several computations may be under way: 50 ms in all.
TURN_S: Final = 0.001
# How long a computation waits between two turns for urgent work. It continues even if keys never stop.
HELD_S: Final = 0.01


class Urgent:
    """Urgent work, such as the effect of a key. While it runs, computations take at most one turn per HELD_S."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: list[asyncio.Future[None]] = []

    @contextmanager
    def under_way(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                waiting, self._waiting = self._waiting, []
                for each in waiting:
                    if not each.done():
                        each.set_result(None)

    async def let_by(self) -> None:
        """Wait until nothing urgent is under way, for HELD_S at most."""
        if not self._under_way:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_S):
                    await done
        finally:
            if done in self._waiting:
                self._waiting.remove(done)


# A process has only one event loop that serves a person.
URGENT: Final = Urgent()


class Turns:
    """Call `pause` between parts of a computation: it yields once a turn has lasted for `turn_s`."""

    def __init__(self, turn_s: float = TURN_S, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._turn_s = turn_s
        self._until_s = self._clock.monotonic() + turn_s

    async def pause(self) -> None:
        if self._clock.monotonic() >= self._until_s:
            await asyncio.sleep(0)
            await URGENT.let_by()
            self._until_s = self._clock.monotonic() + self._turn_s
