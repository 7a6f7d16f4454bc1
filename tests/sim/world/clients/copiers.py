"""A program that copies: it commits offsets of its group in transactions, and others outside of them at the same time,
so that the coordinator of the group has several batches in flight. It has no members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GROUP, RETRIABLE, TRANSACTION, Spot
from tests.sim.world.clients.producers import FENCED, Sender
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

TIMEOUT_MS = 20_000
# The transaction was aborted, or another process of this copier has taken over.
OVER = FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE}
NONE_YET = -1


class Offset:
    """The offsets that may be committed for one partition: several, after a lost or inconclusive answer."""

    def __init__(self) -> None:
        self.allowed = {NONE_YET}
        # Requests without an answer may arrive later than others.
        self.late: set[int] = set()

    def check(self, found: int, who: str) -> None:
        assert found in self.allowed | self.late, f"{who} is {found} instead of {self.allowed} or {self.late}"


class Copier(Sender):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = f"copies-{name}"
        self.position = 0
        self.plain, self.copied = Offset(), Offset()
        self.other: Any = None

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)
        await self.find_coordinator(self.name, TRANSACTION)
        await self.new_identity(m.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS))

    async def step(self) -> None:
        while len(self.spots) < 2:
            await self.look()
            if len(self.spots) < 2:
                await self.back_off()
        self.position += 1
        try:
            channel = await self.connected()
            if self.other is None or self.other.is_lost:
                self.other = self.new_channel()
                await self.other.open()
        except Lost:
            return await self.back_off()
        first, last = self.spots[0], self.spots[-1]
        # The first one begins the transaction; the second one needs no record of the transaction coordinator before.
        is_copied = await self._copy_answer(self.other.send(self._copy_request(last), 5))
        plain = channel.send(self._commit_request(first), 9)
        if is_copied:
            is_copied = await self._copy_answer(self.other.send(self._copy_request(last), 5))
        await self._plain_answer(plain)
        await self._end(is_copied=is_copied, commits=is_copied is True and self.draw.chance(0.7))
        try:
            await self._look_at(first, self.plain)
            await self._look_at(last, self.copied)
        except Lost:
            await self.back_off()
        return None

    def _commit_request(self, spot: Spot) -> Any:
        kind = m.OffsetCommitRequest
        part = kind.OffsetCommitRequestPartition(partition_index=spot.partition, committed_offset=self.position)
        topic = kind.OffsetCommitRequestTopic(name=spot.topic, partitions=[part])
        return kind(group_id=self.group, topics=[topic])

    def _copy_request(self, spot: Spot) -> Any:
        kind = m.TxnOffsetCommitRequest
        part = kind.TxnOffsetCommitRequestPartition(partition_index=spot.partition, committed_offset=self.position)
        return kind(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[kind.TxnOffsetCommitRequestTopic(name=spot.topic, partitions=[part])],
        )

    async def _plain_answer(self, sent: Any) -> None:
        try:
            answer = await sent
        except Lost:
            self.plain.late.add(self.position)
            return
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        assert code in RETRIABLE | {ErrorCode.NONE}, f"{self.name}: OffsetCommit: {code.name}"
        if code is ErrorCode.NONE:
            self.plain.allowed = {self.position}
            self.successes += 1
        elif code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            # The commit was not written in time, or the broker stopped in the meantime: it may be committed later.
            self.plain.allowed.add(self.position)

    async def _copy_answer(self, sent: Any) -> bool | None:
        """Whether the offset is part of the transaction; None if that is not known."""
        try:
            answer = await sent
        except Lost:
            return None
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        assert code in RETRIABLE | OVER | {ErrorCode.NONE}, f"{self.name}: TxnOffsetCommit: {code.name}"
        return code is ErrorCode.NONE

    async def _end(self, *, is_copied: bool | None, commits: bool) -> None:
        """End the transaction, or leave that to the next identity of this program, which aborts it."""
        request = m.EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commits
        )
        while is_copied is not None:
            answer: Any = await self.ask(request, 5)
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                if commits:
                    self.copied.allowed = {self.position}
                self.successes += 1
                return
            if code in OVER:
                break
            assert code in RETRIABLE, f"{self.name}: EndTxn: {code.name}"
            await self.back_off()
        if commits:
            self.copied.allowed.add(self.position)
        # Records on their way must not join the next transaction.
        self.hang_up()
        self.other.close()
        self.other = None
        await self.begin()

    async def _look_at(self, spot: Spot, offset: Offset) -> None:
        """Fetch a committed offset. Raises Lost, and AssertionError if no client committed it. The offset is unknown
        until the markers of an ended transaction are written.
        """
        kind = m.OffsetFetchRequest
        topic = kind.OffsetFetchRequestTopics(name=spot.topic, partition_indexes=[spot.partition])
        group = kind.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        answer = (await self.once(kind(groups=[group], require_stable=True), 9)).groups[0]
        if answer.error_code == ErrorCode.NONE:
            part = answer.topics[0].partitions[0]
            if part.error_code == ErrorCode.NONE:
                offset.check(part.committed_offset, f"the offset of {self.group} for {spot.place}")
