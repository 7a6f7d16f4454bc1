"""Reads input that may block, outside of the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

from broker_cy.admin import ClientError, Failure

T = TypeVar("T")

READ_BYTES = 1 << 20
# The largest frame. Input without any delimiter is refused when it exceeds this.
RECORD_BYTES_MAX = 100 << 20
# Pieces that were read but not taken yet.
QUEUED_MAX = 2


def split(descriptor: int, delimiter: bytes) -> Iterator[list[bytes]]:
    """Yield the pieces between delimiters, one list for each read; the last piece is omitted if it is empty.

    Raises ClientError if a record is larger than RECORD_BYTES_MAX. Reads the descriptor directly, because the process
    could not exit while a thread waits in a Python file object.
    """
    held = bytearray()
    while data := os.read(descriptor, READ_BYTES):
        # A delimiter may begin in the bytes that were read before.
        search_from = max(0, len(held) - len(delimiter) + 1)
        held += data
        pieces = []
        start = 0
        while (end := held.find(delimiter, max(start, search_from))) >= 0:
            pieces.append(bytes(held[start:end]))
            start = end + len(delimiter)
        del held[:start]
        if len(held) > RECORD_BYTES_MAX:
            raise ClientError(
                Failure.INVALID, f"a record of more than {RECORD_BYTES_MAX:,} bytes: is the delimiter {delimiter!r}?"
            )
        if pieces:
            yield pieces
    if held:
        yield [bytes(held)]


async def feed(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield `items`, which a thread produces that is never joined, because reading a terminal may block it forever."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[T | Exception | None] = asyncio.Queue()
    # Bounds the queue. The thread passes no coroutine to the loop: after Ctrl-C the loop would not run it, and Python
    # would report that on stderr.
    room = threading.Semaphore(QUEUED_MAX)

    def put(item: T | Exception | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(queue.put_nowait, item)

    def run() -> None:
        last: Exception | None = None
        try:
            for item in items:
                put(item)
        except Exception as error:
            last = error
        try:
            put(last)
        except RuntimeError:
            # The loop ended before the input did, and the queue is no longer read.
            return

    threading.Thread(target=run, name="input", daemon=True).start()
    while True:
        item = await queue.get()
        room.release()
        if item is None:
            return
        if isinstance(item, Exception):
            raise item
        yield item
