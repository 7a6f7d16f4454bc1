"""The LMDB file of one task: maps of stores, numbers of stores, and the stamp, changed together in one transaction.

LMDB writes no page in place, and changes the root of its tree last. So a process that is killed leaves the state of
before or of after a write. Power loss is another matter: without fsync, pages may be lost in any order. An fsync for
each write would cost more than the write; instead the file `open` names the boot of the machine that has written
without fsync. After another boot, a file with this mark is deleted, and its task is restored from a snapshot or from
the changelogs. A file that was closed whole (`close(sync=True)`) has no mark.

With `undoable`, a write also keeps the rows that it replaces. `undo` puts them back, `confirm` forgets them. A file
whose last write is neither is `pending`.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import lmdb

from broker_streams.kernel.errors import StreamsError
from broker_streams.state.rows import PLAIN_BYTES, bucket_with, is_plain
from broker_streams.state.stamp import Stamp

DATA: Final = "data.mdb"
_LOCKS: Final = "lock.mdb"
MARK: Final = "open"
FORMAT: Final = b"1"
# The first size of the address space of a file; a file that reaches it gets twice as much.
MAP_BYTES: Final = 1 << 30
# Maps of a task. A store of windows has about three segments of two maps each, a versioned store up to 26.
MAPS_MAX: Final = 1024
# A row to put back: the sizes of the map's name and of the key, and whether there was a row.
_UNDO_ROW: Final = struct.Struct(">HH?")
# LMDB says that the file is damaged, or none of its own.
_DAMAGED: Final = (lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.VersionMismatchError)
_META: Final = b"meta"
_UNDO: Final = b"undo"
_STAMP: Final = b"stamp"
_PENDING: Final = b"pending"
_DROPPED: Final = b"dropped:"
_EMPTY: Final = b"empty:"
NUMBERS: Final = b"numbers:"
LAYOUT: Final = b"layout:"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # Without it, a file that was not closed is never taken for whole.
        return f"unknown-{os.urandom(8).hex()}"


BOOT_ID: Final = _boot_id()


class Change(NamedTuple):
    """Rows of one map; None removes a row."""

    name: str
    rows: Mapping[bytes, bytes | None]


class TaskFile:
    """The file in `directory`. Only one process may have it open: see directory.py."""

    def __init__(
        self, directory: Path, *, map_bytes: int = MAP_BYTES, maps_max: int = MAPS_MAX, boot_id: str = BOOT_ID
    ) -> None:
        """Open or make the file. `lost` says why an earlier file is not continued. Raises StreamsError."""
        self.directory = directory
        self.lost: str | None = None
        self._boot_id = boot_id
        self._env: Any = None
        self._map_bytes, self._maps_max = map_bytes, maps_max
        # Held by a copy: the address space must not move under it.
        self._copying = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        self.lost = self._torn()
        if self.lost is not None:
            self._delete()
        self._mark()
        try:
            self._open()
        except (*_DAMAGED, ValueError) as error:
            self.lost = f"it cannot be read: {error}"
            self._close()
            self._delete()
            self._mark()
            self._open()
        except lmdb.Error as error:
            self._close()
            raise self._failed(error) from error

    # ---- opening and closing

    def _torn(self) -> str | None:
        mark = self.directory / MARK
        if not (self.directory / DATA).exists():
            return None
        try:
            boot_id = mark.read_text()
        except FileNotFoundError:
            return None
        return None if boot_id == self._boot_id else "the machine stopped while it was open"

    def _delete(self) -> None:
        for name in (DATA, _LOCKS, MARK):
            with suppress(FileNotFoundError):
                (self.directory / name).unlink()

    def _mark(self) -> None:
        with (self.directory / MARK).open("w") as mark:
            mark.write(self._boot_id)
            mark.flush()
            os.fsync(mark.fileno())
        sync_directory(self.directory)

    def _open(self) -> None:
        """Raises lmdb.Error, ValueError: it is no file of ours."""
        data = self.directory / DATA
        size = data.stat().st_size if data.exists() else 0
        while self._map_bytes < 2 * size:
            self._map_bytes *= 2
        self._env = lmdb.open(
            str(self.directory),
            map_size=self._map_bytes,
            max_dbs=self._maps_max,
            sync=False,
            metasync=False,
            readahead=False,
            meminit=False,
            max_readers=16,
        )
        self._env.reader_check()
        pages = self._env.info()["last_pgno"] + 1
        if size and pages * self._env.stat()["psize"] > size:
            # A page beyond the end would kill the process.
            raise ValueError(f"it has {size} bytes, and should have {pages * self._env.stat()['psize']}")
        self._begin()
        if self._meta is None:
            self._transaction(self._make)
        if self.meta(b"format") != FORMAT:
            raise ValueError(f"its format is {self.meta(b'format')!r}; {FORMAT!r} is expected")
        self.stamp = Stamp.of(self.meta(_STAMP))
        self.is_pending = self.meta(_PENDING) is not None

    def _make(self, txn: Any) -> None:
        txn.put(b"format", FORMAT, db=self._env.open_db(_META, txn=txn))

    def _begin(self) -> None:
        """Make readers see the last write. `get` is called with key, None, and the handle of a map."""
        self._handles: dict[str, Any] = {}
        self._txn: Any = self._env.begin()
        self.get: Callable[[bytes, None, Any], bytes | None] = self._txn.get
        self._meta = self._handle(_META.decode())

    def close(self, *, sync: bool = False) -> None:
        """With `sync` the file outlives a power loss. Later calls do nothing. Raises StreamsError."""
        if self._env is None:
            return
        try:
            if sync:
                self._env.sync(True)
        except lmdb.Error as error:
            raise self._failed(error) from error
        finally:
            self._close()
        if sync:
            (self.directory / MARK).unlink(missing_ok=True)
            sync_directory(self.directory)
        # The time from which state.cleanup.delay.ms counts.
        os.utime(self.directory)

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            with suppress(AttributeError):
                self._txn.abort()
            with self._copying:
                env.close()

    def _failed(self, error: Exception) -> StreamsError:
        return StreamsError(f"the state in {self.directory} cannot be used: {error}")

    # ---- reading

    def _handle(self, name: str) -> Any:
        """LMDB's handle of a map; None: the map has no rows."""
        found = self._handles.get(name)
        if found is None:
            try:
                found = self._handles[name] = self._env.open_db(name.encode(), txn=self._txn, create=False)
            except lmdb.NotFoundError:
                return None
        return found

    def handle(self, name: str) -> Any:
        return self._handle(_map_name(name))

    def meta(self, key: bytes) -> bytes | None:
        return None if self._meta is None else self.get(key, None, self._meta)

    def meta_items(self, prefix: bytes) -> dict[str, bytes]:
        """Rows beside the maps by the rest of their keys."""
        found = {}
        cursor = self._txn.cursor(self._meta)
        if cursor.set_range(prefix):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    break
                found[key[len(prefix) :].decode()] = value
        return found

    def names(self) -> list[str]:
        """The maps that have rows."""
        dropped = self.meta_items(_DROPPED)
        names = (key.decode() for key in self._txn.cursor().iternext(values=False))
        return [name[1:] for name in names if name.startswith("/") and name[1:] not in dropped]

    def empty_key(self, name: str) -> bytes | None:
        """The value of the key b"" of a map, which LMDB does not take."""
        return self.meta(_EMPTY + name.encode())

    def cursor(self, handle: Any) -> Any:
        return self._txn.cursor(handle)

    def entries(self, handle: Any) -> int:
        return int(self._txn.stat(handle)["entries"])

    @property
    def size_bytes(self) -> int:
        """Bytes of the file; free pages in it count too."""
        return (self.directory / DATA).stat().st_size

    # ---- writing

    def write(
        self,
        changes: Iterable[Change],
        stamp: Stamp,
        *,
        meta: Mapping[bytes, bytes | None] | None = None,
        drops: Iterable[str] = (),
        undoable: bool = False,
    ) -> None:
        """Change rows, and set the stamp; all of it, or nothing. `drops` are maps that go with all rows. A write before
        it counts as confirmed. Raises StreamsError: the disk is full, or fails.
        """
        changes, drops = list(changes), list(drops)

        def write(txn: Any) -> None:
            self._confirm(txn)
            batch = _Write(self._env, txn, undoable)
            for change in changes:
                batch.rows(change)
            for name in drops:
                batch.drop(name)
            for key, value in (meta or {}).items():
                batch.meta(key, value)
            batch.meta(_STAMP, stamp.data())
            if undoable:
                batch.finish()

        self._transaction(write)
        self.stamp, self.is_pending = stamp, undoable

    def confirm(self) -> None:
        """Forget the undo of the last write. Raises StreamsError."""
        self._transaction(self._confirm)
        self.is_pending = False

    def undo(self) -> None:
        """Take the last write back. Raises StreamsError."""
        self._transaction(lambda txn: _undo(self._env, txn))
        self.stamp, self.is_pending = Stamp.of(self.meta(_STAMP)), False

    def _confirm(self, txn: Any) -> None:
        meta = self._env.open_db(_META, txn=txn)
        if txn.get(_PENDING, db=meta) is None:
            return
        cursor = txn.cursor(meta)
        dropped = []
        if cursor.set_range(_DROPPED):
            dropped = [key for key in cursor.iternext(values=False) if key.startswith(_DROPPED)]
        for key in dropped:
            _drop(self._env, txn, key[len(_DROPPED) :].decode())
            txn.delete(key, db=meta)
        txn.drop(self._env.open_db(_UNDO, txn=txn), delete=False)
        txn.delete(_PENDING, db=meta)

    def _transaction(self, write: Any) -> None:
        """Readers see the new state when this returns; iterations must have been detached before."""
        self._txn.abort()
        try:
            while True:
                txn = self._env.begin(write=True)
                try:
                    write(txn)
                    txn.commit()
                    break
                except lmdb.MapFullError:
                    txn.abort()
                    self._map_bytes *= 2
                    with self._copying:
                        self._env.set_mapsize(self._map_bytes)
                except BaseException:
                    txn.abort()
                    raise
        except lmdb.Error as error:
            raise self._failed(error) from error
        finally:
            # Handles of maps are no longer those of before.
            self._begin()

    def copy(self, to: Path) -> None:
        """Copy the file as it is now into an empty directory; writes may go on. Raises StreamsError."""
        try:
            with self._copying:
                self._env.copy(str(to))
        except lmdb.Error as error:
            raise self._failed(error) from error


