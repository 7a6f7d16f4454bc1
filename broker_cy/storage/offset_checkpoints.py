"""The offset checkpoints of all data directories, Kafka's three and the written points: their content at the start,
and the content to write now.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.core.logs import facts
from broker_cy.storage.atomic import sync_directory, write_atomically
from broker_cy.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    Entries,
    TopicPartition,
    read_entries,
    topic_ids_of,
    write_offsets,
)
from broker_cy.storage.data_directory import METADATA_TOPIC
from broker_cy.storage.log import Log
from broker_cy.storage.log_opener import Unopened
from broker_cy.storage.written_points import WRITTEN_POINTS, read_points, write_points

logger = logging.getLogger(__name__)

# An empty file in a data directory whose checkpoint of log start offsets has every deletion. Created after it was
# written, and removed when it cannot be written, which needs no space on the disk. Kafka ignores it.
STARTS_ARE_SAVED = "log-start-offsets-are-saved"
# In the order of writing: see `collect`.
ALL = (LOG_START_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS, WRITTEN_POINTS)


class Content(NamedTuple):
    """The content to write to a checkpoint file. A higher `sequence` for the same path is newer."""

    sequence: int
    path: str
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, UUID]


class OffsetCheckpoints:
    """Checkpoints of the data directories at `roots`. `topic_ids` (the log manager's) are those of the existing
    partitions: the entries of a file are written for these topics, and apply to no other topic of the same name.
    """

    def __init__(self, roots: list[str], topic_ids: Mapping[TopicPartition, UUID]) -> None:
        self.roots = roots
        self._topic_ids = topic_ids
        # Partitions whose logs are not open yet (the log manager's): their accepted entries stay in the files.
        self.unopened: Mapping[TopicPartition, Unopened] = {}
        # Logs that will soon be in another data directory, which is to have their log start offset before.
        self.arriving: dict[TopicPartition, str] = {}
        # Content of the files at the start, by directory and name. An entry is used once `accept` has taken it over.
        self._read: dict[str, dict[str, Entries]] = {root: {} for root in roots}
        # The newest topic that `accept` was called for, and of each file whose entries apply to it: these, the offsets
        # that they go to, and whether Kafka wrote them. A start accepts the partitions of a topic one after the other.
        self._accepting: tuple[str, str, UUID | None] = ("", "", None)
        self._accepted: list[tuple[dict[TopicPartition, int], dict[TopicPartition, int], bool]] = []
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.written_points: dict[TopicPartition, int] = {}
        self._by_name = {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            WRITTEN_POINTS: self.written_points,
        }
        # Partitions with an accepted entry without a topic id: Kafka wrote it.
        self.not_ours: set[TopicPartition] = set()
        # Partitions that `accept_missing` found: the directory of their entry, and their topic id.
        self._missing: dict[TopicPartition, tuple[str, UUID]] = {}
        self._collected = 0
        # By path, the sequence of the content in the file. One lock per path guards it and the file itself: the loop
        # (truncation, stop) and a worker may write at the same time, and written points never wait for the sync of
        # another file.
        self._written = {f"{root}/{name}": 0 for root in roots for name in ALL}
        self._locks = {path: threading.Lock() for path in self._written}
        # The log start offsets that are in the files, by path.
        self._starts_written: dict[str, Content] = {}
        # Data directories that had STARTS_ARE_SAVED at the start, and those that have it now.
        self.were_saved = frozenset(root for root in roots if os.path.exists(f"{root}/{STARTS_ARE_SAVED}"))
        self._are_saved = set(self.were_saved)
        # Data directories whose STARTS_ARE_SAVED a power loss may bring back, although the last write has failed.
        self._unsettled: set[str] = set()
        # By data directory, the sequence of the newest content with log start offsets that could not be written.
        self._lost: dict[str, int] = {}
        # The errors of data directories whose checkpoints cannot be read: they are dropped.
        self.unreadable: dict[str, OSError] = {}
        for root in list(roots):
            for name in ALL:
                try:
                    read = read_points if name == WRITTEN_POINTS else read_entries
                    self._read[root][name] = read(f"{root}/{name}")
                except ValueError as error:
                    # As in Kafka, every log of this directory is then recovered from its start.
                    logger.warning("treated a damaged checkpoint as empty", extra=facts(reason=error))
                except OSError as error:
                    self.unreadable[root] = error
            if root in self.unreadable:
                self.drop(root)
            else:
                self.accept(root, (METADATA_TOPIC, 0), None)

    def drop(self, root: str) -> None:
        """Write nothing more in a data directory, because its disk has failed. Called on the loop."""
        self.roots = [each for each in self.roots if each != root]
        self._read.pop(root, None)

    def accept(self, root: str, key: TopicPartition, topic_id: UUID | None) -> None:
        """Take over the entries that the files had at the start for a partition in `root`, which belongs to the topic
        `topic_id` (None if it is not known). Entries that were written for another topic of that name are left out.
        """
        if (root, key[0], topic_id) != self._accepting:
            self._accepting = root, key[0], topic_id
            self._accepted = [
                (
                    entries.offsets,
                    self._by_name[name],
                    name in (RECOVERY_POINTS, LOG_START_OFFSETS) and key[0] not in entries.topic_ids,
                )
                for name, entries in self._read[root].items()
                if entries.offsets and entries.are_of(key[0], topic_id)
            ]
        for read, offsets, is_not_ours in self._accepted:
            offset = read.get(key)
            if offset is not None:
                offsets[key] = offset
                if is_not_ours:
                    self.not_ours.add(key)

    def accept_missing(self, topic_id_of: Callable[[str, int], UUID | None]) -> None:
        """Take over the log start offsets of partitions whose directory, or the topic id in it, was lost in a power
        loss: the log then begins at that offset again, and does not give the offsets of deleted records to others.
        Until the log is created, its entry stays in the checkpoint of that data directory.
        """
        for root, by_name in self._read.items():
            entries = by_name.get(LOG_START_OFFSETS, Entries({}, {}))
            for key, offset in entries.offsets.items():
                topic_id = topic_id_of(*key)
                if key not in self._topic_ids and topic_id is not None and topic_id == entries.topic_ids.get(key[0]):
                    self.log_starts[key] = max(offset, self.log_starts.get(key, 0))
                    self._missing[key] = (root, topic_id)

    def flushed_logs(self, root: str) -> list[TopicPartition]:
        """The logs that the last process flushed in a data directory: after a clean stop, all of them. Only before
        `loaded`.
        """
        entries = self._read[root].get(RECOVERY_POINTS, Entries({}, {}))
        return [key for key in entries.offsets if key[0] != METADATA_TOPIC]

    def loaded(self) -> None:
        """Drop the content that was read at the start: every partition that existed then has been accepted."""
        for entries in self._read.values():
            entries.clear()
        self._accepting, self._accepted = ("", "", None), []

    def forget(self, key: TopicPartition) -> None:
        """Drop the entries of a partition that was deleted."""
        for offsets in self._by_name.values():
            offsets.pop(key, None)
        self.not_ours.discard(key)
        self._missing.pop(key, None)

    @property
    def starts_are_saved(self) -> bool:
        """Whether the checkpoints of log start offsets have all deletions, in every data directory."""
        return self._are_saved.issuperset(self.roots)

    def may_rename(self, root: str) -> bool:
        """Whether segments before the log start offsets at the last write may be renamed: these are on disk, or it is
        on disk that they are not.
        """
        return root not in self._unsettled

    def collect(
        self,
        names: Iterable[str],
        logs: Mapping[TopicPartition, Log],
        offline: Iterable[TopicPartition],
        roots: Collection[str] | None = None,
    ) -> list[Content]:
        """The content that the checkpoint files `names` in `roots` (all by default) have to have now. Partitions that
        are offline, or not open yet, keep the entries that were read at the start. Called on the loop.

        Recovery points come with the log start offsets, to be written before them: a deletion moves a recovery point
        past records that were never synced. If it were on disk and the log start offset were not, a power loss could
        bring back the deleted segments, torn, and the next start would not check them.
        """
        self._collected += 1
        names = set(names)
        if RECOVERY_POINTS in names:
            names.add(LOG_START_OFFSETS)
        roots = self.roots if roots is None else roots
        wanted: list[Content] = []
        for name in (each for each in ALL if each in names):
            found: dict[str, dict[TopicPartition, int]] = {
                root: {} for root in (self.roots if roots is None else roots)
            }
            for key, log in logs.items():
                offsets = found.get(os.path.dirname(log.directory))
                if offsets is None:
                    continue
                if key[0] == METADATA_TOPIC:
                    # The quorum syncs that log itself. Kafka does not note how far; here a start needs this to
                    # distinguish damage from a torn end.
                    if name == RECOVERY_POINTS and key in self.recovery_points:
                        offsets[key] = self.recovery_points[key]
                    continue
                if name == RECOVERY_POINTS:
                    offsets[key] = log.recovery_point
                elif name == WRITTEN_POINTS:
                    if log.written_point > log.recovery_point and not log.sync_failed:
                        offsets[key] = log.written_point
                elif name == HIGH_WATERMARKS:
                    # A log without an entry was opened a moment ago: the records at its end may not be committed.
                    if key in self.high_watermarks:
                        offsets[key] = min(self.high_watermarks[key], log.written_end_offset)
                elif log.log_start_offset > 0:
                    # Even if the name of the first segment shows it: a power loss may bring back those before it.
                    offsets[key] = log.log_start_offset
            accepted = self._by_name[name]
            for key, each in self.unopened.items():
                if key in accepted and (offsets := found.get(each.root)) is not None:
                    offsets[key] = accepted[key]
            for key in offline:
                for root, offsets in found.items():
                    if key in accepted and os.path.isdir(f"{root}/{key[0]}-{key[1]}"):
                        offsets[key] = accepted[key]
            topic_ids = self._topic_ids
            if name == LOG_START_OFFSETS:
                for key, root in self.arriving.items():
                    if root in found and key in logs and logs[key].log_start_offset > 0:
                        found[root][key] = logs[key].log_start_offset
                missing = {key: place for key, place in self._missing.items() if key not in logs and place[0] in found}
                for key, (root, _) in missing.items():
                    found[root][key] = self.log_starts[key]
                topic_ids = {**topic_ids, **{key: topic_id for key, (_, topic_id) in missing.items()}}
            wanted += [
                Content(self._collected, f"{root}/{name}", offsets, topic_ids_of(offsets, topic_ids))
                for root, offsets in found.items()
            ]
        return wanted

    def write(self, wanted: Iterable[Content]) -> None:
        """Write checkpoint files, durably except for the written points. Blocks for the disk and for a write in another
        thread. A file with newer content is left unchanged. Raises OSError; the files of the same data directory after
        the one that failed are then not written.
        """
        failures: dict[str, OSError] = {}
        for content in wanted:
            root = os.path.dirname(content.path)
            if root in failures or root not in self.roots:
                continue
            with self._locks[content.path]:
                if content.sequence > self._written[content.path]:
                    try:
                        self._write(content)
                    except OSError as error:
                        failures[root] = error
                        continue
                    self._written[content.path] = content.sequence
        if failures:
            raise next(iter(failures.values()))

    def _write(self, content: Content) -> None:
        _, path, offsets, topic_ids = content
        if path.endswith(WRITTEN_POINTS):
            write_points(path, offsets, topic_ids)
        elif not path.endswith(LOG_START_OFFSETS):
            write_offsets(path, offsets, topic_ids)
        else:
            try:
                self._write_starts(content)
            except OSError:
                self._starts_are_lost(os.path.dirname(path), content.sequence)
                raise

    def _write_starts(self, content: Content) -> None:
        sequence, path, offsets, topic_ids = content
        root = os.path.dirname(path)
        # These are written with each flush, and rarely change.
        before = self._starts_written.pop(path, None)
        if before is None or before[2:] != content[2:]:
            write_offsets(path, offsets, topic_ids)
        if sequence > self._lost.get(root, 0):
            if root not in self._are_saved:
                self._are_saved.add(root)
                write_atomically(f"{root}/{STARTS_ARE_SAVED}", b"", sync=True)
            self._unsettled.discard(root)
        self._starts_written[path] = content

    def _starts_are_lost(self, root: str, sequence: int) -> None:
        """Note that deletions go on although they are not in the checkpoint. Raises OSError."""
        self._lost[root] = max(sequence, self._lost.get(root, 0))
        if root in self._are_saved:
            self._unsettled.add(root)
            with suppress(FileNotFoundError):
                os.unlink(f"{root}/{STARTS_ARE_SAVED}")
            self._are_saved.discard(root)
        if root in self._unsettled:
            sync_directory(root)
            self._unsettled.discard(root)
