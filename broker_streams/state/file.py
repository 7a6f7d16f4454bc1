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
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import WeakSet

import lmdb

from broker_streams.kernel.errors import StreamsError
from broker_streams.state.rows import PLAIN_BYTES, Row
from broker_streams.state.runs import Merge, blocks_of, count_of
from broker_streams.state.stamp import Stamp
from broker_streams.state.writing import (
    BLOCK_BYTES,
    DROPPED,
    EMPTY,
    META,
    PENDING,
    RUNS,
    STAMP,
    UNDO,
    Change,
    Write,
    map_name,
    run_blocks,
    run_of,
)

DATA: Final = "data.mdb"
_LOCKS: Final = "lock.mdb"
MARK: Final = "open"
FORMAT: Final = b"1"
# The first size of the address space of a file; a file that reaches it gets twice as much.
MAP_BYTES: Final = 1 << 30
# Maps of a task. A store of windows has about three segments of two maps each, a versioned store up to 26.
MAPS_MAX: Final = 1024
# LMDB says that the file is damaged, or none of its own.
_DAMAGED: Final = (lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.VersionMismatchError)
_NO_RUNS: Final[Mapping[str, list[bytes]]] = {}
NUMBERS: Final = b"numbers:"
LAYOUT: Final = b"layout:"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # Without it, a file that was not closed is never taken for whole.
        return f"unknown-{os.urandom(8).hex()}"


BOOT_ID: Final = _boot_id()


