"""Counts the iterations of the event loop while code runs, to check that it lets other tasks run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class LoopTurns:
    """The number of times that another task ran."""

    count = 0


@contextmanager
def counted_turns() -> Iterator[LoopTurns]:
    """Run a task that counts until the end of the block."""
    turns = LoopTurns()

    async def other() -> None:
        while True:
            turns.count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    try:
        yield turns
    finally:
        task.cancel()
