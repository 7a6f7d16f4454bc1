"""The common part of members of share groups: their share sessions with brokers, and the records that they acquire and
acknowledge. The invariants are in tests.sim.world.shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from broker_cy.wire.records import decode_batches
from tests.sim.world.clients.base import GONE, RETRIABLE, Client, value_of
from tests.sim.world.groups import ARRIVES_US
from tests.sim.world.shares import GROUP as GROUP_ID
from tests.sim.world.shares import Piece, Served, place_of_share
from tests.sim.world.wire import Channel, Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

CLOSE = -1
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
TYPES = (*5 * (ACCEPT,), RELEASE, RELEASE, REJECT)
VERSION = 2
CONNECT_TIMEOUT_S = 1.0
# A read or a write of the state was not answered by the share coordinator, however often it was repeated.
NO_STATE = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})
NO_SESSION = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})


class Held(NamedTuple):
    """A record that was acquired, or whose lock was renewed, by a request that was sent then."""

    sent_us: int
    served: Served | None
    is_gap: bool


Chosen = dict[Piece, dict[int, tuple[int, Held]]]


@dataclass
class Session:
    """A share session with one broker, on its own connection; the next request has `epoch`."""

    host: str
    channel: Channel
    opened_us: int
    # Requests without an answer may still arrive, and use the session.
    is_sure: bool
    epoch: int = 0
    pieces: set[Piece] = field(default_factory=set)
    held: dict[Piece, dict[int, Held]] = field(default_factory=dict)


class ShareReader(Client):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.member_id = ""
        self.pieces: set[Piece] = set()
        self.leaders: dict[Piece, str] = {}
        self.sessions: dict[str, Session] = {}
        # By host: until then a request that was not answered may arrive.
        self.unsure_until_us: dict[str, int] = {}

    # --- connections and sessions

    def _drop_connections(self) -> None:
        for session in list(self.sessions.values()):
            self._drop(session)

    async def _replace(self, host: str) -> None:
        """Open another session on another connection, and close the old connection only then. Raises Lost."""
        old = self.sessions[host]
        self._forget(old)
        try:
            await self._fetch(host)
        finally:
            old.channel.close()

    def _drop(self, session: Session) -> None:
        """Close its connection, and forget what it holds."""
        session.channel.close()
        self._forget(session)

    def _forget(self, session: Session) -> None:
        """Forget what it holds."""
        for piece, held in session.held.items():
            for offset in held:
                self.world.shares.unlock(piece, offset, self.name)
        session.held.clear()
        if self.sessions.get(session.host) is session:
            del self.sessions[session.host]

    async def _session(self, host: str) -> Session:
        """Raises Lost."""
        session = self.sessions.get(host)
        if session is not None and not session.channel.is_lost:
            return session
        if session is not None:
            self._drop(session)
        channel = Channel(self.world, self.name, host)
        try:
            await channel.open(CONNECT_TIMEOUT_S)
        except Lost:
            self.leaders.clear()
            raise
        now_us = self.world.time.now_us
        is_sure = now_us >= self.unsure_until_us.get(host, 0)
        session = self.sessions[host] = Session(host, channel, now_us, is_sure)
        return session

    async def _send(self, session: Session, request: Any) -> Any:
        """The answer, without a top-level error. Raises Lost."""
        try:
            answer = await session.channel.send(request, VERSION)
        except Lost:
            self.unsure_until_us[session.host] = self.world.time.now_us + ARRIVES_US
            self._drop(session)
            self.leaders.clear()
            raise
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._drop(session)
            assert code in NO_SESSION, f"{self.name}: {code.name} of {session.host}"
            is_calm = self.world.machines[session.host].is_calm_since(session.opened_us)
            assert not is_calm or not session.is_sure, f"{self.name}: {code.name} of {session.host}"
            raise Lost(f"{self.name}: {code.name}")
        session.epoch += 1
        return answer

    # --- records

    async def _look_for_leaders(self) -> None:
        answer = await self.ask(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        hosts = {each.node_id: str(each.host) for each in answer.brokers}
        self.leaders = {
            (topic.topic_id, part.partition_index): hosts[part.leader_id]
            for topic in answer.topics
            for part in topic.partitions
            if part.leader_id in hosts
        }

    async def _fetch(self, host: str) -> None:
        """Raises Lost."""
        session = await self._session(host)
        chosen = self._choose(session) if session.epoch and self.draw.chance(0.7) else {}
        wanted = {piece for piece in self.pieces if self.leaders.get(piece) == host}
        Request = m.ShareFetchRequest
        named = sorted((wanted if not session.epoch else wanted - session.pieces) | chosen.keys())
        forgotten = sorted(session.pieces - wanted - chosen.keys())
        request = Request(
            group_id=GROUP_ID,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=self.draw.choice([0, 50, 500]),
            min_bytes=1,
            max_bytes=self.draw.choice([500, 1 << 20]),
            max_records=self.draw.choice([1, 4, 50]),
            batch_size=self.draw.choice([1, 3, 50]),
            share_acquire_mode=self.draw.choice([0, 0, 1]),
            topics=[
                Request.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        Request.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=_batches(Request, chosen.get((topic_id, index), {})),
                        )
                    ],
                )
                for topic_id, index in named
            ],
            forgotten_topics_data=[
                Request.ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in forgotten
            ],
        )
        session.pieces = (session.pieces | set(named)) - set(forgotten)
        sent_us = self.world.time.now_us
        served = {piece: self.world.shares.served(host, piece) for piece in session.pieces}
        answer = await self._send(session, request)
        for topic in answer.responses:
            for part in topic.partitions:
                piece = topic.topic_id, part.partition_index
                if piece in chosen:
                    self._acknowledged(session, piece, chosen[piece], ErrorCode(part.acknowledge_error_code), sent_us)
                code = ErrorCode(part.error_code)
                allowed = RETRIABLE | GONE | NO_STATE | {ErrorCode.NONE}
                assert code in allowed, f"{self.name}: ShareFetch: {code.name}"
                if code is not ErrorCode.NONE:
                    self.leaders.clear()
                self._take(session, piece, part, sent_us, served.get(piece))
        self.successes += 1

    def _take(self, session: Session, piece: Piece, part: Any, sent_us: int, before: Served | None) -> None:
        """Take the acquired records of an answer. Raises AssertionError if they must not be delivered."""
        shares = self.world.shares
        served = shares.served(session.host, piece)
        is_proof = shares.is_newest(piece, served) and before in (None, served)
        values: dict[int, str] = {}
        for batch in decode_batches(part.records or b""):
            assert batch.is_valid(), f"{self.name}: the checksum of the batch at {batch.base_offset} is wrong"
            if not batch.is_control:
                values |= {record.offset: value_of(record) for record in batch.records()}
        held = session.held.setdefault(piece, {})
        for each in part.acquired_records:
            for offset in range(each.first_offset, each.last_offset + 1):
                most = shares.deliveries_max(piece, offset)
                assert each.delivery_count <= most, f"{self.name}: delivery {each.delivery_count} of {each}"
                expected = shares.expected(piece, offset)
                assert expected in (None, values.get(offset)), (
                    f"{self.name}: {offset} of {place_of_share(piece)} is {values.get(offset)}, and was {expected}"
                )
                shares.delivered(piece, offset, self.name, sent_us, served if is_proof else None)
                held[offset] = Held(sent_us, served if is_proof else None, offset not in values)
                self.world.reads += 1

    def _choose(self, session: Session) -> Chosen:
        """Take records out of what it holds, with the types of their acknowledgements."""
        chosen: Chosen = {}
        for piece, held in session.held.items():
            offsets = sorted(held)
            if offsets and self.draw.chance(0.3):
                offsets = sorted(self.draw.sample(offsets, self.draw.randint(1, len(offsets))))
            for offset in offsets:
                one = held.pop(offset)
                kind = GAP if one.is_gap else self.type_of_acknowledgement()
                self.world.shares.sending(piece, offset, self.name, settles=kind != RELEASE)
                chosen.setdefault(piece, {})[offset] = kind, one
        return chosen

    def type_of_acknowledgement(self) -> int:
        return int(self.draw.choice(TYPES))

    async def _acknowledge(self, session: Session) -> None:
        """Without a fetch; some requests renew locks. Raises Lost."""
        renews = self.draw.chance(0.2)
        if renews:
            chosen: Chosen = {
                piece: {offset: (RENEW, one) for offset, one in held.items()}
                for piece, held in session.held.items()
                if held
            }
        else:
            chosen = self._choose(session)
        sent_us = self.world.time.now_us
        answer = await self._send(session, self._acknowledgements(session.epoch, chosen, renews=renews))
        for topic in answer.responses:
            for part in topic.partitions:
                piece = topic.topic_id, part.partition_index
                code = ErrorCode(part.error_code)
                self._acknowledged(session, piece, chosen[piece], code, sent_us)
                if renews and code is ErrorCode.NONE:
                    held = session.held[piece]
                    held |= {offset: one._replace(sent_us=sent_us) for offset, one in held.items()}
        self.successes += 1

    def _acknowledgements(self, epoch: int, chosen: Chosen, *, renews: bool = False) -> Any:
        Request = m.ShareAcknowledgeRequest
        return Request(
            group_id=GROUP_ID,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=[
                Request.AcknowledgeTopic(
                    topic_id=piece[0],
                    partitions=[
                        Request.AcknowledgePartition(
                            partition_index=piece[1], acknowledgement_batches=_batches(Request, acks)
                        )
                    ],
                )
                for piece, acks in sorted(chosen.items())
            ],
        )

    async def _close(self, host: str) -> None:
        """End a session; what it still holds is released, or acknowledged with the same request. Raises Lost."""
        session = self.sessions[host]
        if session.epoch:
            chosen = self._choose(session) if self.draw.chance(0.5) else {}
            for piece, held in session.held.items():
                for offset in held:
                    self.world.shares.unlock(piece, offset, self.name)
            sent_us = self.world.time.now_us
            answer = await self._send(session, self._acknowledgements(CLOSE, chosen))
            for topic in answer.responses:
                for part in topic.partitions:
                    piece = topic.topic_id, part.partition_index
                    self._acknowledged(session, piece, chosen[piece], ErrorCode(part.error_code), sent_us)
        self._drop(session)

    def _acknowledged(
        self, session: Session, piece: Piece, acks: dict[int, tuple[int, Held]], code: ErrorCode, sent_us: int
    ) -> None:
        """Follow the result of acknowledgements that were sent then. Raises AssertionError if a lock ended too early,
        or if a leader that was replaced has accepted them.
        """
        shares = self.world.shares
        if code is ErrorCode.NONE:
            now = shares.served(session.host, piece)
            for offset, (kind, one) in acks.items():
                is_locked = shares.is_locked(piece, offset, one.sent_us)
                if kind != RENEW and one.served == now and is_locked:
                    shares.written(piece, offset, sent_us, now)
                # The leader may have passed a record whose last lock was over, and could not write that.
                if kind in (GAP, ACCEPT, REJECT) and is_locked:
                    shares.settled(piece, offset, sent_us, is_archived=kind != ACCEPT)
            return
        allowed = RETRIABLE | GONE | NO_STATE | {ErrorCode.INVALID_RECORD_STATE}
        assert code in allowed, f"{self.name}: an acknowledgement in {place_of_share(piece)}: {code.name}"
        for offset, _ in acks.items():
            session.held.get(piece, {}).pop(offset, None)
            self.world.shares.unlock(piece, offset, self.name)
        if code is not ErrorCode.INVALID_RECORD_STATE:
            self.leaders.clear()
            return
        oldest_us = min(one.sent_us for _, one in acks.values())
        served = {one.served for _, one in acks.values()} | {self.world.shares.served(session.host, piece)}
        are_locked = all(shares.is_locked(piece, offset, oldest_us) for offset in acks)
        assert not are_locked or len(served) > 1 or None in served, (
            f"{self.name}: it has {sorted(acks)} of {place_of_share(piece)} since "
            f"{self.world.time.now_us - oldest_us} us, and cannot acknowledge them"
        )


def _batches(request: Any, acks: dict[int, tuple[int, Held]]) -> list[Any]:
    """A batch for each row of offsets without a hole."""
    rows: list[list[int]] = []
    for offset in sorted(acks):
        if rows and rows[-1][-1] == offset - 1:
            rows[-1].append(offset)
        else:
            rows.append([offset])
    return [
        request.AcknowledgementBatch(
            first_offset=row[0], last_offset=row[-1], acknowledge_types=[acks[offset][0] for offset in row]
        )
        for row in rows
    ]
