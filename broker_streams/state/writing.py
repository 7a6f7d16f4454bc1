"""One transaction of a file: rows, deletions, dropped maps, and with `undoable` all that it replaces.

It is a generator that pauses after some rows, so a large write leaves turns to the tasks of the process. Readers see
nothing of it until it is committed.

A map that is restored from nothing takes its rows as runs (runs.pyx): rows in order, in large values of the map `runs`.
Each run is written once, in the same transaction as the stamp, and `merge` writes LMDB's tree from all of them in the
order of keys. Rows in any order would change most pages of the tree with each write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker_streams.state.rows import PLAIN_BYTES, bucket_with, is_plain
from broker_streams.state.runs import Merge, in_order

META: Final = "meta"
UNDO: Final = "undo"
RUNS: Final = "runs"
STAMP: Final = b"stamp"
PENDING: Final = b"pending"
DROPPED: Final = b"dropped:"
EMPTY: Final = b"empty:"
# Rows between two pauses: a few ms.
PAUSE_ROWS: Final = 1_000
# Bytes of a value of a run.
BLOCK_BYTES: Final = 1 << 20
# Rows that one transaction of a merge writes, in bytes: LMDB keeps them in memory until the commit.
MERGE_BYTES: Final = 8 << 20
# A row of a run: the map, a zero, the number of the run and that of the block.
_RUN_NUMBERS: Final = struct.Struct(">II")
# A row to put back: the sizes of the map's name and of the key, and whether there was a row.
_UNDO_ROW: Final = struct.Struct(">HH?")


class Change(NamedTuple):
    """Rows of one map; None removes a row. `is_loaded`: they came as many rows at once, and no reader uses the map."""

    name: str
    rows: dict[bytes, bytes | None]
    is_loaded: bool = False


def run_prefix(name: str) -> bytes:
    """The beginning of the keys of a map's runs."""
    return name.encode() + b"\0"


def run_of(key: bytes) -> tuple[str, int]:
    """The map and the number of the run that a block belongs to."""
    return key[: -_RUN_NUMBERS.size - 1].decode(), _RUN_NUMBERS.unpack_from(key, len(key) - _RUN_NUMBERS.size)[0]


def run_blocks(txn: Any, runs: Any, name: str) -> list[list[Any]]:
    """The blocks of a map's runs, the oldest first: as memory of the file, if the transaction has buffers."""
    found: dict[int, list[Any]] = {}
    prefix = run_prefix(name)
    cursor = txn.cursor(runs)
    if cursor.set_range(prefix):
        for key, block in cursor.iternext():
            data = bytes(key)
            if not data.startswith(prefix):
                break
            found.setdefault(run_of(data)[1], []).append(block)
    return list(found.values())


def map_name(name: str) -> str:
    """LMDB's name of a map. Names of stores have no slash, so no map is called meta or undo."""
    return f"/{name}"


