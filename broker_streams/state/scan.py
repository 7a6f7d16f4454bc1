"""Iterations over a map of a file, in chunks: an iteration over a large map keeps few rows in memory.

An iteration shows the map as it was when it began. A write changes the file below it; before that, `detach` reads the
rest into memory. Iterations that were given up cost nothing: the file knows only those that somebody still holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from broker_streams.state.file import TaskFile
from broker_streams.state.rows import PLAIN_BYTES, Row, bucket_rows, cut

# Rows of the first chunk: most ranges of joins and windows are short. Each further one is larger, up to the last.
FIRST_ROWS: Final = 16
CHUNK_ROWS: Final = 1024


class Range:
    """A range of a map that is read chunk by chunk: `rows` has the next ones until `is_over`."""

    __slots__ = ("_cursor", "_file", "_handle", "_high", "_low", "_reverse", "_size", "_with_high", "is_over")

    def __init__(
        self, file: TaskFile, handle: Any, low: bytes | None, high: bytes | None, with_high: bool, reverse: bool
    ) -> None:
        self._file, self._handle = file, handle
        self._low, self._high, self._with_high, self._reverse = low, high, with_high, reverse
        self._size = FIRST_ROWS
        self.is_over = False

    def rows(self) -> list[Row]:
        """The next rows in order; there may be none although the range is not over."""
        size = self._size
        self._size = min(2 * size, CHUNK_ROWS)
        return self._backwards(size) if self._reverse else self._forwards(size)

    def _forwards(self, size: int) -> list[Row]:
        cursor = self._file.cursor(self._handle)
        low, high = self._low, self._high
        found = cursor.set_range(low[:PLAIN_BYTES]) if low else cursor.first()
        read = list(islice(cursor.iternext(), size)) if found else []
        last = read[-1][0] if read else b""
        self.is_over = len(read) < size or (high is not None and last > high)
        rows = cut(expanded(read), low, high, self._with_high)
        # The next chunk begins after the last physical row, with all that is in its bucket.
        self._low = last + b"\0" if len(last) < PLAIN_BYTES else next_bucket(last)
        self.is_over |= self._low is None
        return rows

    def _backwards(self, size: int) -> list[Row]:
        cursor = self._file.cursor(self._handle)
        low, high = self._low, self._high
        found = cursor.last()
        if high is not None and cursor.set_range(high[:PLAIN_BYTES]):
            # The row there is the first one that is not below; a bucket there may have rows on both sides.
            found = cursor.key() == high[:PLAIN_BYTES] or cursor.prev()
        elif high is not None:
            found = cursor.last()
        read = list(islice(cursor.iterprev(), size)) if found else []
        first = read[-1][0] if read else b""
        self.is_over = len(read) < size or (low is not None and first < low[:PLAIN_BYTES])
        read.reverse()
        rows = cut(expanded(read), low, high, self._with_high)
        rows.reverse()
        self._high, self._with_high = first, False
        return rows


class RunRange:
    """The same of a map that is being restored; in reverse, it reads all at once."""

    __slots__ = ("_file", "_high", "_low", "_name", "_reverse", "_size", "_with_high", "is_over")

    def __init__(
        self, file: TaskFile, name: str, low: bytes | None, high: bytes | None, with_high: bool, reverse: bool
    ) -> None:
        self._file, self._name = file, name
        self._low, self._high, self._with_high, self._reverse = low, high, with_high, reverse
        self._size = CHUNK_ROWS if reverse else FIRST_ROWS
        self.is_over = False

    def rows(self) -> list[Row]:
        rows = self._next()
        while self._reverse and not self.is_over:
            rows += self._next()
        if self._reverse:
            rows.reverse()
        return rows

    def _next(self) -> list[Row]:
        size = self._size
        self._size = min(2 * size, CHUNK_ROWS)
        read = self._file.run_rows(self._name, self._low, size)
        high = self._high
        self.is_over = len(read) < size or (high is not None and read[-1][0] > high)
        if read:
            self._low = read[-1][0] + b"\0"
        return cut(read, None, high, self._with_high)


def next_bucket(prefix: bytes) -> bytes | None:
    """The first key that does not begin with a bucket's; None: there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def expanded(rows: list[Row]) -> list[Row]:
    """The rows of keys, in place of buckets."""
    if not any(len(key) >= PLAIN_BYTES for key, _ in rows):
        return rows
    found: list[Row] = []
    for key, value in rows:
        found += bucket_rows(key, value) if len(key) >= PLAIN_BYTES else [(key, value)]
    return found


class Scan:
    """The rows of a range, as an iterator that can be detached from its file."""

    __slots__ = ("__weakref__", "_range", "_rows")

    def __init__(self, of: Range | RunRange, first: list[Row]) -> None:
        self._range: Range | RunRange | None = of
        self._rows: Iterator[Row] = iter(first)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = next(self._rows, None)
        while row is None:
            of = self._range
            if of is None or of.is_over:
                raise StopIteration
            self._rows = iter(of.rows())
            row = next(self._rows, None)
        return row

    def detach(self) -> None:
        """Read the rest."""
        of, self._range = self._range, None
        if of is None:
            return
        rows = list(self._rows)
        while not of.is_over:
            rows += of.rows()
        self._rows = iter(rows)
