"""Defects that block an event loop, one for each kind of call: a world has to find each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.control.quorum.quorum_driver import QuorumDriver
from broker_cy.storage import cold_lookup, directory_failures
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.rooms import Rooms
from tests.sim.world.blocking import PARSE, READ, RENAME, SYNC
from tests.sim.world.plan import CLUSTER, CLUSTER_JBOD, CLUSTER_SNAPSHOTS, EVERYTHING


@dataclass(frozen=True)
class Blocking:
    """`plant` lets the loop make calls of `kind`; one of a few seeds of `profile` finds it."""

    kind: str
    plant: Callable[[pytest.MonkeyPatch], None]
    profile: str


def _votes_are_synced_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    """A vote, or a new epoch, reaches the disk before the turn ends in which it was given."""

    def wrong(self: QuorumDriver) -> None:
        self._work_to_secure()()
        self._is_held = False
        if self._staged:
            self._write()
        else:
            self._send()

    patch.setattr(QuorumDriver, "_secure", wrong)


def _notes_are_written_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    """The written points of all logs are written by the loop: nothing is synced, but a file is replaced."""
    right = LogManager.tick

    def wrong(self: LogManager, *arguments: Any) -> None:
        right(self, *arguments)
        self.flusher.note_start()

    patch.setattr(LogManager, "tick", wrong)


def _lookups_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    """A lookup of a consumer itself reads data that is not in memory."""

    def wrong(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    patch.setattr(cold_lookup, "confined", wrong)


def _metadata_are_applied_at_once(patch: pytest.MonkeyPatch) -> None:
    """A node that starts again applies all committed metadata in one turn."""
    right = MetadataLog.read
    patch.setattr(
        MetadataLog, "read", lambda self, offset, end_offset, max_bytes: right(self, offset, end_offset, 1 << 30)
    )


def _segments_of_metadata_are_renamed_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    """A snapshot replaces the beginning of the metadata log, and the loop renames the files of all its segments."""
    right = MetadataLog.delete_log_before

    def wrong(self: MetadataLog, offset: int, now_ms: int) -> Callable[[], None]:
        right(self, offset, now_ms)()
        return lambda: None

    patch.setattr(MetadataLog, "delete_log_before", wrong)


def _free_bytes_are_measured_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    """The loop asks the disks for their free bytes."""

    def wrong(self: Rooms, path: str) -> None:
        self._known[path] = directory_failures.measure(path)

    patch.setattr(Rooms, "_begin", wrong)


BLOCKING: dict[str, Blocking] = {
    "votes are synced on the loop": Blocking(SYNC, _votes_are_synced_on_the_loop, CLUSTER),
    "notes are written on the loop": Blocking(RENAME, _notes_are_written_on_the_loop, EVERYTHING),
    "segments of metadata are renamed on the loop": Blocking(
        RENAME, _segments_of_metadata_are_renamed_on_the_loop, CLUSTER_SNAPSHOTS
    ),
    "lookups wait for the disk": Blocking(READ, _lookups_wait_for_the_disk, EVERYTHING),
    "free bytes are measured on the loop": Blocking(READ, _free_bytes_are_measured_on_the_loop, CLUSTER_JBOD),
    "metadata are applied at once": Blocking(PARSE, _metadata_are_applied_at_once, CLUSTER),
}
