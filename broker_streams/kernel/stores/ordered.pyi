from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

CHUNK: Final[int]
"""Keys of a chunk; a chunk of twice as many is split."""
FEW: Final[int]
"""This many waiting keys are inserted one by one; more of them are sorted together with a large part of all keys."""

class OrderedKeys:
    """A set of keys. The caller adds a key that is absent, and removes a key that is present."""

    add: Callable[[bytes], None]
    def __init__(self, chunk_keys: int = ..., few: int = ...) -> None: ...
    def add_all(self, keys: Iterable[bytes]) -> None:
        """Add keys that are absent."""
    def clear(self) -> None: ...
    def remove(self, key: bytes) -> None: ...
    def between(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> list[bytes]:
        """A copy of the keys from `low` to `high` in their order; None: no bound."""
    def first_from(self, low: bytes) -> bytes | None:
        """The first key that is not below `low`."""
    def last_below(self, high: bytes) -> bytes | None:
        """The last key below `high`."""
    def __iter__(self) -> Iterator[bytes]: ...
    def __len__(self) -> int: ...

class OrderedMap:
    """Values by keys. An iteration is a snapshot: it shows what the map held when it began."""

    get: Callable[[bytes], bytes | None]
    def __init__(self) -> None: ...
    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None removes the key."""
    def put_all(self, rows: Mapping[bytes, bytes | None]) -> None: ...
    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs from `low` to `high`; None: no bound."""
    def clear(self) -> None: ...
    def __len__(self) -> int: ...
    def estimate(self) -> int: ...
