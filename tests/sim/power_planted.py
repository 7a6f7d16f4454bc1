"""Defects that the power cut simulation has to find, each a patch that restores the wrong behaviour, with the number of
seeds (from 0 on) within which a seed has to fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from broker_cy.server import controller_service, metadata_log
from broker_cy.storage import (
    checkpoints,
    data_directory,
    flusher,
    log_loader,
    maintenance,
    syncs,
)
from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.flush_job import FlushJob
from broker_cy.storage.log import Log
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
from broker_cy.storage.sync_job import SyncJob
from broker_cy.storage.syncs import LogSyncs
from tests.sim.power_run import Run
from tests.support.power import Disk


@dataclass(frozen=True)
class Planted:
    """`plant` makes the code wrong; the first `seeds` seeds find it, with the steps `steps` that are else held back."""

    plant: Callable[[pytest.MonkeyPatch], Any]
    seeds: int
    steps: frozenset[str] = frozenset()
    # Takes too long for `make test`.
    is_rare: bool = False


BREAK = frozenset({"break"})


def _roll_inside_of_an_append(patch: pytest.MonkeyPatch) -> None:
    """The metadata log begins a segment wherever one is full, as any other log."""
    patch.setattr(controller_service, "SEGMENT_BYTES_MAX", 900)
    patch.setattr(
        metadata_log.MetadataLog, "append", lambda self, content, now_ms: self.log.append(content, now_ms) and None
    )


def _trust_every_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Producer state from the newest snapshot, whatever the transaction indexes before it lack."""
    reload = maintenance.reload_producers
    patch.setattr(maintenance, "reload_producers", lambda *arguments: reload(*arguments[:5]))


def _by_name(checkpoint: str) -> Callable[[pytest.MonkeyPatch], Any]:
    """The entries of one checkpoint are applied to whatever topic has the name now."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        accept = OffsetCheckpoints.accept

        def wrong(self: OffsetCheckpoints, root: str, key: TopicPartition, topic_id: UUID | None) -> None:
            accept(self, root, key, topic_id)
            entries = self._read[root].get(checkpoint)
            if entries is not None and key in entries.offsets:
                self._by_name[checkpoint][key] = entries.offsets[key]

        patch.setattr(OffsetCheckpoints, "accept", wrong)

    return plant


def _gaps_by_name(patch: pytest.MonkeyPatch) -> None:
    """A log may have gaps because one of that name was compacted."""
    read = checkpoints.read_entries
    patch.setattr(checkpoints, "read_entries", lambda path: checkpoints.Entries(read(path).offsets, {}))


def _jobs_by_path(patch: pytest.MonkeyPatch) -> None:
    """A flush that waited writes epochs and producers into whatever has the path by then."""

    def opened(self: FlushJob) -> int:
        return os.open(self.log.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    patch.setattr(FlushJob, "_open", opened)


def _adopt_nameless(patch: pytest.MonkeyPatch) -> None:
    """A directory that lost its topic id with the power belongs to the topic that has the name now."""
    identify = LogManager._identify

    def wrong(self: LogManager, key: TopicPartition, path: str, topic_id_of: Callable[[str], UUID | None]) -> Any:
        expected = topic_id_of(key[0])
        if expected is not None and data_directory.read_topic_id(path) is None:
            data_directory.write_topic_id(path, expected)
        return identify(self, key, path, topic_id_of)

    patch.setattr(LogManager, "_identify", wrong)


def _drop_while_staged(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords takes segments away while batches are staged that a failed write has to undo."""
    delete = maintenance.delete_records_before

    def wrong(log: Log, offset: int, now_ms: int, segments_max: int) -> list[str]:
        paths = delete(log, offset, now_ms, segments_max)
        while log.staged_batches and len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset:
            segment = log.segments.pop(0)
            segment.close()
            os.rename(segment.path, f"{segment.path}.deleted")
            paths.append(f"{segment.path}.deleted")
        return paths

    patch.setattr(maintenance, "delete_records_before", wrong)


def _forget_truncations(patch: pytest.MonkeyPatch) -> None:
    """Nobody hears that a file could not be cut back."""
    truncate = Disk.truncate

    def wrong(self: Disk, path: Any, length: int) -> None:
        with suppress(OSError):
            truncate(self, path, length)

    patch.setattr(Disk, "truncate", wrong)


PLANTED: dict[str, Planted] = {
    "group commit syncs nothing": Planted(lambda patch: patch.setattr(SyncJob, "run", lambda job: job), 50),
    "a start serves what a killed process did not sync": Planted(
        lambda patch: patch.setattr(flusher.Flusher, "sync_loaded", lambda self, logs: None), 100
    ),
    "cleaned segments are not synced": Planted(
        lambda patch: patch.setattr(DirectoryFiles, "sync", lambda self, fd: None), 300
    ),
    "names of cleaned segments are not synced": Planted(
        lambda patch: patch.setattr(DirectoryFiles, "sync_directory", lambda self: None), 400
    ),
    "notes of the page cache outlive it": Planted(
        lambda patch: patch.setattr(Run, "boot", property(lambda self: 1, lambda self, number: None), raising=False),
        100,
    ),
    "segments behind damage stay": Planted(
        lambda patch: patch.setattr(log_loader, "_remove_for_good", lambda segments: None), 100
    ),
    "bootstrap.checkpoint is not synced": Planted(
        lambda patch: patch.setattr(
            metadata_log, "write_atomically", lambda path, data, sync: write_atomically(path, data, sync=False)
        ),
        300,
    ),
    "a segment of the metadata log begins in the middle of an append": Planted(_roll_inside_of_an_append, 300),
    "transaction indexes are not made again after a power cut": Planted(_trust_every_snapshot, 200),
    "log start offsets are applied by name": Planted(_by_name(checkpoints.LOG_START_OFFSETS), 600),
    "flushes and notes go by path": Planted(_jobs_by_path, 300),
    "a failed sync is forgotten": Planted(
        lambda patch: patch.setattr(LogSyncs, "_failed", lambda self, error: None), 80, BREAK
    ),
    "a start takes what a failed sync dropped for written": Planted(
        lambda patch: patch.setattr(syncs, "has_failed", lambda directory: False), 80, BREAK
    ),
}
