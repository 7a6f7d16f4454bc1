"""Lookups in a log that may meet parts of files which left the page cache: a worker reads those, never the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from broker_cy.storage.errors import ColdRead
from broker_cy.storage.lookups import confined
from broker_cy.storage.page_cache import warm_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.server.broker import Broker

T = TypeVar("T")


async def look_up(broker: Broker, function: Callable[..., T], *arguments: object) -> T:
    """What `function(*arguments)` gives, called again after each part of a file that had to be read first.

    The function may be called any number of times, with anything else happening in between. A part that is gone again
    although it was just read is waited for: memory is then so short that nothing else would come to an end.
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
