"""Input that a thread reads for the event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from broker_cy.commands.feeder import feed


def test_items_arrive_in_order_and_an_error_after_them() -> None:
    """If this fails, lines are lost or mixed up, or an unreadable input looks like its end."""

    def items() -> Iterator[int]:
        yield from range(100)
        raise OSError("the disk is gone")

    found: list[int] = []

    async def read() -> None:
        async for item in feed(items()):
            found.append(item)

    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(read())
    assert found == list(range(100))


def test_input_that_ends_after_the_loop_is_ignored(recwarn: pytest.WarningsRecorder) -> None:
    """If this fails, Ctrl-C prints a warning about a coroutine that was never awaited."""
    loop_has_ended = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        loop_has_ended.wait(30)
        yield 2

    async def read() -> int:
        async for item in feed(items()):
            return item
        return 0

    assert asyncio.run(read()) == 1
    (reader,) = [each for each in threading.enumerate() if each.name == "input"]
    loop_has_ended.set()
    reader.join(30)
    assert not reader.is_alive()
    gc.collect()
    assert [str(each.message) for each in recwarn.list] == []
