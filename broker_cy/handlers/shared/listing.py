"""Lists of all groups or transactional ids of this broker, made in parts: other requests are served between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

# Entries that one turn of the event loop looks at: 2 to 5 microseconds each, besides the check of its ACLs.
LISTED_PER_TURN: Final = 2_000

T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M")


def in_parts(
    entries: Sequence[T], look: Callable[[Sequence[T]], list[R]], response: Callable[[list[R]], M]
) -> M | Awaitable[M]:
    """Return `response` with what `look` makes of the entries, at most LISTED_PER_TURN of them in a turn."""
    if len(entries) <= LISTED_PER_TURN:
        return response(look(entries))
    return _in_parts(entries, look, response)


async def _in_parts(
    entries: Sequence[T], look: Callable[[Sequence[T]], list[R]], response: Callable[[list[R]], M]
) -> M:
    found: list[R] = []
    for begin in range(0, len(entries), LISTED_PER_TURN):
        found += look(entries[begin : begin + LISTED_PER_TURN])
        await asyncio.sleep(0)
    return response(found)