class _Write:
    """One transaction; with `undoable`, it keeps what it replaces."""

    def __init__(self, env: Any, txn: Any, undoable: bool) -> None:
        self._env, self._txn, self._undoable = env, txn, undoable
        self._meta = env.open_db(_META, txn=txn)
        self._undo: dict[tuple[str, bytes], bytes | None] = {}

    def rows(self, change: Change) -> None:
        name = change.name
        handle = self._env.open_db(_map_name(name).encode(), txn=self._txn)
        plain, gone = [], []
        buckets: dict[bytes, dict[bytes, bytes | None]] = {}
        for key, value in change.rows.items():
            if not is_plain(key):
                if key:
                    buckets.setdefault(key[:PLAIN_BYTES], {})[key] = value
                else:
                    self.meta(_EMPTY + name.encode(), value)
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
        if self._undoable:
            self._keep(_map_name(name), handle, [*(key for key, _ in plain), *gone])
        # In the order of keys, each page is changed once.
        plain.sort()
        self._txn.cursor(handle).putmulti(plain)
        for key in sorted(gone):
            self._txn.delete(key, db=handle)

    def _keep(self, name: str, handle: Any, keys: list[bytes]) -> None:
        get = self._txn.get
        for key in keys:
            self._undo.setdefault((name, key), get(key, None, handle))

    def meta(self, key: bytes, value: bytes | None) -> None:
        if self._undoable:
            self._keep(_META.decode(), self._meta, [key])
        if value is None:
            self._txn.delete(key, db=self._meta)
        else:
            self._txn.put(key, value, db=self._meta)

    def drop(self, name: str) -> None:
        """A map that can come back is dropped when the write is confirmed."""
        if self._undoable:
            self.meta(_DROPPED + name.encode(), b"")
        else:
            _drop(self._env, self._txn, name)

    def finish(self) -> None:
        self.meta(_PENDING, b"")
        undo = self._env.open_db(_UNDO, txn=self._txn)
        for at, ((name, key), value) in enumerate(self._undo.items()):
            self._txn.put(at.to_bytes(8), _undo_data(name.encode(), key, value), db=undo)


