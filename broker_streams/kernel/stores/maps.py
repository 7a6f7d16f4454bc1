"""Where the rows of stores are: the interface that hosts implement for stores on disk, and the maps in memory.

A store opens its maps by name, and finds in them what they had at its last commit. It keeps the rest of its knowledge,
such as the time up to which it saw records, as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from broker_streams.kernel.stores.ordered import OrderedMap
from broker_streams.plan.stores import Store

Numbers = tuple[int, ...]


class RowMap(Protocol):
    """Values by keys. An iteration is a snapshot: it shows what the map held when it began."""

    # The value of a key, or None.
    get: Callable[[bytes], bytes | None]

    def put(self, key: bytes, value: bytes | None, /) -> None:
        """Set the value of a key; None removes the key."""

    def put_all(self, rows: Mapping[bytes, bytes | None], /) -> None:
        """Put many rows: cheaper than one by one."""

    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs from `low` to `high`; None: no bound."""

    def __len__(self) -> int: ...

    def estimate(self) -> int:
        """About how many rows there are, at the cost of a few reads."""


class Maps(Protocol):
    """The maps of one store."""

    def open(self, name: str) -> RowMap:
        """The map of this name, with its rows of before. Called once for a name, or again after `drop`."""

    def names(self) -> Iterable[str]:
        """The maps that have rows of before."""

    def drop(self, name: str) -> None:
        """Forget a map with all rows."""

    def numbers(self, name: str, read: Callable[[], Numbers]) -> Numbers | None:
        """The numbers of before, or None. `read` returns those of now; it is called at each commit."""


class MemoryMaps:
    """Maps that begin empty."""

    def open(self, name: str) -> RowMap:
        return OrderedMap()

    def names(self) -> Iterable[str]:
        return ()

    def drop(self, name: str) -> None:
        """The store lets go of the map, and so its rows are gone."""

    def numbers(self, name: str, read: Callable[[], Numbers]) -> Numbers | None:
        return None


MEMORY: Final = MemoryMaps()
# The maps of a store that is persistent; all others are in memory.
OpenMaps = Callable[[Store], Maps]


def in_memory(store: Store) -> Maps:
    return MEMORY
