from collections.abc import Sequence

from typing_extensions import Buffer

def in_order(
    rows: dict[bytes, bytes | None], key_bytes_max: int
) -> tuple[list[tuple[bytes, bytes]], list[bytes]] | None:
    """Pairs of keys and values in the order of keys, and the keys of deletions in their order.

    None: a key is empty, or longer than `key_bytes_max`.
    """

def blocks_of(rows: dict[bytes, bytes | None], key_bytes_max: int, block_bytes: int) -> list[bytes] | None:
    """The rows in order, in blocks of at most `block_bytes`, or of one row.

    None: a key is empty, or longer than `key_bytes_max`.
    """

def count_of(block: Buffer) -> int:
    """The number of rows of a block."""

class Merge:
    """The rows of runs in the order of keys; of one key, the row of the last run counts, and a deletion leaves none.

    `runs` are lists of blocks, the oldest first. With `low`, rows begin at this key, or behind it without `with_low`.
    Blocks must not change until `close`. Raises ValueError: a block is damaged.
    """

    def __init__(self, runs: Sequence[Sequence[Buffer]], low: bytes | None = None, with_low: bool = True) -> None: ...
    @property
    def size_bytes(self) -> int:
        """Bytes of the keys and values that `rows` gave."""
    def close(self) -> None:
        """Let the blocks go. Later calls do nothing, and there are no more rows."""
    def rows(self, count: int) -> list[tuple[bytes, bytes]]:
        """At most `count` pairs of key and value that come next; fewer: these are the last ones."""
