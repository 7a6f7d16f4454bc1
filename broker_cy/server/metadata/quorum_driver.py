"""Carries out what the quorum's state machine returns, on the files of `__cluster_metadata-0`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from broker_cy.core.errors import KafkaError
from broker_cy.quorum import wire_log
from broker_cy.quorum.election_state import QuorumError
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import Batch, KRaftVersion
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import Event, NotWritten, Output, Role, Start
from broker_cy.quorum.voters import ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.loader import Loader
    from broker_cy.server.metadata.metadata_log import MetadataLog

# An election takes one election timeout, two if votes are split. A start that waits longer has a quorum without a
# majority, and its operator must learn that.
LEADER_WAIT_S = 30


class QuorumDriver:
    """The quorum of this node and its log. The only voter needs no messages and no timers, so that there are none.

    What is to be appended is staged, and `write` writes it: the batches of several steps go to the log with one write,
    and are synced together.
    """

    def __init__(
        self,
        node_id: int,
        files: MetadataLog,
        loader: Loader,
        clock: Clock,
        randomness: Randomness,
        loop: asyncio.AbstractEventLoop,
        directory_id: UUID,
    ) -> None:
        """`loader` has loaded the log, which is on disk; `directory_id` is that of the metadata log's directory.
        Blocks. Raises QuorumError if the node is not the only voter, or if quorum-state does not parse.
        """
        self._files = files
        self._clock = clock
        self._loop = loop
        self._kraft = loader.kraft
        stored = files.read_election_state()
        log_voters = loader.kraft.voter_ids()
        voters = log_voters if log_voters is not None else (stored.voters if stored else None)
        if voters and voters != (node_id,):
            raise QuorumError(
                f"the metadata quorum has the voters {sorted(voters)}, and this node is {node_id}; "
                "broker-cy supports only a quorum whose sole voter is this node"
            )
        me = Voter(ReplicaKey(node_id, directory_id))
        self.quorum = Quorum(
            me,
            _history(loader, me),
            stored,
            files.epochs(loader),
            randomness.integer,
            snapshot_id=files.newest_snapshot(),
        )
        self._staged: list[bytes] = []
        self._leading: asyncio.Future[None] = loop.create_future()

    async def lead(self) -> None:
        """Take part in the quorum, and return once this node leads it; its Leadership is staged then. Blocks for the
        disk. Raises QuorumError if there is no leader in time, OSError.
        """
        timer = self._loop.call_later(LEADER_WAIT_S, self._give_up)
        try:
            self.step(Start())
            await self._leading
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if not self._leading.done():
            self._leading.set_exception(
                QuorumError(
                    f"the metadata quorum has no leader after {LEADER_WAIT_S} s: a majority of its voters must be "
                    f"running and reachable ({self.quorum!r})"
                )
            )

    def step(self, event: Event) -> Output:
        """Take the event and carry out the output, except that batches are staged. Raises NotLeaderError; OSError if
        quorum-state could not be written, and then the node must stop.
        """
        output = self.quorum.step(event, self._now_ms())
        if output.persist is not None:
            self._files.write_election_state(output.persist)
        assert output.truncate_to < 0
        assert not output.send
        assert output.replace_log is None
        assert output.chunk is None
        self._staged += map(self._encoded, output.append)
        if output.role is Role.LEADER and not self._leading.done():
            self._leading.set_result(None)
        return output

    def write(self) -> int:
        """Append what is staged, after everything before it was synced. Returns its size in bytes. Raises StorageError,
        and then nothing was appended.
        """
        content = b"".join(self._staged)
        self._staged.clear()
        try:
            self._files.append(content, self._clock.wall_ms())
        except KafkaError:
            self.step(NotWritten(self._files.log.log_end_offset))
            raise
        return len(content)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _encoded(self, batch: Batch) -> bytes:
        return wire_log.encoded(batch, self._kraft.kraft_version, self._clock.wall_ms())


def _history(loader: Loader, me: Voter) -> VoterHistory:
    """The voters that the log, or a snapshot, has; with kraft.version 0 this node."""
    level, record = loader.kraft.kraft_version, loader.kraft.voters
    if record is None:
        return VoterHistory(VoterSet([Voter(ReplicaKey(me.key.id))]), level)
    voters = wire_log.from_record(record)
    if loader.voters_offset < 0:
        return VoterHistory(voters, level)
    history = VoterHistory(VoterSet())
    history.note(loader.voters_offset, (KRaftVersion(level), voters))
    return history
