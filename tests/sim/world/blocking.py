"""Calls that may block an event loop: a world reports each one that is not allowed.

Time is virtual, so a sync of the simulated disk takes none. But the seams know which thread makes a call: the loop of a
machine makes turns, and its workers do jobs. Between the start and the stop of a broker, a turn may only make the calls
of ALLOWED, each at most so many times. docs/architecture.md has the same list, with the reasons.

A read that is confined to the page cache (storage.disk.confine_reads) does not block. Every other read may, also of
bytes that were just written. Bytes of this turn are not known to be in memory either. A question for free bytes counts
as a read, because a disk of the network may not answer it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from broker_cy.coordinator_services.coordinator_runtime import LOAD_CHUNK_BYTES
from broker_cy.metadata import framing
from broker_cy.storage import checkpoints, written_points
from broker_cy.storage import disk as system
from broker_cy.wire import codec, records
from tests.support.power import replaced

SYNC, RENAME, READ, PARSE = "sync", "rename", "read", "parse"
# By name of the methods of a Disk (support.power.CALLS).
KINDS: Final = {"sync": SYNC, "sync_all": SYNC, "rename": RENAME}
# Functions that parse a whole argument, and its position. Requests on a connection are not watched, because compiled
# code decodes them: decode_at of wire.codec, and the parsers of Produce and Fetch.
PARSERS: Final[tuple[tuple[Any, str, int], ...]] = (
    (framing, "batches", 0),
    (checkpoints, "decode_entries", 0),
    (written_points, "decode_entries", 0),
    (records, "decode_batches", 0),
    (codec, "decode", 2),
    (codec, "decode_prefix", 2),
    (codec, "decode_request", 2),
    (codec, "decode_versioned", 1),
)
# Bytes that may be parsed anywhere. A whole batch may, because its size is limited.
PARSED_BYTES: Final = 1 << 10
# Replaces committed_metadata.REPLAY_BYTES in a world.
REPLAY_BYTES: Final = 1 << 10
# More than a message between two brokers of a world has.
FORWARDED_BYTES: Final = 64 << 10
# The function of calls that no function in Python makes.
COMPILED: Final = "compiled code"
# Functions of the stack that a finding names.
SHOWN: Final = 6


@dataclass(frozen=True)
class Allowed:
    """Below `function` the loop may make calls of a kind: `most` in one turn; for PARSE, of `most` bytes each."""

    kind: str
    function: str
    most: int


ALLOWED: Final = (
    # A log is created: its topic id. Each turn creates up to creations.AT_ONCE logs of a topic.
    Allowed(RENAME, "storage.log_manager.LogManager.create", 100),
    # A partition is deleted, or was moved to other brokers: its directory. One for each partition.
    Allowed(RENAME, "storage.log_manager.LogManager.delete", 100),
    # A batch of another leader epoch is written, or a log is cut. One for each log.
    Allowed(RENAME, "storage.epochs.LeaderEpochs.write", 100),
    # A segment is full: the producer state at its end. One for each log.
    Allowed(RENAME, "storage.snapshots.write", 100),
    # Old segments: 64 of up to five files between two turns of Retention; the leftover of the turn before is also used
    # up.
    Allowed(RENAME, "storage.retention.Retention._drop", 640),
    # A follower's log is cut, or begins again: up to five files of each segment that is dropped.
    Allowed(RENAME, "storage.log_cutting._rename_segment", 320),
    # Compacted segments and those that they replace: 64 of up to five files each.
    Allowed(RENAME, "storage.cleaner.log_cleaner.LogCleaner._on_step", 640),
    # A moved replica gets its new directory: the epochs, a leftover with its name, and the copy. One for each log.
    Allowed(RENAME, "storage.moves.replica_moves.ReplicaMoves._swap", 300),
    # Records of a log that is written to all the time, if each of them must be on disk: after some attempts without.
    Allowed(SYNC, "storage.moves.replica_moves.ReplicaMoves._swap", 10),
    # The note of damage in the directory of a log.
    Allowed(RENAME, "storage.damage.write", 100),
    # A segment is full: its last index interval is read for the index entry of its end. This is for batches of clients
    # and, also in compiled code, for the reads of a fetch after COLD_LOOKUPS_MAX lookups that it waited for.
    Allowed(READ, COMPILED, 100),
    Allowed(READ, "coordinator_services.record_writer.RecordWriter._stage_pending", 4),
    Allowed(READ, "coordinator_services.group_runtime.GroupRuntime.commit_transactional", 4),
    Allowed(READ, "events.own_topic.OwnTopic._append", 4),
    Allowed(READ, "control.quorum.metadata_log.MetadataLog.append", 4),
    # The same, for each partition of a request of markers.
    Allowed(READ, "coordinator_services.txn_markers.TxnMarkers._append", 100),
    # The same, for each transaction that is open when a mirror is promoted.
    Allowed(READ, "replication.mirror_manager.MirrorManager._end_transactions", 100),
    # The same, for each log in an answer of a leader: after a start there are many.
    Allowed(READ, "replication.fetcher.LeaderFetcher._append", 100),
    Allowed(READ, "replication.mirror_fetcher.MirrorFetcher._append", 100),
    # A log is cut: the index, and the headers of batches behind the last producer state.
    Allowed(READ, "storage.log_manager.LogManager.truncate_to", 100),
    Allowed(READ, "control.quorum.metadata_log.MetadataLog.truncate", 100),
    # A log changes its directory: the records and index entries that its copy lacks.
    Allowed(READ, "storage.moves.replica_moves.ReplicaMoves._swap", 100),
    # A write failed: its entries in the transaction index.
    Allowed(READ, "storage.txn_index.truncate_to", 100),
    # The next log to compact is chosen: the first timestamp after the compacted part.
    Allowed(READ, "storage.cleaner.log_cleaner.LogCleaner._begin", 100),
    # The position of the next piece that a coordinator loads; a worker reads the piece.
    Allowed(READ, "coordinator_services.coordinator_runtime.CoordinatorRuntime._replay_log", 100),
    # A piece of a coordinator's log; LOAD_RECORDS_PER_TURN of its records are replayed in a turn.
    Allowed(PARSE, "coordinator_services.coordinator_runtime.CoordinatorRuntime._replay_log", LOAD_CHUNK_BYTES),
    # A piece of the committed metadata; one batch is parsed as a whole, whatever its size is.
    Allowed(PARSE, "control.image.committed_metadata.CommittedMetadata._replay", REPLAY_BYTES),
    # A request that a broker forwarded, its response, and the log ends of the partitions that a follower asked for.
    Allowed(PARSE, "handlers.controllers.envelope.envelope", FORWARDED_BYTES),
    Allowed(PARSE, "control.link.envelope.read_response", FORWARDED_BYTES),
    Allowed(PARSE, "replication.leader_offsets.leader_offsets", FORWARDED_BYTES),
)
_BY_KIND: Final = {
    kind: {each.function: each for each in ALLOWED if each.kind == kind} for kind in (SYNC, RENAME, READ, PARSE)
}


@dataclass
class Turn:
    """The calls of one turn, and the first one that was too much."""

    finding: str | None = None
    counts: dict[Allowed, int] = field(default_factory=dict)


class _Watch:
    """The turn that is watched; None while a worker runs, and during a start or a stop."""

    turn: Turn | None = None


class turn_of:
    """A turn of the loop of a machine. Raises AssertionError if it made a call that may block it. A class for the same
    reason as disks.use.
    """

    def __init__(self, host: str, *, is_watched: bool) -> None:
        self._host = host
        self._turn = Turn() if is_watched else None

    def __enter__(self) -> None:
        _Watch.turn = self._turn

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _Watch.turn = None
        if kind is None and self._turn is not None and self._turn.finding is not None:
            raise AssertionError(f"the event loop of {self._host} may block: {self._turn.finding}")


@contextmanager
def worker() -> Iterator[None]:
    """A job of a worker, also if the loop waits for it."""
    turn, _Watch.turn = _Watch.turn, None
    try:
        yield
    finally:
        _Watch.turn = turn


def called(kind: str, amount: int = 1) -> None:
    """Note a call of the broker; for PARSE with the number of bytes."""
    turn = _Watch.turn
    if turn is None or turn.finding is not None:
        return
    allowed: Allowed | None = None
    stack: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and allowed is None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("broker_cy."):
            stack.append(f"{module.removeprefix('broker_cy.')}.{frame.f_code.co_qualname}")
            allowed = _BY_KIND[kind].get(stack[-1])
        frame = frame.f_back
    if not stack:
        allowed = _BY_KIND[kind].get(COMPILED)
    if allowed is None:
        turn.finding = f"{kind} in {' < '.join(stack[:SHOWN]) or COMPILED}"
        return
    count = amount if kind == PARSE else turn.counts.get(allowed, 0) + amount
    turn.counts[allowed] = count
    if count > allowed.most:
        turn.finding = f"{count} of {kind} in {allowed.function}, and {allowed.most} are allowed"


def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A system call of disks, which is noted if it may block."""
    kind = KINDS.get(name)
    if kind is None:
        return call

    def noted(*arguments: Any, **named: Any) -> Any:
        called(kind)
        return call(*arguments, **named)

    return noted


def _reading(call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        called(READ)
        return call(*arguments)

    return noted


def _parsing(call: Callable[..., Any], position: int) -> Callable[..., Any]:
    def noted(*arguments: Any, **named: Any) -> Any:
        content = arguments[position]
        if len(content) > PARSED_BYTES and not _is_one_batch(content):
            called(PARSE, len(content))
        return call(*arguments, **named)

    return noted


def _is_one_batch(content: bytes) -> bool:
    return 12 + int.from_bytes(content[8:12], "big") == len(content)


@contextmanager
def installed() -> Iterator[None]:
    """Note reads and parsers, too."""
    calls = [(os, name, _reading(getattr(os, name))) for name in ("read", "pread", "statvfs")]
    calls += [(module, name, _parsing(getattr(module, name), position)) for module, name, position in PARSERS]
    system.set_read_watcher(lambda size_bytes: called(READ))
    with replaced(calls):
        try:
            yield
        finally:
            system.set_read_watcher(None)
