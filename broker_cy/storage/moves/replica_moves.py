"""Moves of replicas between the data directories of this broker (AlterReplicaLogDirs, KIP-113).

`move` has the states of a move.

A crash at any point leaves at least one whole log under the name of the partition. Until the swap that is the old one,
whatever the metadata say, and the broker reports its directory again. The name in the target directory is on disk
before the old log gets the mark `-delete`; in between, both have the name, and the metadata decide. (Kafka 4.3.1
promotes an accepted copy at the start, without the records that it does not have: KAFKA-16082.)

A move ends at its goal, by `cancel`, or with its log. If a disk refuses a step, the move tries again each RETRY_MS: the
disk may be full for some time. A move that a stop interrupts begins again at the next start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.storage import epochs
from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.checkpoints import TopicPartition, encode_pairs
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.log import Log
from broker_cy.storage.moves import future_replica
from broker_cy.storage.moves.future_replica import Chunk, Part
from broker_cy.storage.moves.log_relocation import relocate
from broker_cy.storage.moves.move import Host, Move, State

logger = logging.getLogger(__name__)

# Records that one step copies and writes out. A worker is free for other work in between, and producers wait for the
# processor and for the disk about as long as a step takes: with 8 MiB their p99 was twice as long, at the same rate.
STEP_BYTES = 1 << 20
# The newest records of a copy stay in the page cache, for consumers. Older ones leave it once they are on disk: a large
# log would take the place of records of others, and each step would wait for the machine to find memory.
CACHED_BYTES = 64 << 20
# A step of a throttled move takes about a second, and has at least so much.
STEP_BYTES_MIN = 4 << 10
# A copy that misses less has caught up; so much is copied in the turn of the swap, from page cache to page cache.
CAUGHT_UP_BYTES = 256 << 10
# Between two steps of a copy that has caught up, and of one that waits for a turn without staged records.
FOLLOW_MS = 50
RETRY_MS = 10_000
# flush.messages of a log whose records are acknowledged before they are on disk.
FLUSH_MESSAGES_NEVER = (1 << 63) - 1
# Turns in which a log cannot be swapped because others arrived meanwhile. A log with flush.messages is swapped when the
# disk has all of its records. After so many turns, the turn of the swap waits for the disk, which gets so much at most.
PATIENCE = 50
SYNCED_BYTES_MAX = 4 << 20


# The states that `on_change` reports.
BEGAN, COMPLETED, CANCELLED = "began", "completed", "cancelled"


class ReplicaMoves:
    """The moves, by partition. All methods are called on the loop. Bounded by the number of logs."""

    def __init__(self, host: Host, workers: DiskWorkers, new_uuid: Callable[[], UUID]) -> None:
        self._host = host
        self._workers = workers
        self._new_uuid = new_uuid
        self._moves: dict[TopicPartition, Move] = {}
        # Those whose copy has not caught up and that run now; the others wait for one of these.
        self._copying: list[Move] = []
        # num.replica.alter.log.dirs.threads
        self.copying_max = 1
        self._bytes_per_s = float("inf")
        # Called with the partition, the directories that it leaves and goes to, and BEGAN, COMPLETED or CANCELLED.
        self.on_change: Callable[[TopicPartition, str, str, str], None] = lambda key, source, target, state: None

    @property
    def moves(self) -> Mapping[TopicPartition, Move]:
        """The moves that are not over."""
        return self._moves

    @property
    def bytes_per_s(self) -> float:
        """replica.alter.log.dirs.io.max.bytes.per.second, for all moves together, as in Kafka. With 0 they stand still.
        (Kafka copies one fetch in each window of the quota then.)
        """
        return self._bytes_per_s

    @bytes_per_s.setter
    def bytes_per_s(self, rate: float) -> None:
        self._bytes_per_s = rate
        for move in self._moves.values():
            if move.is_throttled and not move.is_busy:
                self._later(move, 0)

    def claim(self, key: TopicPartition) -> UUID | None:
        """The directory to report instead of that of the log, if any."""
        move = self._moves.get(key)
        return None if move is None or move.state is State.COPYING else move.target.directory_id

    def start(self, key: TopicPartition, log: Log, target: DataDirectory) -> None:
        """Begin to move a log to another directory, instead of a move that is under way."""
        move = self._moves.get(key)
        if move is not None and move.target is target:
            return
        self.cancel(key)
        path = self._new_path(target.path, os.path.basename(log.directory))
        move = self._moves[key] = Move(key, log, target, path)
        self._host.hold(key, is_moving=True)
        logger.info(
            "moving a replica to another directory", extra=facts(partition=f"{key[0]}-{key[1]}", path=target.path)
        )
        self.on_change(key, os.path.dirname(log.directory), target.path, BEGAN)
        self._begin_some()

    def _new_path(self, root: str, name: str) -> str:
        """A directory for a copy that does not exist: one of an earlier move may still wait for its removal, which
        would remove the files of this one.
        """
        while os.path.lexists(path := f"{root}/{name}.{self._new_uuid().hex}-future"):
            pass
        return path

    def accepted(self, key: TopicPartition, directory_id: UUID) -> None:
        """The metadata name this directory for the partition."""
        move = self._moves.get(key)
        if move is not None and move.state is State.REPORTED and move.target.directory_id == directory_id:
            move.state = State.ACCEPTED

    def cancel(self, key: TopicPartition) -> None:
        """Give up a move, if there is one: its log stays, or is closed."""
        move = self._moves.get(key)
        if move is None:
            return
        self._end(move)
        self.on_change(key, os.path.dirname(move.log.directory), move.target.path, CANCELLED)
        if not move.is_busy and move.is_begun:
            self._host.discard(move.future.path)
        if move.state is not State.COPYING:
            # The controller may know the target already (KAFKA-16297).
            self._host.on_placed(*key)

    def truncated(self, key: TopicPartition, offset: int) -> None:
        """The log of a partition was truncated to `offset`."""
        move = self._moves.get(key)
        if move is None:
            return
        if move.is_busy:
            move.truncated_to = offset if move.truncated_to is None else min(offset, move.truncated_to)
        else:
            move.future.truncate(move.log, offset)

    def lose_directory(self, path: str) -> None:
        """The disk of a data directory has failed: moves to and from it are over."""
        for key, move in list(self._moves.items()):
            if path in (move.target.path, os.path.dirname(move.log.directory)):
                self.cancel(key)

    # --- the steps of one move

    def _end(self, move: Move) -> None:
        move.is_over = True
        move.timer = None
        del self._moves[move.key]
        if move in self._copying:
            self._copying.remove(move)
        self._host.hold(move.key, is_moving=False)
        self._begin_some()

    def _begin_some(self) -> None:
        """Let waiting moves copy, as many as may."""
        for move in self._moves.values():
            if len(self._copying) >= self.copying_max:
                return
            if move.state is State.COPYING and move not in self._copying:
                self._copying.append(move)
                self._later(move, 0)

    def _later(self, move: Move, delay_ms: int) -> None:
        """Go on after a delay, instead of after one that has not ended."""
        timer = move.timer = object()
        move.is_throttled = False

        def due() -> None:
            if move.timer is timer:
                move.timer = None
                self._step(move)

        self._workers.of(move.target.path).later(delay_ms, due)

    def _settle(self, move: Move) -> None:
        """A step is over."""
        if move.truncated_to is not None:
            move.future.truncate(move.log, move.truncated_to)
            move.truncated_to = None
        if move.is_over and move.is_begun:
            self._host.discard(move.future.path)

    def _step(self, move: Move) -> None:
        if move.is_over or move.is_busy:
            return
        if move.log.offline is not None:
            self.cancel(move.key)
        elif move.log.staged_batches or not self._host.may_swap(move.log):
            self._later(move, 1)
        elif not self._bytes_per_s and move.is_begun and move.future.remaining_bytes(move.log):
            move.is_throttled = True
        elif move.state is State.ACCEPTED and move.future.remaining_bytes(move.log) <= STEP_BYTES:
            self._complete(move)
        else:
            part = move.future.plan(move.log, self._step_bytes())
            if part.pieces or part.removals or not move.is_begun:
                self._run(move, part, lambda: None, partial(self._copied, part.size_bytes))
            else:
                self._copied(0, move)

    @property
    def _share(self) -> float:
        """Bytes per second for each of the moves that copy now."""
        return self._bytes_per_s / max(1, len(self._copying))

    def _step_bytes(self) -> int:
        return int(min(STEP_BYTES, max(STEP_BYTES_MIN, self._share))) if self._bytes_per_s else 0

    def _run(self, move: Move, part: Part, also: Callable[[], None], then: Callable[[Move], None]) -> None:
        """Carry out a step, and `also`, in workers: of the disk of the log first, then of that of the copy."""
        source, path, is_new, buffer = move.log.directory, move.future.path, not move.is_made, move.buffer
        keep_cached = move.future.remaining_bytes(move.log) <= CACHED_BYTES
        move.is_begun = move.is_busy = True

        def read() -> list[Chunk]:
            return future_replica.read(source, part, buffer, is_first=is_new)

        def have_read(chunks: list[Chunk] | None, error: BaseException | None) -> None:
            if chunks is None or move.is_over:
                end(None, error, source)
                return

            def write() -> dict[str, int]:
                if is_new:
                    future_replica.make(path)
                copied = future_replica.write(path, part.removals, chunks, buffer, keep_cached=keep_cached)
                also()
                return copied

            self._workers.of(path).run(write, lambda copied, error: end(copied, error, path))

        def end(copied: dict[str, int] | None, error: BaseException | None, place: str) -> None:
            move.is_busy = False
            if copied is not None:
                move.is_made = True
                move.future.note(part, copied, move.log)
            self._settle(move)
            if move.is_over:
                return
            if error is not None:
                self._failed(move, error, place)
                return
            move.failure = ""
            then(move)

        self._workers.of(source).run(read, have_read)

    def _failed(self, move: Move, error: BaseException, place: str) -> None:
        """A step failed in the directory `place`, if the error does not name a file."""
        if str(error) != move.failure:
            move.failure = str(error)
            logger.warning("could not copy a replica; will retry", extra=facts(path=move.future.path, reason=error))
        named = error.filename if isinstance(error, OSError) else None
        self._host.suspect(named or place, error)
        self._later(move, RETRY_MS)

    def _copied(self, size_bytes: int, move: Move) -> None:
        remaining = move.future.remaining_bytes(move.log)
        if not self._bytes_per_s and remaining:
            move.is_throttled = True
            return
        throttle_ms = int(size_bytes * 1000 / self._share) if self._bytes_per_s else 0
        self._later(move, max(throttle_ms, 0 if remaining > CAUGHT_UP_BYTES else FOLLOW_MS))
        move.is_throttled = throttle_ms > 0
        # All that is missing has arrived during the last step.
        has_caught_up = size_bytes < self._step_bytes() or remaining <= CAUGHT_UP_BYTES
        # Until the log's former directory there has gone: a start would take that for the log.
        path = f"{move.target.path}/{os.path.basename(move.log.directory)}"
        if move.state is State.COPYING and has_caught_up and self._host.is_free(path):
            move.state = State.REPORTED
            self._copying.remove(move)
            self._host.on_placed(*move.key)
            self._begin_some()

    # --- the swap

    def _complete(self, move: Move) -> None:
        """Copy all that is missing, and swap once that is done."""
        log = move.log
        try:
            _write_indexes(log)
        except OSError as error:
            self._failed(move, error, log.directory)
            return
        end_offset = log.written_end_offset
        save_start = self._host.arriving(move.key, move.target.path)
        rest = move.future.rest(log, syncs=True)
        self._run(move, rest, save_start, lambda move: self._try_to_swap(move, end_offset))

    def _try_to_swap(self, move: Move, synced_end_offset: int) -> None:
        """`synced_end_offset`: the records before it are on the target disk."""
        log = move.log
        remaining = move.future.remaining_bytes(log)
        needs_disk = log.config.flush_messages < FLUSH_MESSAGES_NEVER
        if needs_disk:
            is_complete = log.written_end_offset <= synced_end_offset
            may_swap = is_complete or (move.turns >= PATIENCE and remaining <= SYNCED_BYTES_MAX)
        else:
            may_swap = remaining <= CAUGHT_UP_BYTES
        if log.offline is not None or log.staged_batches or not self._host.may_swap(log):
            self._later(move, 1)
        elif may_swap:
            self._swap(move, synced_end_offset, needs_disk=needs_disk)
        elif needs_disk or move.turns >= PATIENCE or remaining > STEP_BYTES:
            move.turns = move.turns + 1 if needs_disk else 0
            self._later(move, 0 if needs_disk else FOLLOW_MS)
        else:
            # A sync takes longer than producers need for CAUGHT_UP_BYTES. These records need not be on disk.
            move.turns += 1
            then = partial(self._try_to_swap, synced_end_offset=synced_end_offset)
            self._run(move, move.future.rest(log, syncs=False), lambda: None, then)

    def _swap(self, move: Move, synced_end_offset: int, *, needs_disk: bool) -> None:
        log, old_path = move.log, move.log.directory
        root, name = move.target.path, os.path.basename(old_path)
        path = move.future.path
        try:
            _write_indexes(log)
            # Indexes need not be on disk, and records seldom are missing there.
            part = move.future.rest(log, syncs=needs_disk and move.future.remaining_bytes(log) > 0)
            found = future_replica.read(old_path, part, move.buffer, is_first=False)
            future_replica.write(path, part.removals, found, move.buffer)
            write_atomically(f"{path}/{epochs.FILE_NAME}", encode_pairs(log.epochs.entries), sync=False)
            self._host.clear(f"{root}/{name}")
            os.rename(path, f"{root}/{name}")
        except OSError as error:
            self._failed(move, error, path)
            return
        relocate(log, f"{root}/{name}", log.written_end_offset if needs_disk else synced_end_offset)
        self._end(move)
        logger.info("moved a replica to another directory", extra=facts(path=old_path, target=root))
        self._host.relocated(log, old_path)
        self.on_change(move.key, os.path.dirname(old_path), root, COMPLETED)


def _write_indexes(log: Log) -> None:
    """Let no entry of the indexes of the active segment be in memory alone. Raises OSError."""
    log.active.offsets.write()
    log.active.times.write()