class Write:
    """`handles` are LMDB's of all maps; after the commit, they have those of new maps, and lack dropped ones."""

    def __init__(self, env: Any, txn: Any, handles: dict[str, Any], *, undoable: bool) -> None:
        self._env, self._txn, self._undoable = env, txn, undoable
        self.handles = dict(handles)
        self._meta = self.handles[META]
        self._undo: dict[tuple[str, bytes], bytes | None] = {}

    def _handle(self, name: str) -> Any:
        found = self.handles.get(name)
        if found is None:
            found = self.handles[name] = self._env.open_db(name.encode(), txn=self._txn)
        return found

    def rows(self, change: Change) -> Iterator[None]:
        """Pauses after each `PAUSE_ROWS` rows."""
        name = map_name(change.name)
        handle = self._handle(name)
        # In the order of keys, each page is changed once.
        plain, gone = self._physical(change, handle)
        cursor = self._txn.cursor(handle)
        is_empty = not cursor.first()
        for at in range(0, len(plain), PAUSE_ROWS):
            rows = plain[at : at + PAUSE_ROWS]
            if self._undoable:
                self._keep(name, handle, [key for key, _ in rows])
            cursor.putmulti(rows, append=is_empty)
            yield
        for at in range(0, len(gone), PAUSE_ROWS):
            keys = gone[at : at + PAUSE_ROWS]
            if self._undoable:
                self._keep(name, handle, keys)
            for key in keys:
                self._txn.delete(key, db=handle)
            yield

    def _physical(self, change: Change, handle: Any) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Rows and deletions as LMDB takes them (rows.py), in order."""
        found = in_order(change.rows, PLAIN_BYTES - 1)
        if found is not None:
            return found
        plain: list[tuple[bytes, bytes]] = []
        gone: list[bytes] = []
        buckets: dict[bytes, dict[bytes, bytes | None]] = {}
        for key, value in change.rows.items():
            if not is_plain(key):
                if key:
                    buckets.setdefault(key[:PLAIN_BYTES], {})[key] = value
                else:
                    self.meta(EMPTY + change.name.encode(), value)
            elif value is None:
                gone.append(key)
            else:
                plain.append((key, value))
        for prefix, theirs in buckets.items():
            data = bucket_with(prefix, self._txn.get(prefix, None, handle), theirs)
            if data is None:
                gone.append(prefix)
            else:
                plain.append((prefix, data))
        plain.sort()
        gone.sort()
        return plain, gone

    def run(self, name: str, blocks: list[bytes], number: int) -> Iterator[None]:
        """Write a run of a map that has no other rows. Pauses after each block."""
        for at, block in enumerate(blocks):
            self._txn.put(run_prefix(name) + _RUN_NUMBERS.pack(number, at), block, db=self.handles[RUNS])
            yield

    def merge(self, name: str) -> Iterator[None]:
        """Write the next rows of a map from its runs; behind the last one, the runs go, and the map is whole."""
        handle, last = self._handle(map_name(name)), None
        out = self._txn.cursor(handle)
        if out.last():
            last = out.key()
        # Blocks are read where they lie. Pages that another transaction sees are not written to.
        with self._env.begin(buffers=True) as txn:
            merge = Merge(run_blocks(txn, self.handles[RUNS], name), last, with_low=False)
            try:
                while merge.size_bytes < MERGE_BYTES:
                    rows = merge.rows(PAUSE_ROWS)
                    out.putmulti(rows, append=True)
                    if len(rows) < PAUSE_ROWS:
                        self.forget_runs(name)
                        break
                    yield
            finally:
                merge.close()

    def forget_runs(self, name: str) -> None:
        cursor, prefix = self._txn.cursor(self.handles[RUNS]), run_prefix(name)
        while cursor.set_range(prefix) and cursor.key().startswith(prefix):
            cursor.delete()

    def _keep(self, name: str, handle: Any, keys: list[bytes]) -> None:
        get = self._txn.get
        for key in keys:
            self._undo.setdefault((name, key), get(key, None, handle))

    def meta(self, key: bytes, value: bytes | None) -> None:
        if self._undoable:
            self._keep(META, self._meta, [key])
        if value is None:
            self._txn.delete(key, db=self._meta)
        else:
            self._txn.put(key, value, db=self._meta)

    def drop(self, name: str) -> None:
        """A map that can come back is dropped when the write is confirmed."""
        if self._undoable:
            self.meta(DROPPED + name.encode(), b"")
        else:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._txn.delete(EMPTY + name.encode(), db=self._meta)
        self.forget_runs(name)
        handle = self.handles.pop(map_name(name), None)
        if handle is not None:
            self._txn.drop(handle)

    def finish(self) -> None:
        """Keep the undo of an undoable write."""
        if not self._undoable:
            return
        self.meta(PENDING, b"")
        undo = self.handles[UNDO]
        for at, ((name, key), value) in enumerate(self._undo.items()):
            row = _UNDO_ROW.pack(len(name), len(key), value is not None) + name.encode() + key + (value or b"")
            self._txn.put(at.to_bytes(8), row, db=undo)

    def confirm(self) -> None:
        """Forget the undo of the write before."""
        if self._txn.get(PENDING, None, self._meta) is None:
            return
        cursor = self._txn.cursor(self._meta)
        dropped = []
        if cursor.set_range(DROPPED):
            for key in cursor.iternext(values=False):
                if not key.startswith(DROPPED):
                    break
                dropped.append(key)
        for key in dropped:
            self._drop(key[len(DROPPED) :].decode())
            self._txn.delete(key, db=self._meta)
        self._txn.drop(self.handles[UNDO], delete=False)
        self._txn.delete(PENDING, db=self._meta)

    def undo(self) -> None:
        """Put back what the write before replaced."""
        undo = self.handles[UNDO]
        for _, data in list(self._txn.cursor(undo).iternext()):
            name_size, key_size, is_there = _UNDO_ROW.unpack_from(data)
            at = _UNDO_ROW.size + name_size
            name, key, value = data[_UNDO_ROW.size : at].decode(), data[at : at + key_size], data[at + key_size :]
            if is_there:
                self._txn.put(key, value, db=self._handle(name))
            else:
                self._txn.delete(key, db=self._handle(name))
        self._txn.drop(undo, delete=False)
