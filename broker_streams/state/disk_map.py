"""The maps of a store: changed rows in memory above the rows of a file.

Rows that changed since the last write lie in a dictionary. `freeze` sets them aside for a write, and later changes lie
above them; after the write they stay as a cache of the file until the next freeze. So a read looks at two dictionaries
and then at the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast
from weakref import WeakSet

from broker_streams.kernel.stores.maps import Numbers
from broker_streams.kernel.stores.merge import merged
from broker_streams.kernel.stores.ordered import OrderedKeys
from broker_streams.state.file import NUMBERS, TaskFile
from broker_streams.state.rows import PLAIN_BYTES, Row, bucket_rows
from broker_streams.state.scan import Range, RunRange, Scan
from broker_streams.state.writing import Change

Get = Callable[[bytes], "bytes | None"]
Put = Callable[[bytes, "bytes | None"], None]
_MISSING: Final = cast(bytes, object())
# Python's own bytes for a row: two objects of bytes, and its places in the dictionary and in the order of keys.
ROW_BYTES: Final = 200
# Changed rows that an estimate looks up in the file: less than a millisecond.
COUNTED_MAX: Final = 500


class DiskMap:
    """One map. `bytes_changed` grows with each put, by the size of the value: it bounds the memory of changed rows."""

    __slots__ = (
        "__weakref__",
        "_bind",
        "_bytes_loaded",
        "_file",
        "_frozen",
        "_frozen_keys",
        "_handle",
        "_is_frozen_new",
        "_keys",
        "_rows",
        "_scans",
        "bytes_changed",
        "get",
        "name",
        "put",
    )

    def __init__(self, file: TaskFile, name: str) -> None:
        self.name = name
        self._file = file
        self._handle = file.handle(name)
        self._rows: dict[bytes, bytes | None] = {}
        self._keys = OrderedKeys()
        self._frozen: dict[bytes, bytes | None] = {}
        self._frozen_keys = OrderedKeys()
        # Whether the frozen rows are not in the file yet.
        self._is_frozen_new = False
        self._scans: WeakSet[Scan] = WeakSet()
        self.bytes_changed = 0
        # Those of `put_all`.
        self._bytes_loaded = 0
        self.get, self.put, self._bind = self._calls()
        file.watch(self)

    def _calls(self) -> tuple[Get, Put, Callable[[], None]]:
        """`get`, `put`, and the call that shows them the dictionaries of now. Stores keep the first two, and each
        record calls them, so they are closures that never change.
        """
        rows, frozen, handle, add = self._rows, self._frozen, self._handle, self._keys.add
        missing, read, special = _MISSING, self._file.get, self._special

        def get(key: bytes) -> bytes | None:
            value = rows.get(key, missing)
            if value is not missing:
                return value
            if frozen:
                value = frozen.get(key, missing)
                if value is not missing:
                    return value
            if handle is None or not 0 < len(key) < PLAIN_BYTES:
                return special(key)
            return read(key, None, handle)

        def put(key: bytes, value: bytes | None) -> None:
            if key not in rows:
                add(key)
            rows[key] = value
            self.bytes_changed += 1 if value is None else 1 + len(value)

        def bind() -> None:
            nonlocal rows, frozen, handle, add, read
            rows, frozen, handle, add = self._rows, self._frozen, self._handle, self._keys.add
            read = self._file.get

        return get, put, bind

    def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        known = self._rows
        before = len(known)
        known.update(rows)
        # New keys are the last ones of a dictionary.
        self._keys.add_all(islice(reversed(known), len(known) - before))
        size = len(rows) + sum(map(len, filter(None, rows.values())))
        self.bytes_changed += size
        self._bytes_loaded += size

    def _special(self, key: bytes) -> bytes | None:
        """A row of the file whose key LMDB does not take."""
        if not key:
            return self._file.empty_key(self.name)
        if self._file.has_runs(self.name):
            found = self._file.run_rows(self.name, key, 1)
            return found[0][1] if found and found[0][0] == key else None
        if self._handle is None or len(key) < PLAIN_BYTES:
            return None
        prefix = key[:PLAIN_BYTES]
        return dict(bucket_rows(prefix, self._file.get(prefix, None, self._handle))).get(key)

    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[Row]:
        changed = self._changed(low, high, with_high, reverse)
        if not low and (with_high or high != b"") and (not changed or changed[-1 if reverse else 0][0]):
            # The key that LMDB does not take is the first of all.
            empty = self._file.empty_key(self.name)
            if empty is not None:
                changed.insert(len(changed) if reverse else 0, (b"", empty))
        of: Range | RunRange
        if self._file.has_runs(self.name) and high != b"":
            of = RunRange(self._file, self.name, low, high, with_high, reverse)
        elif self._handle is None or high == b"":
            return iter([(key, value) for key, value in changed if value is not None])
        else:
            of = Range(self._file, self._handle, low, high, with_high, reverse)
        stored = of.rows()
        if not of.is_over:
            scan = Scan(of, stored)
            self._scans.add(scan)
            return merged(iter(changed), scan, _same, reverse) if changed else scan
        if not changed:
            return iter(stored)
        rows: dict[bytes, bytes | None] = dict(stored)
        rows.update(changed)
        kept: list[Any] = [row for row in rows.items() if row[1] is not None]
        kept.sort(reverse=reverse)
        return iter(kept)

    def _changed(
        self, low: bytes | None, high: bytes | None, with_high: bool, reverse: bool
    ) -> list[tuple[bytes, bytes | None]]:
        """Rows in memory that are not those of the file."""
        rows = self._rows
        keys = self._keys.between(low, high, with_high, reverse) if rows else []
        found = list(zip(keys, map(rows.__getitem__, keys), strict=True))
        if self._is_frozen_new:
            frozen = self._frozen
            older = self._frozen_keys.between(low, high, with_high, reverse)
            if older:
                both = {key: frozen[key] for key in older}
                both.update(found)
                return sorted(both.items(), key=_key, reverse=reverse)
        return found

    def __len__(self) -> int:
        """The number of rows; a bucket of long keys counts as one. Each call reads the changed keys in the file."""
        if self._file.has_runs(self.name):
            return sum(1 for _ in self.items())
        count = 0 if self._handle is None else self._file.entries(self._handle)
        count += self._file.empty_key(self.name) is not None
        changed = {**self._frozen, **self._rows} if self._is_frozen_new else self._rows
        for key, value in changed.items():
            count += (value is not None) - (self._read(key) is not None)
        return count

    def estimate(self) -> int:
        """The number of rows; where many have changed, a row that was changed counts twice."""
        changed = len(self._rows) + (len(self._frozen) if self._is_frozen_new else 0)
        if self._file.has_runs(self.name):
            return changed + self._file.run_count(self.name)
        if changed <= COUNTED_MAX:
            return len(self)
        return changed + (0 if self._handle is None else self._file.entries(self._handle))

    def _read(self, key: bytes) -> bytes | None:
        if self._handle is not None and 0 < len(key) < PLAIN_BYTES:
            return self._file.get(key, None, self._handle)
        return self._special(key)

    @property
    def takes_runs(self) -> bool:
        """Whether changed rows were loaded, and the file has no rows of the map but those of runs."""
        file = self._file
        if self._bytes_loaded != self.bytes_changed:
            return False
        return self._handle is None or file.has_runs(self.name) or file.entries(self._handle) == 0

    @property
    def memory_bytes(self) -> int:
        """About the memory of the changed rows."""
        return self.bytes_changed + ROW_BYTES * len(self._rows)

    def freeze(self) -> Change | None:
        """Set the changed rows aside for a write; None: there are none. Not called again before `written`."""
        self._frozen, self._frozen_keys = self._rows, self._keys
        self._rows, self._keys = {}, OrderedKeys()
        self._is_frozen_new = bool(self._frozen)
        is_loaded = self._bytes_loaded == self.bytes_changed
        self.bytes_changed = self._bytes_loaded = 0
        self._bind()
        return Change(self.name, self._frozen, is_loaded) if self._frozen else None

    def detach(self) -> None:
        """Let iterations read on without the file, which is about to change."""
        for scan in list(self._scans):
            scan.detach()
        self._scans.clear()

    def written(self, *, is_kept: bool = True) -> None:
        """The file has the frozen rows now; with `is_kept`, they stay as a cache of it."""
        self._is_frozen_new = False
        if not is_kept:
            self._frozen, self._frozen_keys = {}, OrderedKeys()
            self._bind()

    def renewed(self) -> None:
        """The file was written, or is read by other means."""
        self._handle = self._file.handle(self.name)
        self._bind()

    def forget(self) -> None:
        """The map was dropped: it is empty from now on."""
        self._rows, self._keys, self._frozen, self._frozen_keys = {}, OrderedKeys(), {}, OrderedKeys()
        self._is_frozen_new, self._handle, self.bytes_changed, self._bytes_loaded = False, None, 0, 0
        self._bind()


class DiskMaps:
    """The maps of one store of a task."""

    def __init__(self, file: TaskFile, store: str) -> None:
        self._file, self._store = file, store
        self._maps: dict[str, DiskMap] = {}
        self._dropped: list[DiskMap] = []
        self._numbers: dict[str, Callable[[], Numbers]] = {}

    def _full(self, name: str) -> str:
        return f"{self._store}/{name}"

    def open(self, name: str) -> DiskMap:
        made = self._maps[name] = DiskMap(self._file, self._full(name))
        return made

    def names(self) -> Iterable[str]:
        prefix = self._full("")
        return [name.removeprefix(prefix) for name in self._file.names() if name.startswith(prefix)]

    def drop(self, name: str) -> None:
        gone = self._maps.pop(name, None)
        if gone is not None:
            self._dropped.append(gone)

    def _numbers_key(self, name: str) -> bytes:
        return NUMBERS + self._full(name).encode()

    def numbers(self, name: str, read: Callable[[], Numbers]) -> Numbers | None:
        self._numbers[name] = read
        data = self._file.meta(self._numbers_key(name))
        return None if data is None else tuple(int(part) for part in data.split())

    # ---- for the state of the task

    @property
    def memory_bytes(self) -> int:
        return sum(each.memory_bytes for each in self._maps.values())

    @property
    def takes_runs(self) -> bool:
        return all(each.takes_runs for each in self._maps.values() if each.bytes_changed)

    @property
    def rows_changed(self) -> int:
        return sum(len(each._rows) for each in self._maps.values())

    @property
    def bytes_changed(self) -> int:
        return sum(each.bytes_changed for each in self._maps.values()) + len(self._dropped)

    def freeze(self) -> tuple[list[Change], dict[bytes, bytes | None], list[DiskMap]]:
        """Changed rows, the numbers of now, and dropped maps."""
        changes = [change for each in self._maps.values() if (change := each.freeze()) is not None]
        numbers: dict[bytes, bytes | None] = {
            self._numbers_key(name): b" ".join(b"%d" % number for number in read())
            for name, read in self._numbers.items()
        }
        dropped, self._dropped = self._dropped, []
        return changes, numbers, dropped

    def detach(self) -> None:
        for each in self._maps.values():
            each.detach()

    def written(self, *, is_kept: bool = True) -> None:
        for each in self._maps.values():
            each.written(is_kept=is_kept)


def _same(key: bytes) -> bytes:
    return key


def _key(row: tuple[bytes, Any]) -> bytes:
    return row[0]
