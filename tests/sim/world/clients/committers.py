"""A group of the first of two clusters without members: it only commits offsets, forwards and at times back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GONE, GROUP, RETRIABLE, Spot
from tests.sim.world.clients.mirrored import TOPICS
from tests.sim.world.clients.readers import LATEST, Fetcher
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

VERSION = 9


class Committer(Fetcher):
    """`last` has the last offsets, and `highest` the greatest ones: a mirror need not see each step back. The
    partitions in `went_back` have such steps. A commit that was not answered is repeated before the end.
    """

    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = f"committed-{name}"
        self.last: dict[tuple[str, int], int] = {}
        self.highest: dict[tuple[str, int], int] = {}
        self.went_back: set[tuple[str, int]] = set()
        self._unsure: dict[tuple[str, int], Spot] = {}

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)

    async def step(self) -> None:
        if not self.spots:
            await self.look()
            self.spots = [each for each in self.spots if each.topic in TOPICS]
        if not self.spots:
            return await self.back_off()
        spot = self.draw.choice(self.spots)
        end = await self.offset_of(spot, LATEST, committed=True)
        if end is None:
            return await self.back_off()
        before = self.last.get((spot.topic, spot.partition), 0)
        # Only a reset of a group goes back.
        least = before if self.draw.chance(0.9) else 0
        await self._commit(spot, self.draw.randint(min(least, end), end))
        return None

    async def _commit(self, spot: Spot, offset: int) -> None:
        key = spot.topic, spot.partition
        part = m.OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=spot.partition, committed_offset=offset
        )
        topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=spot.topic, partitions=[part])
        request = m.OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
        )
        self._unsure[key] = spot
        if offset < self.highest.get(key, 0):
            self.went_back.add(key)
        self.highest[key] = max(offset, self.highest.get(key, 0))
        try:
            answer = await self.once(request, VERSION)
        except Lost:
            # It must not arrive after a later one.
            self.hang_up()
            return await self.back_off()
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code is not ErrorCode.NONE:
            # The coordinator's broker may not know a new topic yet; the leader of it does.
            assert code in RETRIABLE | GONE, f"{self.name}: OffsetCommit: {code.name}"
            return await self.back_off()
        self.last[key] = offset
        del self._unsure[key]
        self.successes += 1
        return None

    async def finish(self) -> None:
        while self._unsure:
            key, spot = next(iter(self._unsure.items()))
            await self._commit(spot, self.last.get(key, 0))
