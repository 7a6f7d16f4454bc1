"""The state of one task on disk, as hosts use it.

    state = TaskState.open(directory, stores, ...)
    state.fit(logs)                       rows that do not fit the changelogs are dropped
    task = build(..., open_maps=state.open_maps)
    state.restored(offsets)               after rows of changelogs

A host that writes files after its commits:

    task.flush(), state.seal()            the rows of this commit
    ... the commit ...
    state.committed(offsets)              they may go to the file

A file that such a host leaves is never ahead of the changelogs: it is continued from its stamp. A host whose batches
are committed elsewhere, after the task's process has gone on, writes before:

    state.prepare(offsets, token)         the file has the batch, and its undo

and the next opening names the token of the last batch that was committed: the batch of the file is kept, or taken back.

Most commits write nothing: rows wait in memory until `buffer_bytes`, or for a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final

from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.stores.factory import is_kept
from broker_streams.kernel.stores.maps import Maps
from broker_streams.plan.stores import Store
from broker_streams.state.directory import TaskDirectory
from broker_streams.state.disk_map import DiskMap, DiskMaps
from broker_streams.state.file import LAYOUT, MAP_BYTES, NUMBERS, TaskFile
from broker_streams.state.layout import layout_of, refusal
from broker_streams.state.stamp import Log, Place, Stamp, misfit, missing, store_of
from broker_streams.state.writing import Change

# Changed rows in memory, by the sizes of their values and 200 bytes for each row. Twice as much is held: the rows of
# the last write remain as a cache.
BUFFER_BYTES: Final = 8 << 20
# LMDB keeps the pages that a write changes in memory until its commit, at worst one for each row. The restore of a map
# that has no rows yet writes as many bytes as there are in rows (runs). A restore of one that has rows writes more rows
# at once than a commit, because each write changes most of the pages then; LMDB bounds its pages to 512 MB.
PAGE_BYTES: Final = 4096
# The longest time that changed rows wait for a write.
WAIT_MS: Final = 60_000
# The same for a run: larger ones would save nothing, and delay the other tasks while they are put into order.
RUN_BYTES: Final = 16 << 20
# LMDB's handles of maps: see file.py.
MAPS_PER_STORE: Final = 64


class _Sealed:
    """The rows of a commit that are set aside for the file."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.meta: dict[bytes, bytes | None] = {}
        self.dropped: list[DiskMap] = []