class Reader(Protocol):
    """A reader of a file that keeps `get` of it."""

    def renewed(self) -> None: ...


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
        self._readers: WeakSet[Reader] = WeakSet()
        # Held by a copy: the address space must not move under it.
        self._copying = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        # Copies of snapshots whose task was taken away meanwhile (snapshots.py).
        for left in directory.glob(".*.new"):
            left.unlink(missing_ok=True)
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
        self._open_handles()
        if META not in self._handles or RUNS not in self._handles:
            self._make()
        self._begin()
        self._begin_merges_again()
        if self.meta(b"format") != FORMAT:
            raise ValueError(f"its format is {self.meta(b'format')!r}; {FORMAT!r} is expected")
        self.stamp = Stamp.of(self.meta(STAMP))
        self.is_pending = self.meta(PENDING) is not None

    def _make(self) -> None:
        with self._env.begin(write=True) as txn:
            for name in (META, UNDO, RUNS):
                self._handles[name] = self._env.open_db(name.encode(), txn=txn)
            txn.put(b"format", FORMAT, db=self._handles[META])

    def _open_handles(self) -> None:
        """LMDB's handles of all maps."""
        with self._env.begin() as txn:
            names = list(txn.cursor().iternext(values=False))
        # A handle that is opened within a reader's transaction would end with it.
        self._handles: dict[str, Any] = {name.decode(): self._env.open_db(name, create=False) for name in names}

    def _begin(self) -> None:
        """Make readers see the last write. `get` is called with key, None, and the handle of a map."""
        self._txn: Any = self._env.begin()
        self.get: Callable[[bytes, None, Any], bytes | None] = self._txn.get
        runs: dict[str, int] = {}
        for key in self._txn.cursor(self._handles[RUNS]).iternext(values=False):
            name, number = run_of(key)
            runs[name] = number + 1
        # The number of the next run, of the maps that have runs.
        self._runs = runs
        for each in self._readers:
            each.renewed()

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

    def watch(self, reader: Reader) -> None:
        """Tell a reader when `get` is another one."""
        self._readers.add(reader)

    def handle(self, name: str) -> Any:
        """LMDB's handle of a map; None: the map has no rows, or has them in runs."""
        return None if name in self._runs else self._handles.get(map_name(name))

    def meta(self, key: bytes) -> bytes | None:
        return self.get(key, None, self._handles[META])

    def meta_items(self, prefix: bytes) -> dict[str, bytes]:
        """Rows beside the maps by the rest of their keys."""
        found = {}
        cursor = self._txn.cursor(self._handles[META])
        if cursor.set_range(prefix):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    break
                found[key[len(prefix) :].decode()] = value
        return found

    def names(self) -> list[str]:
        """The maps that have rows."""
        dropped = self.meta_items(DROPPED)
        found = {name[1:]: None for name in self._handles if name.startswith("/")} | dict.fromkeys(self._runs)
        return [name for name in found if name not in dropped]

    def empty_key(self, name: str) -> bytes | None:
        """The value of the key b"" of a map, which LMDB does not take."""
        return self.meta(EMPTY + name.encode())

    def cursor(self, handle: Any) -> Any:
        return self._txn.cursor(handle)

    def entries(self, handle: Any) -> int:
        return int(self._txn.stat(handle)["entries"])

    # ---- maps that are being restored

    @property
    def with_runs(self) -> list[str]:
        """The maps whose rows are in runs."""
        return list(self._runs)

    def has_runs(self, name: str) -> bool:
        return name in self._runs

    def run_for(self, change: Change) -> list[bytes] | None:
        """The blocks of a run with these rows. None: they were not loaded, LMDB does not take all of their keys, or the
        map has rows besides those of runs.
        """
        if not change.is_loaded:
            return None
        if change.name not in self._runs:
            handle = self.handle(change.name)
            if (handle is not None and self.entries(handle)) or self.empty_key(change.name) is not None:
                return None
        return blocks_of(change.rows, PLAIN_BYTES - 1, BLOCK_BYTES)

    def run_rows(self, name: str, low: bytes | None, count: int) -> list[Row]:
        """At most `count` rows of a map that has runs, from `low` on, in order; fewer: these are the last ones."""
        with self._env.begin(buffers=True) as txn:
            merge = Merge(run_blocks(txn, self._handles[RUNS], name), low)
            try:
                return merge.rows(count)
            finally:
                merge.close()

    def run_count(self, name: str) -> int:
        """Rows of a map's runs; a row counts in each run that has it."""
        with self._env.begin(buffers=True) as txn:
            return sum(count_of(block) for run in run_blocks(txn, self._handles[RUNS], name) for block in run)

    def merges(self, before_commit: Callable[[], None]) -> Iterator[None]:
        """Make trees of all runs, in transactions of a bounded size, with pauses. `before_commit`: iterations must be
        detached. Raises StreamsError.
        """
        for name in self.with_runs:

            def merge(batch: Write, name: str = name) -> Iterator[None]:
                yield from batch.merge(name)
                before_commit()

            while name in self._runs:
                yield from self._transaction(merge)

    def _begin_merges_again(self) -> None:
        """Runs may be added to the map of a merge that was cut off: its rows are written from the beginning."""
        if self._runs:
            with self._env.begin(write=True) as txn:
                for name in self._runs:
                    handle = self._handles.get(map_name(name))
                    if handle is not None:
                        txn.drop(handle, delete=False)
            self._txn.abort()
            self._begin()

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
        for _ in self.steps(changes, stamp, meta=meta, drops=drops, undoable=undoable):
            pass

    def steps(
        self,
        changes: Iterable[Change],
        stamp: Stamp,
        *,
        meta: Mapping[bytes, bytes | None] | None = None,
        drops: Iterable[str] = (),
        undoable: bool = False,
        runs: Mapping[str, list[bytes]] = _NO_RUNS,
        before_commit: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """The same with pauses, in which the file is read as before. Rows of maps in `runs` are written as these runs
        (see `run_for`); no other changed map may have runs. `before_commit`: iterations must be detached.
        """
        changes, drops = list(changes), list(drops)

        def write(batch: Write) -> Iterator[None]:
            batch.confirm()
            for change in changes:
                blocks = runs.get(change.name)
                if blocks is None:
                    yield from batch.rows(change)
                else:
                    yield from batch.run(change.name, blocks, self._runs.get(change.name, 0))
            for name in drops:
                batch.drop(name)
            for key, value in (meta or {}).items():
                batch.meta(key, value)
            batch.meta(STAMP, stamp.data())
            batch.finish()
            before_commit()

        yield from self._transaction(write, undoable=undoable)
        self.stamp, self.is_pending = stamp, undoable

    def confirm(self) -> None:
        """Forget the undo of the last write. Raises StreamsError."""
        self._at_once(Write.confirm)
        self.is_pending = False

    def undo(self) -> None:
        """Take the last write back. Raises StreamsError."""
        self._at_once(Write.undo)
        self.stamp, self.is_pending = Stamp.of(self.meta(STAMP)), False

    def _at_once(self, change: Callable[[Write], None]) -> None:
        def write(batch: Write) -> Iterator[None]:
            change(batch)
            yield

        for _ in self._transaction(write):
            pass

    def _transaction(self, write: Callable[[Write], Iterator[None]], *, undoable: bool = False) -> Iterator[None]:
        """Readers see the new state at the end."""
        try:
            while True:
                txn = self._env.begin(write=True)
                batch = Write(self._env, txn, self._handles, undoable=undoable)
                try:
                    yield from write(batch)
                    self._commit(txn)
                    break
                except BaseException as error:
                    # A commit that has failed has ended its transaction.
                    with suppress(lmdb.Error):
                        txn.abort()
                    # Maps that this transaction made or dropped are as they were.
                    self._txn.abort()
                    if isinstance(error, lmdb.MapFullError):
                        self._map_bytes *= 2
                        with self._copying:
                            self._env.set_mapsize(self._map_bytes)
                    self._open_handles()
                    self._begin()
                    if not isinstance(error, lmdb.MapFullError):
                        raise
        except lmdb.Error as error:
            raise self._failed(error) from error
        self._handles = batch.handles
        self._txn.abort()
        self._begin()

    def _commit(self, txn: Any) -> None:
        """A process that is killed leaves the state of before this call, or that of after it."""
        txn.commit()

    def copy(self, to: Path) -> None:
        """Copy the file as it is now into an empty directory; writes may go on. Raises StreamsError."""
        try:
            with self._copying:
                self._env.copy(str(to))
        except lmdb.Error as error:
            raise self._failed(error) from error


def sync_directory(directory: Path) -> None:
    """Make the names in a directory outlive a power loss."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