def _undo_data(name: bytes, key: bytes, value: bytes | None) -> bytes:
    return _UNDO_ROW.pack(len(name), len(key), value is not None) + name + key + (value or b"")


def _undo_row(data: bytes) -> tuple[bytes, bytes, bytes | None]:
    name_size, key_size, is_there = _UNDO_ROW.unpack_from(data)
    at = _UNDO_ROW.size + name_size
    end = at + key_size
    return data[_UNDO_ROW.size : at], data[at:end], data[end:] if is_there else None


def _undo(env: Any, txn: Any) -> None:
    undo = env.open_db(_UNDO, txn=txn)
    for _, data in list(txn.cursor(undo).iternext()):
        name, key, value = _undo_row(data)
        handle = env.open_db(name, txn=txn)
        if value is None:
            txn.delete(key, db=handle)
        else:
            txn.put(key, value, db=handle)
    txn.drop(undo, delete=False)


def _drop(env: Any, txn: Any, name: str) -> None:
    txn.delete(_EMPTY + name.encode(), db=env.open_db(_META, txn=txn))
    with suppress(lmdb.NotFoundError):
        txn.drop(env.open_db(_map_name(name).encode(), txn=txn, create=False))


def _map_name(name: str) -> str:
    # Names of stores have no slash, so no map is called meta or undo.
    return f"/{name}"


def sync_directory(directory: Path) -> None:
    """Make the names in a directory outlive a power loss."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
