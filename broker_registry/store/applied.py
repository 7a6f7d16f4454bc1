"""The state with the offsets of the records that made it."""

from __future__ import annotations

from collections import deque
from typing import Final

from broker_cy.admin.fetched import Chunk
from broker_registry.store.state import State

OFFSETS_MAX: Final = 10_000
"""The newest offsets that are kept: a writer asks for its last ones."""


class Applied:
    """`take` is the reader of the topic; `has` answers whether a record was committed."""

    def __init__(self, state: State) -> None:
        self.state = state
        # One more for each change, so that stored answers can tell that they are old.
        self.changes = 0
        self._offsets: deque[int] = deque(maxlen=OFFSETS_MAX)

    def take(self, chunk: Chunk) -> None:
        for record in chunk.records:
            self.state.apply(record.key, record.value, record.timestamp)
            self._offsets.append(record.offset)
        self.changes += 1

    def has(self, offset: int) -> bool:
        return offset in self._offsets
