"""A transactional producer: it commits, aborts, and is replaced in the middle by a successor with its transactional id.

Some speak the protocol of Kafka 4 (transaction version 2: partitions join with their first batch, and each end raises
the epoch), the others the one before (AddPartitionsToTxn, one epoch for many transactions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.history.operations import Fate, Outcome, Transaction
from tests.sim.world.clients.base import GONE, RETRIABLE, TRANSACTION, Spot
from tests.sim.world.clients.producers import FENCED, Sender, result_of
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

TIMEOUT_MS = 20_000
ATTEMPTS = 12
# The transaction has ended without this client, or cannot go on.
OVER = FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


class TransactionalProducer(Sender):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.is_v2 = self.draw.chance(0.6)
        # Before version 2 a topic has no id in Produce: a batch for a deleted one could reach its successor.
        self.takes_volatile = self.is_v2
        self.transactions = 0

    async def begin(self) -> None:
        await self.find_coordinator(self.name, TRANSACTION)
        await self.new_identity(m.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS))

    async def step(self) -> None:
        if not self.spots or self.draw.chance(0.1):
            await self.look()
        if not self.spots:
            return await self.back_off()
        name = f"{self.name}-T{self.transactions}"
        self.transactions += 1
        is_whole = await self._fill(name)
        choice = self.draw.random()
        if choice < 0.12:
            self._record(name, Outcome.UNKNOWN, None)
            self.hang_up()
            return await self.begin()
        commits = is_whole and choice < 0.75
        began = self.world.recorder.now() if commits else None
        outcome = await self._end(commits=commits)
        self._record(name, outcome, began)
        if outcome is Outcome.UNKNOWN or not is_whole:
            # A batch that is still on its way must not join the next transaction.
            self.hang_up()
            await self.begin()
        return None

    def _record(self, name: str, outcome: Outcome, began: int | None) -> None:
        self.successes += outcome is not Outcome.UNKNOWN
        self.world.recorder.add(Transaction(name, outcome, began))

    async def _fill(self, name: str) -> bool:
        """Send the batches of a transaction; returns whether all were acknowledged."""
        added: set[Spot] = set()
        for _ in range(self.draw.randint(1, 5)):
            spot = self.draw.choice(self.spots)
            if not self.is_v2 and spot not in added:
                if not await self._add(spot):
                    return False
                added.add(spot)
            if not await self._produce(spot, name):
                return False
        return True

    async def _add(self, spot: Spot) -> bool:
        topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=spot.topic, partitions=[spot.partition])
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        for _ in range(ATTEMPTS):
            answer = await self.ask(request, 3)
            codes = {
                ErrorCode(part.partition_error_code)
                for each in answer.results_by_topic_v3_and_below
                for part in each.results_by_partition
            }
            if codes == {ErrorCode.NONE}:
                return True
            assert codes <= RETRIABLE | GONE | OVER, f"{self.name}: AddPartitionsToTxn: {codes}"
            if not codes <= RETRIABLE:
                return False
            await self.back_off()
        return False

    async def _produce(self, spot: Spot, name: str) -> bool:
        batch = self.some_batch(spot, name)
        for _ in range(ATTEMPTS):
            try:
                answer = await self.once(batch.request(-1, self.name), 13 if self.is_v2 else 11)
                code, base_offset = result_of(answer)
            except Lost:
                code = ErrorCode.REQUEST_TIMED_OUT
            if code is ErrorCode.NONE:
                self.settle(batch, Fate.ACKED, base_offset)
                return True
            if code not in RETRIABLE:
                assert code in GONE | OVER | {ErrorCode.DUPLICATE_SEQUENCE_NUMBER}, f"{self.name}: {code.name}"
                if code in GONE:
                    self.spots.clear()
                break
            await self.back_off()
        self.settle(batch, Fate.UNKNOWN)
        return False

    async def _end(self, *, commits: bool) -> Outcome:
        """End the transaction; the request is repeated until there is an answer."""
        request = m.EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commits
        )
        while True:
            answer: Any = await self.ask(request, 5 if self.is_v2 else 4)
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                if self.is_v2:
                    self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                    self.sequences.clear()
                return Outcome.COMMITTED if commits else Outcome.ABORTED
            if code in OVER:
                return Outcome.UNKNOWN
            assert code in RETRIABLE, f"{self.name}: EndTxn: {code.name}"
            await self.back_off()
