"""Lookups in a log that may need parts of files that are not in the page cache: a worker reads those, never the
loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from broker_cy.storage.errors import ColdRead
from broker_cy.storage.lookups import MaximumDeleted, confined, max_timestamp
from broker_cy.storage.page_cache import warm_path

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Executor

    from broker_cy.storage.log import Log

T = TypeVar("T")

# The log start may move while a worker searches; each deletion is one attempt more.
SEARCHES_MAX: Final = 10


class Reader(Protocol):
    """Whose lookups these are: the broker. `cold_reader` are the workers that read; None: the loop's default ones."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def cold_reader(self) -> Executor | None: ...


async def largest_timestamp(broker: Reader, log: Log) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record with the largest timestamp; None without records. If the record with the
    largest timestamp of its segment is deleted, a worker reads the headers of the others. Raises KafkaError, OSError.
    """
    searched: tuple[int, tuple[int, int] | None] | None = None
    for _ in range(SEARCHES_MAX):
        try:
            return await look_up(broker, max_timestamp, log, searched)
        except MaximumDeleted as deleted:
            try:
                found = await broker.loop.run_in_executor(broker.cold_reader, deleted.search)
            except FileNotFoundError:
                continue
            searched = deleted.base_offset, found
    return None


async def look_up(broker: Reader, function: Callable[..., T], *arguments: object) -> T:
    """Return `function(*arguments)`. It is called again each time a part of a file had to be read from the disk.

    The function may be called any number of times, with other work in between. If a part was evicted right after it was
    read, the caller waits before the next attempt: memory is so short that nothing else would finish.
    """
    read: set[tuple[str, int]] = set()
    while True:
        found = confined(function, *arguments)
        if not isinstance(found, ColdRead):
            return found
        part = found.path, found.position
        if part in read:
            return function(*arguments)
        read.add(part)
        await broker.loop.run_in_executor(broker.cold_reader, warm_path, found.path, found.position, found.size)
