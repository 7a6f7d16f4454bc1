"""An operator of a share group: it releases, rejects and redrives records in flight at the leaders of their partitions,
also at brokers that lead no longer, and previews such acts. The promises of the answers are in
tests.sim.world.share_acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from broker_cy.wire.share_operations import SESSION_EPOCH, Operation, OperatorAction, operation_tags, read_changed
from tests.sim.world.clients.base import GONE, RETRIABLE, Client, Spot
from tests.sim.world.clients.share_readers import CONNECT_TIMEOUT_S, NO_STATE, VERSION
from tests.sim.world.share_acts import ACQUIRED, ARCHIVED, AVAILABLE
from tests.sim.world.shares import GROUP
from tests.sim.world.wire import Channel, Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

# The states from which each action takes a record.
FROM = {
    OperatorAction.RELEASE: (ACQUIRED,),
    OperatorAction.REJECT: (AVAILABLE, ACQUIRED),
    OperatorAction.REDRIVE: (ARCHIVED,),
}
# The largest number of acts in a step, and of records that one act changes.
ACTS_MAX, RECORDS_MAX = 4, 3
STRANGER = "stranger"
ALLOWED = RETRIABLE | GONE | NO_STATE | {ErrorCode.INVALID_RECORD_STATE}


class ShareOperator(Client):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.channels: dict[str, Channel] = {}

    async def step(self) -> None:
        try:
            if not self.spots or self.draw.chance(0.1):
                await self.look()
            for _ in range(self.draw.randint(1, ACTS_MAX)):
                await self._act()
            self.successes += 1
        except Lost:
            await self.back_off()

    async def finish(self) -> None:
        for channel in self.channels.values():
            channel.close()

    async def _act(self) -> None:
        """Raises Lost, and AssertionError if the answer is wrong."""
        action = self.draw.choice(list(OperatorAction))
        # A released record of a compacted topic may be gone before its delivery.
        spots = [spot for spot in self.spots if spot.topic[0] == "t"]
        leaders = {spot: self.world.shares.in_flight((spot.topic_id, spot.partition)) for spot in spots}
        fitting = [
            (spot, run) for spot, (_, runs) in leaders.items() for run in runs if run[2] in FROM[action] and not run[-1]
        ]
        host, member_id = "", ""
        if fitting and self.draw.chance(0.9):
            spot, (first, last, _, _, holder, *_) = self.draw.choice(fitting)
            first = self.draw.randint(first, last)
            last = min(last, first + self.draw.randint(0, RECORDS_MAX - 1))
            member_id = self.draw.choice(["", "", holder or "", STRANGER])
        elif spots:
            spot, first = self.draw.choice(spots), self.draw.randint(0, 50)
            last = first
        else:
            raise Lost(f"{self.name}: no topic")
        host, _ = leaders[spot]
        if not host or self.draw.chance(0.05):
            host = self.draw.choice([each for each in self.world.machines if self.world.machines[each].is_broker])
        await self._change(host, spot, action, range(first, last + 1), member_id)

    async def _change(self, host: str, spot: Spot, action: OperatorAction, offsets: range, member_id: str) -> None:
        """Raises Lost, and AssertionError if the answer is wrong."""
        shares, piece = self.world.shares, (spot.topic_id, spot.partition)
        is_preview = self.draw.chance(0.15)
        before = shares.served(host, piece)
        channel = await self._channel(host)
        may_change = not is_preview and member_id != STRANGER
        act = shares.operating(action, piece, offsets) if may_change else None
        Request = m.ShareAcknowledgeRequest
        batch = Request.AcknowledgementBatch(first_offset=offsets[0], last_offset=offsets[-1], acknowledge_types=[])
        part = Request.AcknowledgePartition(partition_index=spot.partition, acknowledgement_batches=[batch])
        request = Request(
            group_id=GROUP,
            member_id=member_id,
            share_session_epoch=SESSION_EPOCH,
            topics=[Request.AcknowledgeTopic(topic_id=spot.topic_id, partitions=[part])],
            _unknown_tags=operation_tags(Operation(action, is_preview)),
        )
        try:
            answer = await channel.send(request, VERSION)
        except Lost:
            if act is not None:
                shares.acts.ended(act, is_lost=True)
            raise
        if act is not None:
            shares.acts.ended(act)
        assert not answer.error_code, f"{self.name}: {ErrorCode(answer.error_code).name}"
        (result,) = answer.responses[0].partitions
        name = f"{self.name}: {action.name.lower()} of {spot.topic}-{spot.partition}: {offsets[0]} to {offsets[-1]}"
        code = ErrorCode(result.error_code)
        if code is not ErrorCode.NONE:
            assert code in ALLOWED, f"{name}: {code.name}"
            return
        changed = read_changed(result._unknown_tags)
        assert changed is not None, f"{name}: no numbers"
        assert 0 < changed.records <= len(offsets), f"{name}: {changed}"
        assert member_id != STRANGER, f"{name}: {changed} for a member that has nothing"
        served = shares.served(host, piece)
        if act is not None and before == served and shares.is_newest(piece, served):
            shares.operated(act, changed)

    async def _channel(self, host: str) -> Channel:
        """Raises Lost."""
        channel = self.channels.get(host)
        if channel is None or channel.is_lost:
            channel = self.channels[host] = Channel(self.world, self.name, host)
            await channel.open(CONNECT_TIMEOUT_S)
        return channel
