"""The files of `__cluster_metadata-0`: the log, `quorum-state` and the snapshots.

Functions that block on the disk are documented so. On a running broker a worker thread calls them; they touch no state
that the loop changes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from broker_cy.controller.activation import default_bootstrap
from broker_cy.metadata import snapshot
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.quorum import election_state, wire_log
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.epochs import BEGINNING, LogEpochs
from broker_cy.quorum.step import SnapshotChunk, SnapshotDone
from broker_cy.storage import log_deletion, log_truncation
from broker_cy.storage.atomic import read_whole, sync_directory, write_atomically
from broker_cy.storage.errors import StorageError

if TYPE_CHECKING:
    from broker_cy.storage.log import Log
    from broker_cy.storage.syncs import LogSyncs

# A snapshot is read as a whole: 100,000 partitions are about 10 MB.
SNAPSHOT_BYTES_MAX = 1 << 30
QUORUM_STATE_BYTES_MAX = 1 << 20
BOOTSTRAP_BYTES_MAX = 16 << 20
# The log is read in pieces of this size at start.
READ_BYTES = 4 << 20
PART_SUFFIX = ".part"


class MetadataLog:
    """Reads and writes the files; does not interpret the records."""

    def __init__(self, log: Log, root: str, segment_bytes: int) -> None:
        """`root` is the data directory of the log. `append` begins a segment before the newest one would become larger
        than `segment_bytes`; the log itself does not.
        """
        self.log = log
        self.root = root
        self._segment_bytes = segment_bytes
        self.directory = str(log.directory)
        self._synced_base = -1  # base offset of the segment that was the newest at the last sync
        # Base offsets of the segments whose files a worker has to remove, the oldest first. Usually empty; a disk that
        # refuses it keeps them until the next snapshot is deleted.
        self._removable: deque[int] = deque()

    def load(self) -> Loader:
        """The newest snapshot and the log behind it, applied. Blocks. Raises MetadataLogError, StorageError."""
        self._remove_parts()
        loader = self.load_snapshot()
        start, end = self.log.log_start_offset, self.log.log_end_offset
        covered = loader.image.offset + 1
        if start > covered:
            raise MetadataLogError(
                f"{self.directory}: the log begins at offset {start}, and the newest snapshot ends at {covered}"
            )
        offset = max(start, covered)
        while offset < end:
            content = self.read(offset, end, READ_BYTES)
            if not content:
                break
            try:
                loader.load_log(content)
            except MetadataLogError as error:
                raise MetadataLogError(f"{self.directory}: {error}") from error
            offset = loader.image.offset + 1
        return loader

    def load_snapshot(self) -> Loader:
        """The newest snapshot, applied. Blocks. Raises MetadataLogError, OSError."""
        loader = Loader()
        ids = self.snapshots()
        if ids:
            _load_snapshot(loader, ids[-1], self._path(ids[-1].file_name))
        return loader

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Return whole batches from `offset` up to `end_offset`, about `max_bytes` of them and at least one; nothing if
        the log has none there. Raises StorageError.
        """
        slice_ = self.log.read_slice(offset, end_offset, max_bytes, True)
        return b"" if slice_ is None else _whole_batches(slice_.read())

    def truncate(self, end_offset: int, now_ms: int) -> None:
        """Remove everything from `end_offset` on, which the next sync brings to the disk. Raises StorageError,
        OSError.
        """
        newest_base = self.log.active.base_offset
        log_truncation.truncate_to(self.log, end_offset, now_ms)
        if self.log.active.base_offset < newest_base:
            # The next sync includes the names: a segment that a power loss brings back would not fit the later ones.
            self._synced_base = self.log.active.base_offset - 1

    def bootstrap_records(self, now_ms: int) -> list[VersionedRecord]:
        """Return the first records of an empty log: those of `bootstrap.checkpoint`, which is written unless Kafka's
        StorageTool has written it.

        Blocks. Raises MetadataLogError, OSError.
        """
        path = os.path.join(self.root, snapshot.BOOTSTRAP_NAME)
        try:
            return snapshot.bootstrap_records(read_whole(path, BOOTSTRAP_BYTES_MAX))
        except (MetadataLogError, ValueError) as error:
            raise MetadataLogError(f"{path}: {error}") from error
        except FileNotFoundError:
            records = default_bootstrap()
            content = b"".join(snapshot.write(iter(records), KRaftState(), 0, now_ms, now_ms))
            # Synced, because a start refuses a file that a power loss left incomplete.
            write_atomically(path, content, sync=True)
            return records

    def epochs(self) -> LogEpochs:
        """The leader epochs of the log."""
        return LogEpochs(self.log.log_end_offset, self.log.epochs.entries, self.start())

    def start(self) -> OffsetAndEpoch:
        """The snapshot that the log begins behind; (0, 0) if it has all entries."""
        if not self.log.log_start_offset:
            return BEGINNING
        covering = [i for i in self.snapshots() if i.end_offset >= self.log.log_start_offset]
        return OffsetAndEpoch(self.log.log_start_offset, covering[0].epoch)

    def newest_snapshot(self) -> OffsetAndEpoch | None:
        """The id of the newest snapshot, except for the one that `storage format` writes, which has no records."""
        ids = [i for i in self.snapshots() if i.end_offset]
        return OffsetAndEpoch(*ids[-1]) if ids else None

    def append(self, content: bytes, now_ms: int) -> None:
        """Append batches, after everything before them was synced. Raises StorageError, and then nothing was appended.

        All of them go into one segment. If the log began a segment in the middle of them, a power loss could keep the
        new segment and take the end of the one before it, and the next start would refuse such a log.
        """
        size_bytes = self.log.active.size
        if size_bytes and size_bytes + len(content) > self._segment_bytes:
            try:
                self.log.begin_segment(now_ms)
            except OSError as error:
                raise StorageError(f"cannot begin a segment in {self.directory}: {error.strerror}") from error
        self.log.append(content, now_ms)

    def replace(self, start: OffsetAndEpoch, now_ms: int) -> Callable[[], None]:
        """Empty the log: it begins behind the snapshot `start`, which is on disk. Raises StorageError, OSError. Returns
        the function that syncs this (see begin_sync): otherwise the next start may look for entries that the snapshot
        has replaced.
        """
        log_truncation.restart_at(self.log, start.offset, now_ms)
        self._synced_base = -1
        return self.begin_sync()

    def begin_sync(self) -> Callable[[], None]:
        """Return a function that brings everything appended so far to the disk; it may be called in any thread, blocks,
        and raises OSError.

        Only the log itself is synced: indexes and the like are rebuilt from it if they are missing.
        """
        paths = [s.path for s in self.log.segments if s.base_offset >= self._synced_base]
        is_new = self._synced_base != self.log.active.base_offset
        self._synced_base = self.log.active.base_offset
        return partial(_sync, self.log.syncs, paths, self.directory if is_new else None)

    def delete_log_before(self, offset: int, now_ms: int) -> Callable[[], None]:
        """Let the log start at `offset`, which a snapshot covers. Returns a function that removes the files before it;
        it blocks, may be called in any thread, and raises OSError. Raises StorageError, OSError.
        """
        log_deletion.delete_records_before(self.log, offset, now_ms, 0)
        self._removable.extend(log_deletion.forget_old_segments(self.log))
        return partial(_remove_segments, self.directory, self._removable)

    # --- quorum-state

    def read_election_state(self) -> ElectionState | None:
        """None if the node has never voted. Raises QuorumError for a file that does not parse."""
        path = self._path(election_state.FILE_NAME)
        try:
            return ElectionState.from_json(read_whole(path, QUORUM_STATE_BYTES_MAX))
        except FileNotFoundError:
            return None
        except (QuorumError, ValueError) as error:
            raise QuorumError(f"{path}: {error}") from error

    def write_election_state(self, state: ElectionState, *, is_bound: bool = True) -> None:
        """Replace the file. Blocks until it is on disk; a power loss may bring the file before back unless `is_bound`.
        Raises OSError.
        """
        write_atomically(self._path(election_state.FILE_NAME), state.to_json(), sync=True, sync_name=is_bound)

    # --- snapshots

    def snapshots(self) -> list[SnapshotId]:
        """Return the snapshots, the oldest first."""
        return sorted(filter(None, map(SnapshotId.of_file, os.listdir(self.directory))))

    def write_snapshot(self, snapshot_id: SnapshotId, parts: list[bytes]) -> None:
        """Write the file and rename it once it is complete. Blocks until it is on disk. Raises OSError."""
        path = self._path(snapshot_id.file_name)
        part = path + PART_SUFFIX
        try:
            with open(part, "wb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError:
            with suppress(OSError):
                os.unlink(part)
            raise
        sync_directory(self.directory)

    def write_chunk(self, chunk: SnapshotChunk) -> tuple[SnapshotDone, Loader] | None:
        """Write a part of a snapshot that the leader has sent. Blocks. The last part makes it a snapshot of this node,
        which is on disk when the function returns, and returned with its content. Raises OSError, and MetadataLogError
        if the snapshot does not parse; then the parts are gone.
        """
        snapshot_id = SnapshotId(*chunk.snapshot_id)
        path = self._path(snapshot_id.file_name)
        part = path + PART_SUFFIX
        try:
            with open(part, "r+b" if chunk.position else "wb") as file:
                file.seek(chunk.position)
                file.write(chunk.content)
                if not chunk.is_last:
                    return None
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            loader = Loader()
            _load_snapshot(loader, snapshot_id, part)
            os.replace(part, path)
        except (OSError, MetadataLogError):
            with suppress(OSError):
                os.unlink(part)
            raise
        sync_directory(self.directory)
        voters = wire_log.from_record(loader.kraft.voters) if loader.kraft.voters is not None else None
        return SnapshotDone(chunk.snapshot_id, loader.kraft.kraft_version, voters), loader

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot, and its bytes from `position` on. Raises FileNotFoundError, OSError."""
        with open(self._path(snapshot_id.file_name), "rb") as file:
            file.seek(position)
            return os.fstat(file.fileno()).st_size, file.read(max_bytes)

    def delete_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Raises OSError."""
        os.unlink(self._path(snapshot_id.file_name))

    def snapshot_size_and_age(self, snapshot_id: SnapshotId, now_ms: int) -> tuple[int, int]:
        """Return its size in bytes, and its age in milliseconds."""
        status = os.stat(self._path(snapshot_id.file_name))
        return status.st_size, now_ms - status.st_mtime_ns // 1_000_000

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _remove_parts(self) -> None:
        for name in os.listdir(self.directory):
            if name.endswith(".checkpoint" + PART_SUFFIX):
                os.unlink(self._path(name))


def _load_snapshot(loader: Loader, snapshot_id: SnapshotId, path: str) -> None:
    try:
        content = read_whole(path, SNAPSHOT_BYTES_MAX)
        if not snapshot.is_finished(content):
            raise MetadataLogError("it has no footer, so it is incomplete")
        loader.load_snapshot(content, snapshot_id)
    except (MetadataLogError, ValueError) as error:
        raise MetadataLogError(f"metadata snapshot {path}: {error}") from error


def _sync(syncs: LogSyncs, paths: list[str], directory: str | None) -> None:
    for path in paths:
        syncs.file(path)
    if directory is not None:
        # The name of a new segment must reach the disk as well as its content.
        syncs.names(directory)


def _remove_segments(directory: str, base_offsets: deque[int]) -> None:
    """Take each segment from `base_offsets` once its files are renamed; then a start no longer loads it."""
    while base_offsets:
        renamed = log_deletion.mark_deleted(directory, base_offsets[0])
        base_offsets.popleft()
        for path in renamed:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _whole_batches(content: bytes) -> bytes:
    """Return the data without an incomplete batch at the end of a bounded read."""
    end = 0
    while end + 12 <= len(content):
        size = 12 + int.from_bytes(content[end + 8 : end + 12], "big", signed=True)
        if size < 12 or end + size > len(content):
            break
        end += size
    return content[:end]
