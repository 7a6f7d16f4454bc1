"""The common part of members of groups that share partitions piece by piece: their positions, and the offsets that they
fetch and commit.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.history.operations import Place
from tests.sim.world.clients.base import GONE, RETRIABLE, Spot
from tests.sim.world.clients.readers import EARLIEST, Fetcher
from tests.sim.world.owners import Mark

if TYPE_CHECKING:
    from tests.sim.world.world import World

Piece = tuple[UUID, int]
PAST_MAX = 20
# It is no member any more, and has to join again.
DROPPED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        # In a full group, the size is checked first.
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)


class Past(NamedTuple):
    """A membership, or an epoch of it, that is over since `at_us`."""

    life: int
    member_id: str
    epoch: int
    pieces: frozenset[Piece]
    at_us: int


class GroupReader(Fetcher):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = f"consumers-{host}"
        self.committed = True
        self.instance_id: str | None = None
        self.member_id = ""
        # 0: not a member.
        self.epoch = 0
        self.life = 0
        # Its assigned partitions, and those that it has to give up.
        self.owned: set[Piece] = set()
        self.revoking: set[Piece] = set()
        self.known: dict[Piece, Spot] = {}
        # It sends everything with its next heartbeat, because an answer may be lost.
        self.is_full = False
        # The time of the first heartbeat without an answer since the last answer.
        self.unanswered_us: int | None = None
        self.past: deque[Past] = deque(maxlen=PAST_MAX)

    def _dropped(self, code: ErrorCode, mark: Mark) -> None:
        """Follow a code in DROPPED. Raises AssertionError if the member cannot have been removed."""
        raise NotImplementedError

    # --- partitions

    async def _look(self) -> None:
        await self.look()
        self.known |= {self._piece_at(spot): spot for spot in self.spots}

    def _piece_at(self, spot: Spot) -> Piece:
        return spot.topic_id, spot.partition

    def _readable(self) -> set[Piece]:
        """Those of its partitions that it reads."""
        return self.owned

    def _keep_positions(self) -> None:
        """Read only what it still has."""
        held = self.owned | self.revoking
        left = {spot: at for spot, at in self.positions.items() if self._piece_at(spot) in held}
        if left != self.positions:
            self.assign(left, unknown=True)

    async def _find_positions(self) -> None:
        """Begin with new partitions where the group has committed. Raises Lost."""
        placed = {self._piece_at(spot) for spot in self.positions}
        for piece in sorted(self._readable() - placed):
            if piece not in self.known:
                await self._look()
            spot = self.known.get(piece)
            offset = None if spot is None else await self._fetched(spot)
            if not self.epoch or spot is None or offset is None:
                return
            self.assign({**self.positions, spot: offset}, unknown=True)

    async def _fetched(self, spot: Spot) -> int | None:
        """The committed offset, or the start of the partition; None if it cannot be read. Raises Lost."""
        topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=spot.topic, partition_indexes=[spot.partition])
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topics=[topic]
        )
        groups, mark = self.world.groups, self.world.owners.mark(self.group, self.host)
        life, acknowledged = groups.life(self.group), groups.committed(self.group, spot.place)
        answer = (await self.once(m.OffsetFetchRequest(groups=[group], require_stable=True), 9)).groups[0]
        codes = {ErrorCode(answer.error_code)}
        if answer.topics:
            codes.add(ErrorCode(answer.topics[0].partitions[0].error_code))
        codes.discard(ErrorCode.NONE)
        for code in codes:
            self._fetch_refused(code, mark)
        if codes:
            return None
        found = int(answer.topics[0].partitions[0].committed_offset)
        groups.check_fetched(self.group, life, spot.place, found, acknowledged)
        return found if found >= 0 else await self.offset_of(spot, EARLIEST)

    def _fetch_refused(self, code: ErrorCode, mark: Mark) -> None:
        """Raises AssertionError if the epoch of this member is refused, and it knows the newest one."""
        if code in DROPPED:
            self._dropped(code, mark)
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            owners = self.world.owners
            is_sure = owners.is_proof(mark, self.host) and owners.is_alive(self.group, self.name)
            assert not is_sure or self.unanswered_us is not None, f"{self.name}: epoch {self.epoch} is stale"
            self.is_full = True
        else:
            assert code in RETRIABLE | GONE, f"{self.name}: OffsetFetch: {code.name}"

    # --- offsets

    def _commit_request(self, positions: dict[Spot, int], member_id: str, epoch: int) -> Any:
        Topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
        Part = m.OffsetCommitRequest.OffsetCommitRequestPartition
        return m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=self.instance_id,
            topics=[
                Topic(name=spot.topic, partitions=[Part(partition_index=spot.partition, committed_offset=at)])
                for spot, at in positions.items()
            ],
        )

    async def _commit(self) -> None:
        """Commit all positions. They are accepted as long as this is a member, also during a rebalance. Raises Lost."""
        positions = dict(self.positions)
        if not positions:
            return
        groups, mark = self.world.groups, self.world.owners.mark(self.group, self.host)
        life = groups.life(self.group)
        answer = await self.once(self._commit_request(positions, self.member_id, self.epoch), 9)
        codes = [ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions]
        for (spot, at), code in zip(positions.items(), codes, strict=True):
            if code is ErrorCode.NONE:
                groups.commit(self.group, life, spot.place, at)
        for code in set(codes) - {ErrorCode.NONE}:
            if code in DROPPED:
                self._dropped(code, mark)
                return
            self._commit_refused(code, mark)

    def _commit_refused(self, code: ErrorCode, mark: Mark) -> None:
        """A member may commit in its partitions, whatever epoch it has. Raises AssertionError."""
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            owners = self.world.owners
            is_sure = owners.is_proof(mark, self.host) and owners.is_alive(self.group, self.name)
            assert not is_sure, f"{self.name}: a commit in its own partitions is refused in epoch {self.epoch}"
            self.is_full = True
            return
        allowed = RETRIABLE | (GONE if self.world.plan.is_cluster else frozenset())
        assert code in allowed, f"{self.name}: OffsetCommit: {code.name}"

    async def _late(self, past: Past) -> None:
        """A commit of an earlier epoch arrives late. Raises AssertionError if it is accepted although another member
        has the partition since, and Lost.
        """
        groups, owners = self.world.groups, self.world.owners
        is_older = past.member_id != self.member_id or past.epoch < self.epoch
        spots = [
            self.known[piece]
            for piece in sorted(past.pieces - self.owned - self.revoking)
            if piece in self.known and owners.is_taken(self.group, place_of_piece(piece), self.name, past.at_us)
        ]
        if not spots or not is_older or past.life != groups.life(self.group):
            return
        answer = await self.once(self._commit_request({self.draw.choice(spots): 0}, past.member_id, past.epoch), 9)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if past.life == groups.life(self.group):
            assert code is not ErrorCode.NONE, f"{self.name}: a late commit of {past} is accepted"


def place_of_piece(piece: Piece) -> Place:
    """A partition by its topic's id: a member may get it before it sees the topic."""
    return piece[0].hex[:8], piece[1]