class TaskState:
    """Made by `open`. `news` are sentences about rows that were dropped, for the log."""

    def __init__(
        self,
        directory: TaskDirectory,
        file: TaskFile,
        stores: Mapping[str, Store],
        now_ms: Callable[[], int],
        buffer_bytes: int,
    ) -> None:
        self.directory = directory
        self.file = file
        self.news: list[str] = []
        self._stores = dict(stores)
        self._now_ms = now_ms
        self.buffer_bytes = buffer_bytes
        self._maps: dict[str, DiskMaps] = {}
        self._places: dict[str, Place] = {}
        self._sealed: _Sealed | None = None
        # The write that goes on.
        self._steps: Generator[None, None, None] | None = None
        # The changes up to the last seal and commit: only if none came after, the file may be written at the end.
        self._sealed_at = self._committed_at = 0
        self._frozen_bytes = self._frozen_count = 0
        self._written_ms = now_ms()

    @classmethod
    def open(
        cls,
        directory: TaskDirectory,
        stores: Iterable[Store],
        now_ms: Callable[[], int],
        *,
        buffer_bytes: int = BUFFER_BYTES,
        map_bytes: int = MAP_BYTES,
        token: str | None = None,
    ) -> TaskState:
        """`stores` are those of the task; the ones that are not persistent stay in memory. `token` is that of the last
        batch that was committed. Raises StreamsError: the state belongs to another kind of store, or the disk fails.
        """
        kept = {each.name: each for each in stores if is_kept(each)}
        file = TaskFile(directory.path, map_bytes=map_bytes, maps_max=MAPS_PER_STORE * (len(kept) + 1))
        state = cls(directory, file, kept, now_ms, buffer_bytes)
        try:
            state._begin(token)
        except BaseException:
            file.close()
            raise
        return state

    def _begin(self, token: str | None) -> None:
        file = self.file
        if file.lost is not None:
            self.news.append(f"the state in {file.directory} is not continued: {file.lost}")
        if file.is_pending:
            if token is not None and file.stamp.token == token:
                file.confirm()
            else:
                file.undo()
        layouts = file.meta_items(LAYOUT)
        gone = {}
        for name, layout in layouts.items():
            store = self._stores.get(name)
            if store is None:
                gone[name] = f"the topology has no store {name} any more"
            elif not store.logging and store.source_topic is None:
                gone[name] = ""
            elif layout != layout_of(store):
                reason = refusal(store, layout)
                if reason is not None:
                    raise StreamsError(f"state in {file.directory}: {reason}")
                gone[name] = f"store {name} has other settings now"
        fresh = [store for name, store in self._stores.items() if name not in layouts or name in gone]
        if gone or fresh:
            self._reset(gone)
            self.file.write([], self.file.stamp, meta={LAYOUT + each.name.encode(): layout_of(each) for each in fresh})
        self._places = {name: at for name, at in file.stamp.places.items() if store_of(name) in self._stores}

    def fit(self, logs: Mapping[str, Log]) -> bool:
        """Drop the rows of stores that do not fit their changelogs. `logs` have the names of places. True: maps that
        were opened before are no longer those of the file.
        """
        gone = {}
        stamp = self.file.stamp
        for name, log in logs.items():
            place = self._places.get(name)
            if place is not None:
                reason = misfit(place, log, stamp.time_ms, self._now_ms())
                if reason is not None:
                    gone[store_of(name)] = reason
        if gone:
            self._reset(gone)
            self._maps.clear()
        return bool(gone)

    def missing(self, logs: Mapping[str, Log]) -> int:
        """How many offsets of the changelogs the file lacks."""
        return missing({name: place for name, place in self._places.items() if store_of(name) in self._stores}, logs)

    def _reset(self, gone: Mapping[str, str]) -> None:
        file = self.file
        for name, reason in gone.items():
            if reason:
                self.news.append(f"rows of store {name} in {file.directory} are deleted: {reason}")
        drops = [each for each in file.names() if each.partition("/")[0] in gone]
        meta: dict[bytes, bytes | None] = {
            NUMBERS + key.encode(): None for key in file.meta_items(NUMBERS) if key.partition("/")[0] in gone
        }
        meta |= {LAYOUT + name.encode(): None for name in gone if name not in self._stores}
        places = {name: at for name, at in file.stamp.places.items() if store_of(name) not in gone}
        file.write([], file.stamp._replace(places=places), meta=meta, drops=drops)
        self._places = {name: at for name, at in places.items() if store_of(name) in self._stores}

    def open_maps(self, store: Store) -> Maps:
        found = self._maps[store.name] = DiskMaps(self.file, store.name)
        return found

    @property
    def places(self) -> dict[str, Place]:
        """Where changelogs are continued, by store, or STORE/PARTITION."""
        return dict(self._places)

    @property
    def memory_bytes(self) -> int:
        """About the memory of changed rows, those of the write before included."""
        return self._frozen_bytes + sum(each.memory_bytes for each in self._maps.values())

    # ---- after commits

    def seal(self) -> None:
        """The stores have the rows of a commit, and no others."""
        self._sealed_at = self._count()
        rows = sum(each.rows_changed for each in self._maps.values())
        if self._sealed is None and (self._is_due() or rows * PAGE_BYTES >= self.buffer_bytes):
            self._freeze()

    def committed(self, places: Mapping[str, Place]) -> None:
        """The commit of the last `seal` has succeeded. `step` carries out the write that is due."""
        self._places.update((name, at) for name, at in places.items() if store_of(name) in self._stores)
        self._committed_at = self._sealed_at
        if self._sealed is not None and self._steps is None:
            self._steps = self._write(self._sealed)

    def rest(self) -> None:
        """Nothing was changed since the last commit: rows that are due do not wait for the next one. `step` carries out
        their write.
        """
        is_committed = self._sealed is None and self._steps is None and self._committed_at == self._count()
        if is_committed and self._is_due() and self._has_changes():
            self._steps = self._write(self._freeze())

    def restored(self, places: Mapping[str, Place], *, is_last: bool = False) -> None:
        """The stores have all records of their changelogs up to `places`, and nothing else was changed. `step` carries
        out the write that is due. Raises StreamsError: a write before cannot be finished.
        """
        self._places.update((name, at) for name, at in places.items() if store_of(name) in self._stores)
        self._sealed_at = self._committed_at = self._count()
        if is_last:
            self.finish()
        # Restored rows are not held after their write, so there may be twice as many.
        buffer_bytes = 2 * self.buffer_bytes
        if all(each.takes_runs for each in self._maps.values()):
            buffer_bytes = min(buffer_bytes, RUN_BYTES)
        if self._sealed is None and (self._is_due(buffer_bytes) or (is_last and self._has_changes())):
            self._steps = self._load(self._freeze(), is_last=is_last)
        elif is_last:
            self.merge_runs()

    def merge_runs(self) -> None:
        """A restore has come to the end for now: let reads have the rows of its writes in one tree. `step` carries it
        out.
        """
        if self._steps is None and self.file.with_runs:
            self._steps = self._merges()

    def step(self) -> bool:
        """Carry out a part of a write, of a few ms; return whether there is more. Raises StreamsError."""
        if self._steps is None:
            return False
        if next(self._steps, self) is self:
            self._steps = None
        return self._steps is not None

    @property
    def is_writing(self) -> bool:
        """Whether `step` has something to do."""
        return self._steps is not None

    def finish(self) -> None:
        """Carry out a write that was begun. Raises StreamsError."""
        while self.step():
            pass

    def prepare(self, places: Mapping[str, Place], token: str) -> None:
        """Write all changes with their undo, before the batch `token` is committed. Raises StreamsError."""
        self.finish()
        self._places.update((name, at) for name, at in places.items() if store_of(name) in self._stores)
        self._steps = self._write(self._freeze(), token=token, undoable=True)
        self.finish()

    def close(self, *, sync: bool = False, discard: bool = False) -> None:
        """Write what is committed, if nothing came after, and let the directory go. `sync`: the file outlives a power
        loss. `discard`: write nothing.
        """
        try:
            if discard:
                if self._steps is not None:
                    self._steps.close()
            else:
                self.finish()
                if self._sealed is None and self._committed_at == self._count() and self._has_changes():
                    # A restore that is cut off goes on later.
                    write = self._load if self.file.with_runs else self._write
                    self._steps = write(self._freeze())
                    self.finish()
        finally:
            try:
                self.file.close(sync=sync)
            finally:
                self.directory.release()

    # ---- writing

    def _count(self) -> int:
        """Grows with each change of a row."""
        return self._frozen_count + sum(each.bytes_changed for each in self._maps.values())

    def _has_changes(self) -> bool:
        return any(each.bytes_changed for each in self._maps.values()) or self._places != self.file.stamp.places

    def _is_due(self, buffer_bytes: int | None = None) -> bool:
        if sum(each.memory_bytes for each in self._maps.values()) >= (buffer_bytes or self.buffer_bytes):
            return True
        return self._now_ms() - self._written_ms >= WAIT_MS and self._has_changes()

    def _freeze(self) -> _Sealed:
        sealed = self._sealed = _Sealed()
        self._frozen_bytes = 0
        for each in self._maps.values():
            self._frozen_bytes += each.memory_bytes
            self._frozen_count += each.bytes_changed
            changes, numbers, dropped = each.freeze()
            sealed.changes += changes
            sealed.meta |= numbers
            sealed.dropped += dropped
        return sealed

    def _detach(self, sealed: _Sealed | None = None) -> None:
        for each in self._maps.values():
            each.detach()
        for gone in () if sealed is None else sealed.dropped:
            gone.detach()
            gone.forget()

    def _merges(self) -> Generator[None, None, None]:
        yield from self.file.merges(self._detach)

    def _write(self, sealed: _Sealed, *, token: str = "", undoable: bool = False) -> Generator[None, None, None]:
        """Write sealed rows with the places of now. The rows stay in memory until the file has them."""
        stamp = Stamp(dict(self._places), self._now_ms(), token)

        def steps() -> Generator[None, None, None]:
            yield from self._merges()
            yield from self._steps_of(sealed, stamp, {}, undoable=undoable)
            self._written(is_kept=True)

        return steps()

    def _load(self, sealed: _Sealed, *, is_last: bool = False) -> Generator[None, None, None]:
        """Write restored rows with the places of now: as runs, where a map has no other rows. With `is_last`, no more
        will come.
        """
        stamp = Stamp(dict(self._places), self._now_ms())

        def steps() -> Generator[None, None, None]:
            file, runs = self.file, {}
            for change in sealed.changes:
                # The only rows of a map need no run.
                if not is_last or file.has_runs(change.name):
                    blocks = file.run_for(change)
                    if blocks is not None:
                        runs[change.name] = blocks
                    elif file.has_runs(change.name):
                        yield from self._merges()
                        runs.clear()
                        break
            yield from self._steps_of(sealed, stamp, runs)
            self._written(is_kept=False)
            if is_last:
                yield from self._merges()

        return steps()

    def _steps_of(
        self, sealed: _Sealed, stamp: Stamp, runs: Mapping[str, list[bytes]], *, undoable: bool = False
    ) -> Iterator[None]:
        return self.file.steps(
            sealed.changes,
            stamp,
            meta=sealed.meta,
            drops=[each.name for each in sealed.dropped],
            undoable=undoable,
            runs=runs,
            before_commit=lambda: self._detach(sealed),
        )

    def _written(self, *, is_kept: bool) -> None:
        for each in self._maps.values():
            each.written(is_kept=is_kept)
        if not is_kept:
            self._frozen_bytes = 0
        self._sealed = None
        self._written_ms = self._now_ms()
