"""A transactional producer: it commits, aborts, hangs and changes its mind. A successor with the same transactional id
replaces it within a transaction, or one with another id replaces it forever. A producer that was replaced, or took too
long, must not succeed.

Some speak the protocol of Kafka 4 (transaction version 2: partitions join with their first batch, and each end raises
the epoch), the others the one before (AddPartitionsToTxn, one epoch for many transactions).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.history.operations import Fate, Outcome, Transaction
from tests.sim.world.clients.base import GONE, RETRIABLE, TRANSACTION, Client, Spot
from tests.sim.world.clients.producers import FENCED, Sender, result_of
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

# Transaction timeouts. The coordinator aborts an expired transaction within a little more than CLEANUP_MS.
TIMEOUTS_MS = (1_000, 1_000, 20_000)
# The timeouts in a cluster, which leaves more transactions open: the world waits until the last one is aborted.
CLUSTER_TIMEOUTS_MS = (1_000, 1_000, 6_000)
CLEANUP_MS, LATE_MS = 1_000, 500
ATTEMPTS = 12
BEFORE_MAX = 10
# The transaction has ended without this client, or cannot go on.
OVER = FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


class TransactionalProducer(Sender):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.is_v2 = self.draw.chance(0.6)
        # Before version 2 Produce has no topic ids: a batch for a deleted topic could reach the recreated one.
        self.takes_volatile = self.is_v2
        self.transactions = 0
        self.transactional_id = name
        self.timeout_ms = self.draw.choice(CLUSTER_TIMEOUTS_MS if world.plan.is_cluster else TIMEOUTS_MS)
        # The predecessors: (transactional id, producer id, epoch).
        self.before: deque[tuple[str, int, int]] = deque(maxlen=BEFORE_MAX)

    async def begin(self) -> None:
        if self.producer_id >= 0:
            self.before.append((self.transactional_id, self.producer_id, self.epoch))
        await self.find_coordinator(self.transactional_id, TRANSACTION)
        await self.new_identity(
            m.InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        )
        self.world.fenced.began(self.transactional_id, self.producer_id, self.epoch)

    async def step(self) -> None:
        if not self.spots or self.draw.chance(0.1):
            await self.look()
        if not self.spots:
            return await self.back_off()
        name = f"{self.name}-T{self.transactions}"
        self.transactions += 1
        began_us = self.world.time.now_us
        is_whole = await self._fill(name)
        choice = self.draw.random()
        if choice < 0.12:
            # A successor aborts the open transaction.
            self.hang_up()
            await self.begin()
            self._record(name, Outcome.ABORTED, None)
            return None
        if choice < 0.16:
            self._record(name, Outcome.UNKNOWN, None)
            return await self._end_for_ever()
        if choice < 0.22 and is_whole:
            return await self._hang(name, began_us)
        if choice < 0.28 and not self.is_v2 and is_whole:
            return await self._change_mind(name)
        if choice < 0.4 and self.before:
            await self._zombie(self.draw.choice(list(self.before)))
        commits = is_whole and choice < 0.75
        began = self.world.recorder.now() if commits else None
        outcome = await self._end(commits=commits)
        self._record(name, outcome, began)
        if outcome is Outcome.ABORTED and self.draw.chance(0.15):
            await self._contradict()
        if outcome is Outcome.UNKNOWN or not is_whole:
            # A batch that is still on its way must not join the next transaction.
            self.hang_up()
            await self.begin()
        return None

    async def _end_for_ever(self) -> None:
        """Use another transactional id: only its timeout ends the transaction."""
        self.hang_up()
        self.transactional_id = f"{self.name}-{self.transactions}"
        self.producer_id = self.epoch = -1
        await self.begin()

    async def _hang(self, name: str, began_us: int) -> None:
        """Send nothing until the transaction has taken too long. Raises AssertionError if it can be committed. It was
        begun at `began_us` or later; if the coordinator has another clock since, it may last longer.
        """
        filled_us = self.world.time.now_us
        if not self.spots:
            self._record(name, Outcome.UNKNOWN, None)
            await self.begin()
            return
        await asyncio.sleep((self.timeout_ms + CLEANUP_MS + LATE_MS) / 1000 if self.timeout_ms < 2_000 else 0.5)
        asked = self.world.recorder.now()
        is_late = self.world.time.now_us - filled_us > (self.timeout_ms + CLEANUP_MS + LATE_MS) * 1000 - 1
        is_calm = self.world.sites[self.host].is_calm_since(began_us)
        if is_late and is_calm and self.draw.chance(0.7):
            await self._go_on_late(name)
        outcome = await self._end(commits=True)
        assert not (is_late and is_calm and outcome is Outcome.COMMITTED), (
            f"{self.name} committed a transaction that took more than {self.timeout_ms} ms"
        )
        self._record(name, outcome, asked)
        if outcome is Outcome.UNKNOWN:
            self.hang_up()
            await self.begin()

    async def _go_on_late(self, name: str) -> None:
        """Continue a transaction that was aborted because it took too long. Raises AssertionError if that is
        accepted.
        """
        spot = self.draw.choice(self.spots)
        codes: set[ErrorCode] = set()
        if self.is_v2:
            batch = self.some_batch(spot, name)
            with suppress(Lost):
                codes = {result_of(await self.once(batch.request(-1, self.transactional_id), 13))[0]}
            self.settle(batch, Fate.UNKNOWN)
        else:
            who = self.transactional_id, self.producer_id, self.epoch
            with suppress(Lost):
                codes = self._codes(await self.once(self._add_request(spot, who), 3))
        assert ErrorCode.NONE not in codes, f"{self.name} took too long, and goes on"

    def _end_request(self, transactional_id: str, producer_id: int, epoch: int, *, commits: bool) -> Any:
        return m.EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )

    async def _change_mind(self, name: str) -> None:
        """Ask for a commit and an abort, one right after the other: one of them at most succeeds."""
        asked = self.world.recorder.now()
        commits = self.draw.chance(0.5)
        who = self.transactional_id, self.producer_id, self.epoch
        codes: list[ErrorCode] = []
        try:
            channel = await self.connected()
            answers = [channel.send(self._end_request(*who, commits=each), 4) for each in (commits, not commits)]
            for answer in answers:
                codes.append(ErrorCode((await answer).error_code))
        except Lost:
            self.hang_up()
        assert codes != [ErrorCode.NONE] * 2, f"{self.name}: {name} was committed and aborted"
        # After an error the second one may have ended it.
        is_known = codes[:1] == [ErrorCode.NONE]
        self._record(name, _ended(commits=commits) if is_known else Outcome.UNKNOWN, asked)
        self.hang_up()
        await self.begin()

    async def _contradict(self) -> None:
        """Ask to commit an aborted transaction: with the old protocol the same transaction, else one of an older
        epoch.
        """
        epoch = self.epoch - 1 if self.is_v2 else self.epoch
        if epoch < 0:
            return
        request = self._end_request(self.transactional_id, self.producer_id, epoch, commits=True)
        with suppress(Lost):
            code = ErrorCode((await self.once(request, 5 if self.is_v2 else 4)).error_code)
            assert code is not ErrorCode.NONE, f"{self.name}: a transaction that was aborted is committed"

    async def _zombie(self, before: tuple[str, int, int]) -> None:
        """Act as a predecessor, which must not succeed."""
        transactional_id, producer_id, epoch = before
        if not self.world.fenced.is_fenced(transactional_id, producer_id, epoch):
            return
        with suppress(Lost):
            if not self.spots or self.draw.chance(0.5):
                request = self._end_request(transactional_id, producer_id, epoch, commits=self.draw.chance(0.5))
                codes = {ErrorCode((await self.once(request, 4)).error_code)}
            else:
                codes = self._codes(await self.once(self._add_request(self.spots[0], before), 3))
            assert ErrorCode.NONE not in codes, f"{self.name}: {before}, which was replaced, succeeds"

    def _record(self, name: str, outcome: Outcome, began: int | None) -> None:
        self.successes += outcome is not Outcome.UNKNOWN
        self.world.recorder.add(Transaction(name, outcome, began))

    def _is_fenced(self) -> bool:
        return self.world.fenced.is_fenced(self.transactional_id, self.producer_id, self.epoch)

    async def _fill(self, name: str) -> bool:
        """Send the batches of a transaction; returns whether all were acknowledged."""
        added: set[Spot] = set()
        if not self.is_v2 and self.draw.chance(0.05):
            added_spot, spot = self.draw.choice(self.spots), self.draw.choice(self.spots)
            # A partition is added only after all markers of the transaction before are written. As long as one is
            # missing, its partition takes batches without asking the coordinator, as Kafka's does (KIP-890).
            if spot != added_spot and await self._add(added_spot):
                await self._unadded(spot, name)
            return False
        for _ in range(self.draw.randint(1, 5)):
            spot = self.draw.choice(self.spots)
            if not self.is_v2 and spot not in added:
                if not await self._add(spot):
                    return False
                added.add(spot)
            if not await self._produce(spot, name):
                return False
        return True

    def _add_request(self, spot: Spot, who: tuple[str, int, int]) -> Any:
        topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=spot.topic, partitions=[spot.partition])
        return m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who[0],
            v3_and_below_producer_id=who[1],
            v3_and_below_producer_epoch=who[2],
            v3_and_below_topics=[topic],
        )

    @staticmethod
    def _codes(answer: Any) -> set[ErrorCode]:
        return {
            ErrorCode(part.partition_error_code)
            for each in answer.results_by_topic_v3_and_below
            for part in each.results_by_partition
        }

    async def _add(self, spot: Spot) -> bool:
        request = self._add_request(spot, (self.transactional_id, self.producer_id, self.epoch))
        for _ in range(ATTEMPTS):
            is_fenced = self._is_fenced()
            codes = self._codes(await self.ask(request, 3))
            if codes == {ErrorCode.NONE}:
                assert not is_fenced, f"{self.name} was fenced, and adds partitions"
                return True
            assert codes <= RETRIABLE | GONE | OVER, f"{self.name}: AddPartitionsToTxn: {codes}"
            if not codes <= RETRIABLE:
                return False
            await self.back_off()
        return False

    async def _unadded(self, spot: Spot, name: str) -> None:
        """Write to a partition that no transaction of this producer has. Raises AssertionError if that is accepted."""
        batch = self.some_batch(spot, name)
        code = ErrorCode.REQUEST_TIMED_OUT
        with suppress(Lost):
            code, _ = result_of(await self.once(batch.request(-1, self.transactional_id), 11))
        assert code is not ErrorCode.NONE, f"{self.name}: {spot.place} was written to outside of a transaction"
        self.settle(batch, Fate.UNKNOWN)

    async def _produce(self, spot: Spot, name: str) -> bool:
        batch = self.some_batch(spot, name)
        for _ in range(ATTEMPTS):
            try:
                answer = await self.once(batch.request(-1, self.transactional_id), 13 if self.is_v2 else 11)
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
        request = self._end_request(self.transactional_id, self.producer_id, self.epoch, commits=commits)
        while True:
            is_fenced = self._is_fenced()
            answer: Any = await self.ask(request, 5 if self.is_v2 else 4)
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                assert not is_fenced, f"{self.name} was fenced, and ends a transaction"
                if self.is_v2:
                    self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                    self.sequences.clear()
                return _ended(commits=commits)
            if code in OVER:
                return Outcome.UNKNOWN
            assert code in RETRIABLE, f"{self.name}: EndTxn: {code.name}"
            await self.back_off()


def _ended(*, commits: bool) -> Outcome:
    return Outcome.COMMITTED if commits else Outcome.ABORTED


class Fencer(Client):
    """Takes the transactional ids of others, as `kafka-transactions.sh` or a second process does."""

    async def step(self) -> None:
        ids = self.world.fenced.ids(self.host)
        if not ids:
            self.successes += 1
            return await self.back_off()
        transactional_id = self.draw.choice(ids)
        request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUTS_MS[0])
        with suppress(Lost):
            # After the faults, the other producers must make progress.
            if not self.world.recovers:
                answer = await self.once(request, 5)
                code = ErrorCode(answer.error_code)
                assert code in RETRIABLE | FENCED | {ErrorCode.NONE}, f"{self.name}: InitProducerId: {code.name}"
                if code is ErrorCode.NONE:
                    self.world.fenced.began(transactional_id, answer.producer_id, answer.producer_epoch)
            await self._look_at(transactional_id)
            self.successes += 1
        return await asyncio.sleep(0.3)

    async def _look_at(self, transactional_id: str) -> None:
        """DescribeTransactions and ListTransactions. Raises Lost."""
        described = await self.once(m.DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        for each in described.transaction_states:
            code = ErrorCode(each.error_code)
            assert code in RETRIABLE | {ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}, code.name
        listed = ErrorCode((await self.once(m.ListTransactionsRequest(), 1)).error_code)
        assert listed in RETRIABLE | {ErrorCode.NONE}, listed.name
