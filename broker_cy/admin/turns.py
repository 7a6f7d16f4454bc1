"""Taking turns: a long computation on the event loop lets other tasks run, such as a console's keys."""

from __future__ import annotations

import asyncio
import time
from typing import Final

# A key press takes some twenty turns of the loop, while several computations may be under way: 50 ms in all.
TURN_S: Final = 0.001


class Turns:
    """Call `pause` between parts of a computation: it yields once a turn has lasted for `turn_s`."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._until_s = time.perf_counter() + turn_s

    async def pause(self) -> None:
        if time.perf_counter() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + self._turn_s
