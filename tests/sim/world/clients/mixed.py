"""A member of a group whose members use both protocols: each of its processes uses one of them, so that the group
becomes a consumer group, and a classic one again (KIP-848).

With the classic protocol it gives up all of its partitions before it joins again (eager), and the leader of a classic
group gives the partitions out in turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import RETRIABLE
from tests.sim.world.clients.consumers import NAMES, Consumer
from tests.sim.world.clients.group_readers import DROPPED, Piece
from tests.sim.world.clients.members import JOIN_TIMEOUT_S
from tests.sim.world.groups import REBALANCE_MS, SESSION_MS
from tests.sim.world.owners import Mark

if TYPE_CHECKING:
    from tests.sim.world.world import World

PROTOCOL = "range"
PROTOCOL_VERSION = 1
# The member has to join again; it is still one, unless its id is unknown.
REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class MixedConsumer(Consumer):
    # A group without members may become one of the other type, which begins at its first epoch.
    has_lasting_epochs = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.is_classic = self.is_settling = False
        self.group = f"mixed-{host}"

    def _new_process(self) -> None:
        self.is_classic = self.draw.chance(0.5)
        super()._new_process()
        if self.is_classic:
            self.member_id = ""

    def _subscribe(self) -> None:
        super()._subscribe()
        if self.is_classic:
            self.names, self.regex = self.names or NAMES[0], None

    def _over(self) -> None:
        """The group may begin again at epochs of before: it never uses a member id twice."""
        super()._over()
        self.processes += 1
        self.member_id = "" if self.is_classic else f"{self.name}-{self.processes}"

    async def _resubscribe(self) -> None:
        if not self.is_classic:
            return await super()._resubscribe()
        self._subscribe()
        self._end_generation()
        return None

    async def _settle(self) -> None:
        """Raises Lost."""
        if self.is_classic and not self.is_settling:
            # Topics may have come since the generation began: the leader has to look at them again.
            self._end_generation()
        else:
            await super()._settle()
        self.is_settling = True

    def _end_generation(self) -> None:
        """Give up all partitions; the same member joins again."""
        member_id = self.member_id
        self._over()
        self.member_id = member_id

    def _refused(self, code: ErrorCode, message: str | None) -> None:
        # During a rebalance, a classic group has its old members besides the new ones.
        if code is ErrorCode.GROUP_ID_NOT_FOUND and "group.consumer.max.size" in (message or ""):
            self.successes += 1
        else:
            super()._refused(code, message)

    # --- requests of the classic protocol

    async def _join(self) -> bool:
        if not self.is_classic:
            return await super()._join()
        await self._look()
        self.life = self.world.groups.life(self.group)
        request = m.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[
                m.JoinGroupRequest.JoinGroupRequestProtocol(
                    name=PROTOCOL,
                    metadata=codec.encode_versioned(
                        m.ConsumerProtocolSubscription(topics=list(self.names or ())), PROTOCOL_VERSION
                    ),
                )
            ],
        )
        joined = await (await self.connected()).send(request, 9, JOIN_TIMEOUT_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return await self._join()
        if not self._follow(ErrorCode(joined.error_code)):
            return False
        self.member_id = joined.member_id
        shares = self._share(joined) if joined.members and not joined.skip_assignment else []
        sync = m.SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=shares,
        )
        mark = self.world.owners.mark(self.group, self.host)
        synced = await (await self.connected()).send(sync, 5, JOIN_TIMEOUT_S)
        if not self._follow(ErrorCode(synced.error_code)):
            return False
        self.epoch = joined.generation_id
        self.world.owners.heard(self.group, self.name, mark, self.host)
        self._assigned(self._pieces(bytes(synced.assignment)), mark.sent_us)
        return True

    def _follow(self, code: ErrorCode) -> bool:
        """Whether a JoinGroup or SyncGroup succeeded."""
        if code is ErrorCode.NONE:
            self.successes += 1
        elif code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            # It was refused in time.
            self.successes += 1
            self.member_id = ""
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        else:
            assert code in RETRIABLE | REJOIN, f"{self.name} cannot join: {code.name}"
        return code is ErrorCode.NONE

    def _share(self, joined: Any) -> list[Any]:
        """The leader's part: each partition goes to one of the members that read its topic, in turns."""
        topics = {
            each.member_id: set(codec.decode_versioned(m.ConsumerProtocolSubscription, bytes(each.metadata))[0].topics)
            for each in joined.members
        }
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in topics}
        for at, spot in enumerate(self.spots):
            readers = sorted(member_id for member_id, names in topics.items() if spot.topic in names)
            if readers:
                shares[readers[at % len(readers)]].setdefault(spot.topic, []).append(spot.partition)
        Topic = m.ConsumerProtocolAssignment.TopicPartition
        return [
            m.SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=codec.encode_versioned(
                    m.ConsumerProtocolAssignment(
                        assigned_partitions=[
                            Topic(topic=topic, partitions=partitions) for topic, partitions in share.items()
                        ]
                    ),
                    PROTOCOL_VERSION,
                ),
            )
            for member_id, share in shares.items()
        ]

    def _pieces(self, assignment: bytes) -> set[Piece]:
        if not assignment:
            return set()
        ids = {spot.topic: spot.topic_id for spot in self.known.values()}
        found, _ = codec.decode_versioned(m.ConsumerProtocolAssignment, assignment)
        return {
            (ids[each.topic], partition)
            for each in found.assigned_partitions
            if each.topic in ids
            for partition in each.partitions
        }

    async def _beat(self) -> ErrorCode:
        if not self.is_classic:
            return await super()._beat()
        mark = self.world.owners.mark(self.group, self.host)
        request = m.HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.member_id)
        code = ErrorCode((await self.once(request, 4)).error_code)
        if code is ErrorCode.NONE:
            self.world.owners.heard(self.group, self.name, mark, self.host)
            self.successes += 1
        elif code not in RETRIABLE:
            self._dropped(code, mark)
        return code

    async def _beat_and_commit(self) -> None:
        if self.is_classic:
            await self._beat()
        else:
            await super()._beat_and_commit()

    def _dropped(self, code: ErrorCode, mark: Mark) -> None:
        if self.is_classic and code in REJOIN and code is not ErrorCode.UNKNOWN_MEMBER_ID:
            self._end_generation()
        else:
            super()._dropped(code, mark)

    def _fetch_refused(self, code: ErrorCode, mark: Mark) -> None:
        if self.is_classic and code in REJOIN:
            self._dropped(code, mark)
        else:
            super()._fetch_refused(code, mark)

    def _commit_refused(self, code: ErrorCode, mark: Mark) -> None:
        if self.is_classic and code in REJOIN:
            self._dropped(code, mark)
        else:
            super()._commit_refused(code, mark)

    async def _leave(self) -> ErrorCode | None:
        if not self.is_classic or not self.epoch:
            return await super()._leave()
        identity = m.LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        self._over()
        try:
            answer = await self.once(m.LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
        finally:
            self._new_process()
        for each in (answer.error_code, *(member.error_code for member in answer.members)):
            code = ErrorCode(each)
            assert code in RETRIABLE | DROPPED | {ErrorCode.NONE}, f"{self.name} cannot leave: {code.name}"
        return None
