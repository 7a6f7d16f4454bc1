"""Carries out the outputs of the quorum's state machine, on the files of `__cluster_metadata-0`, on the loop's timers,
and on the network.

Batches are staged in the turn of the loop that appends them, and written together at its end; a worker syncs them, and
later batches wait for the next write. So all entries before a write are on disk (metadata_log.append needs that), and
the operations of a turn share one sync. Messages of an output that appends leave after the write.

A worker also syncs a vote, and a log that a snapshot has replaced. Until that is done, no message leaves and no entry
is written: so every message of this node can rely on them after a power loss. An epoch or a leader that this node has
learned of is written without such a wait (`Output.binds`): an election waits for two votes, and not for four more syncs
of facts that a start would learn again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.metadata.snapshot import SnapshotId
from broker_cy.quorum import wire_log
from broker_cy.quorum.entries import Batch
from broker_cy.quorum.step import (
    AddVoter,
    Answer,
    ChangeVoters,
    ChunkWritten,
    Event,
    NotWritten,
    Output,
    Received,
    RemoveVoter,
    Reply,
    Role,
    Send,
    SnapshotChunk,
    SnapshotDone,
    Start,
    Stop,
    Synced,
    Tick,
    UpgradeKRaftVersion,
)
from broker_cy.storage.errors import SHORTAGES, StorageError, errno_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.control.quorum.metadata_log import MetadataLog
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.loader import Loader
    from broker_cy.quorum.election_state import ElectionState
    from broker_cy.quorum.quorum import Quorum
    from broker_cy.wire.codec import Message

LOGGER = logging.getLogger("broker_cy.server.metadata")

# How a node gets into a quorum that knows nothing of its own.
TWO_QUORUMS = (
    "a node whose directories were formatted again with --standalone or --initial-controllers is a quorum of its own; "
    "format those of a node that joins others with --no-initial-controllers"
)


class NetworkChannel(Protocol):
    """Where requests to other nodes go. Nothing is raised: a message that cannot be sent is lost."""

    def send(self, request: Send) -> None: ...


class Unsent(NamedTuple):
    """A message that leaves when everything before it was carried out. `asked` takes an Answer."""

    message: Send | Answer
    asked: asyncio.Future[Answer | None] | None


def _give(asked: asyncio.Future[Answer | None], answer: Answer | None) -> None:
    if not asked.done():
        asked.set_result(answer)


def _give_reply(answer: asyncio.Future[Reply], reply: Reply) -> None:
    if not answer.done():
        answer.set_result(reply)


class QuorumListener(NamedTuple):
    """Callbacks on the loop; none is called within another one."""

    changed: Callable[[Output], None]  # after each output that was carried out
    not_written: Callable[[KafkaError], None]  # the entries appended since the last write are not in the log
    halted: Callable[[str], None]  # the node takes no part until its next start: why
    # The log was emptied, and begins behind this snapshot, which is on disk, and loaded.
    replaced: Callable[[SnapshotId, Loader], None]


class QuorumDriver:
    """The quorum of this node and its log. An only voter without observers sends no messages."""

    def __init__(
        self,
        quorum: Quorum,
        files: MetadataLog,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None,
        listener: QuorumListener,
        channel: NetworkChannel | None = None,
        snapshot_executor: Executor | None = None,
    ) -> None:
        """The log is on disk as `quorum` knows it. `executor` syncs the log and the votes; `snapshot_executor` writes
        snapshots, which takes seconds.
        """
        self.quorum = quorum
        self.appended_bytes = 0  # since the start
        self._files = files
        self._clock = clock
        self._loop = loop
        self._executor = executor
        self._snapshot_executor = snapshot_executor
        self._listener = listener
        self._channel = channel
        self._staged: list[bytes] = []
        self._unsent: list[Unsent] = []
        # Requests without an Answer, by correlation: fetches that wait at the leader. The machine keeps at most one of
        # each node.
        self._asked: dict[int, asyncio.Future[Answer | None]] = {}
        self._changes: dict[int, asyncio.Future[Reply]] = {}  # changes of the voters that wait for their commit
        self._correlation = 0
        self._write_scheduled = False
        self._syncing: asyncio.Future[None] | None = None
        # The next job of the worker brings these to the disk: the newest quorum-state, and the names of a log that was
        # replaced; and whether nothing may leave before. `_securing` is the job that runs, `_is_held` whether messages
        # wait for it.
        self._election_state: ElectionState | None = None
        self._holds = self._is_held = False
        self._sync_replaced: Callable[[], None] | None = None
        self._secure_scheduled: asyncio.Handle | None = None
        self._securing: asyncio.Future[None] | None = None
        self._fetched: Loader | None = None  # of the snapshot that the next step may replace the log by
        self._timer: asyncio.TimerHandle | None = None
        self._is_failing = False  # the last write failed, which was logged

    def start(self) -> None:
        """Take part in the quorum."""
        self.step(Start())

    def stop(self) -> None:
        """Leave the quorum. The last messages to other nodes are still delivered."""
        if self.quorum.role is not Role.CLOSED:
            self.step(Stop())
        self._wake_at(-1)

    def step(self, event: Event) -> Output:
        """Take the event and carry out the output; its entries are written at the end of this turn of the loop. Raises
        NotLeaderError; OSError if the log could not be changed, and then the node must halt.
        """
        output = self.quorum.step(event, self._now_ms())
        if output.persist is not None:
            self._election_state = output.persist
            self._secure_soon(holds=output.binds)
        if output.truncate_to >= 0:
            assert not self._staged, "a log is truncated only when everything in it is on disk"
            self._files.truncate(output.truncate_to, self._clock.wall_ms())
        if output.replace_log is not None:
            assert not self._staged, "a log is replaced only when everything in it is on disk"
            assert self._fetched is not None, "only a snapshot that was just fetched replaces the log"
            self._sync_replaced = self._files.replace(output.replace_log, self._clock.wall_ms())
            self._secure_soon(holds=True)
            self._listener.replaced(SnapshotId(*output.replace_log), self._fetched)
        if output.append:
            self._staged += map(self._encoded, output.append)
            if not self._write_scheduled and self._syncing is None:
                self._write_scheduled = True
                self._loop.call_soon(self._write)
        if output.chunk is not None:
            self._write_chunk(output.chunk)
        for reply in output.replies:
            _give_reply(self._changes.pop(reply.request_id), reply)
        for message in output.send:
            asked = self._asked.pop(message.correlation) if isinstance(message, Answer) else None
            self._unsent.append(Unsent(message, asked))
        if not self._staged:
            self._send()
        if output.role is Role.CLOSED:
            # Messages that wait for the disk are dropped.
            for unsent in self._unsent:
                if unsent.asked is not None:
                    _give(unsent.asked, None)
            for asked in self._asked.values():
                _give(asked, None)
            self._asked.clear()
        self._wake_at(output.wake_ms)
        self._listener.changed(output)
        return output

    def ask(self, source: int, request: Message, listener: str = "") -> asyncio.Future[Answer | None]:
        """Take a request of another node, which arrived on `listener`. The future yields the response; None if this
        node stops.
        """
        correlation = self._next_correlation()
        asked = self._asked[correlation] = self._loop.create_future()
        self.take(Received(source, request, correlation, listener))
        return asked

    def change_voters(self, change: AddVoter | RemoveVoter | UpgradeKRaftVersion) -> asyncio.Future[Reply]:
        """Change the voters; the future yields the result."""
        request_id = self._next_correlation()
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._changes[request_id] = answer
        self.take(ChangeVoters(request_id, change))
        if self.quorum.role is Role.CLOSED and request_id in self._changes:
            _give_reply(
                self._changes.pop(request_id), Reply(request_id, ErrorCode.BROKER_NOT_AVAILABLE, "the node is stopping")
            )
        return answer

    def _next_correlation(self) -> int:
        """A number for a request that arrives."""
        self._correlation += 1
        return self._correlation

    def take(self, event: Event) -> None:
        """As `step`, for an event without a caller that waits: the node halts if the log cannot be changed."""
        try:
            self.step(event)
        except (OSError, StorageError) as error:
            self._cannot_change(error)
        except AssertionError as error:
            # Another node breaks the rules of the protocol, or this one does: the files here are still right.
            self.halt(f"the metadata quorum is not consistent ({error}): {TWO_QUORUMS}")

    def halt(self, reason: str) -> None:
        """Take no part until the next start, because the disk failed, committed metadata cannot be read or applied, or
        another node contradicts this one. No message leaves that depends on entries that may not be on the disk: a
        leader only reports that it no longer leads. Does nothing on a node that has stopped.
        """
        if self.quorum.role is Role.CLOSED:
            return
        LOGGER.error("this node leaves the metadata quorum", extra=facts(reason=reason))
        self._staged.clear()
        unsent, self._unsent = self._unsent, []
        for each in unsent:
            if each.asked is not None:
                _give(each.asked, None)
        self._listener.halted(reason)
        self.stop()

    def _cannot_change(self, error: object) -> None:
        self.halt(f"the files of the metadata log cannot be changed ({error}): restart the broker when they can")

    # --- votes

    def _secure_soon(self, *, holds: bool) -> None:
        self._holds = self._holds or holds
        if self._secure_scheduled is None and self._securing is None:
            self._secure_scheduled = self._loop.call_soon(self._secure)

    @property
    def _is_secured(self) -> bool:
        """Whether all state that messages may rely on is on disk."""
        return not self._holds and not self._is_held

    def _work_to_secure(self) -> Callable[[], None]:
        """Return a function, for a worker, that syncs the required state to the disk. It raises OSError."""
        if self._secure_scheduled is not None:
            self._secure_scheduled.cancel()
            self._secure_scheduled = None
        state, self._election_state = self._election_state, None
        sync, self._sync_replaced = self._sync_replaced, None
        # A result may have followed a vote: then wait for that.
        is_held, self._holds = self._holds, False
        self._is_held = is_held

        def work() -> None:
            if state is not None:
                self._files.write_election_state(state, is_bound=is_held)
            if sync is not None:
                sync()

        return work

    def _secure(self) -> None:
        self._securing = asyncio.ensure_future(self._loop.run_in_executor(self._executor, self._work_to_secure()))
        self._securing.add_done_callback(self._secured)

    def _secured(self, done: asyncio.Future[None]) -> None:
        self._securing = None
        self._is_held = False
        error = asyncio.CancelledError("the broker was stopped") if done.cancelled() else done.exception()
        if error is not None:
            self._cannot_change(error)
            return
        if self._election_state is not None or self._sync_replaced is not None:
            self._secure()
        if self._staged:
            self._write()
        else:
            self._send()

    # --- the log

    def _write(self) -> None:
        self._write_scheduled = False
        if self._syncing is not None or not self._staged or not self._is_secured:
            return
        try:
            self._append()
        except KafkaError as error:
            self._fail(error)
            return
        self._is_failing = False
        end_offset = self._files.log.log_end_offset
        self._syncing = asyncio.ensure_future(self._loop.run_in_executor(self._executor, self._files.begin_sync()))
        self._syncing.add_done_callback(lambda done: self._synced(done, end_offset))

    def _append(self) -> None:
        content = b"".join(self._staged)
        self._staged.clear()
        self._files.append(content, self._clock.wall_ms())
        self.appended_bytes += len(content)
        self._send()

    def _fail(self, error: KafkaError) -> None:
        """Begin again from the end of the log if there may be room later. Otherwise the disk failed: a node that stayed
        would keep its vote, and others would count on a log that no longer grows.
        """
        is_lasting = isinstance(error, StorageError) and errno_of(error) not in SHORTAGES
        if not self._is_failing and not is_lasting:
            self._is_failing = True
            LOGGER.error("could not write to the metadata log; will retry", extra=facts(reason=error))
        self._listener.not_written(error)
        if is_lasting:
            self.halt(f"the metadata log cannot be written ({error}): restart the broker when the disk works again")
            return
        self.take(NotWritten(self._files.log.log_end_offset))

    def _synced(self, done: asyncio.Future[None], end_offset: int) -> None:
        self._syncing = None
        error = asyncio.CancelledError("the broker was stopped") if done.cancelled() else done.exception()
        if error is not None:
            self.halt(f"the metadata log cannot be synced ({error}): restart the broker when the disk works again")
            return
        self.take(Synced(end_offset))
        self._write()

    def _encoded(self, batch: Batch) -> bytes:
        return wire_log.encoded(batch, self._clock.wall_ms())

    # --- snapshots of the leader

    def _write_chunk(self, chunk: SnapshotChunk) -> None:
        work = self._loop.run_in_executor(self._snapshot_executor, self._files.write_chunk, chunk)
        work.add_done_callback(lambda done: self._chunk_written(chunk, done))

    def _chunk_written(self, chunk: SnapshotChunk, done: asyncio.Future[tuple[SnapshotDone, Loader] | None]) -> None:
        if done.cancelled() or self.quorum.role is Role.CLOSED:
            return
        error = done.exception()
        if error is not None:
            LOGGER.error("could not write a snapshot of the leader; will retry", extra=facts(reason=error))
            self.take(ChunkWritten(chunk.snapshot_id, -1))
            return
        whole = done.result()
        if whole is None:
            self.take(ChunkWritten(chunk.snapshot_id, chunk.position + len(chunk.content)))
            return
        finished, self._fetched = whole
        self.take(finished)
        self._fetched = None

    # --- messages and time

    def _send(self) -> None:
        """Let the messages leave, unless something that they may rely on is not on disk yet; they leave later then."""
        if not self._is_secured:
            return
        unsent, self._unsent = self._unsent, []
        for message, asked in unsent:
            if isinstance(message, Send):
                assert self._channel is not None, f"a quorum of one sends {message}"
                self._channel.send(message)
            elif asked is not None:
                _give(asked, message)

    def _wake_at(self, wake_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ms >= 0:
            # One millisecond later: the machine's milliseconds are rounded down, and an early Tick does nothing.
            self._timer = self._loop.call_at((wake_ms + 1) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.take(Tick())

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
