"""A whole broker with the requests of a transactional producer in short form."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker_cy.coordinator.txn.state import TopicPartition
from broker_cy.coordinator.txn.transaction_table import TxnStep
from broker_cy.coordinator_services.txn_runtime import Results, TransactionRuntime
from broker_cy.coordinator_services.txn_service import TransactionService
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GroupBroker

ID = "payments"
P0: TopicPartition = ("t", 0)
P1: TopicPartition = ("t", 1)
Identity = tuple[int, int]


class TxnBroker(GroupBroker):
    def __init__(self, path: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(path, {"transaction.state.log.num.partitions": "3", **(settings or {})})

    async def __aenter__(self) -> TxnBroker:
        await super().__aenter__()
        await self.service.loaded()
        return self

    @property
    def service(self) -> TransactionService:
        return self.server.broker.transactions

    def txn_runtime(self, transactional_id: str = ID) -> TransactionRuntime:
        return self.service.runtime_for(transactional_id)

    async def prepare_txn(self) -> None:
        """Create topic `t` with two partitions, and the coordinator's topic."""
        await self.prepare("t")
        request = messages.FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        assert (await self.call(request, 6)).coordinators[0].error_code == ErrorCode.NONE
        await self.service.loaded()

    async def init(
        self,
        version: int = 5,
        transactional_id: str | None = ID,
        expected: Identity = (-1, -1),
        timeout_ms: int = 60_000,
    ) -> Any:
        request = messages.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        if version >= 3:
            request.producer_id, request.producer_epoch = expected
        return await self.call(request, version)

    async def producer(self, transactional_id: str = ID, timeout_ms: int = 60_000) -> Identity:
        """Request a producer id until the previous transaction is ended."""
        while (answer := await self.init(transactional_id=transactional_id, timeout_ms=timeout_ms)).error_code:
            assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            await asyncio.sleep(0.001)
        return answer.producer_id, answer.producer_epoch

    def shorten(self, timeout_ms: int) -> None:
        """Set the timeout of the open transaction. It is also the deadline of requests that come later."""
        runtime = self.txn_runtime()
        step = TxnStep()
        runtime.machine.change(step, replace(runtime.machine.transactions[ID], timeout_ms=timeout_ms))
        runtime.accept(step)

    async def add(
        self, producer: Identity, *partitions: TopicPartition, version: int = 3, verify: bool = False
    ) -> dict[TopicPartition, str]:
        """Return the name of each partition's code."""
        topics = [
            messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[index])
            for topic, index in partitions or (P0,)
        ]
        if version >= 4:
            transaction = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=ID,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify,
                topics=topics,
            )
            request = messages.AddPartitionsToTxnRequest(transactions=[transaction])
            (only,) = (await self.call(request, version)).results_by_transaction
            assert only.transactional_id == ID
            results = only.topic_results
        else:
            request = messages.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
            results = (await self.call(request, version)).results_by_topic_v3_and_below
        return {
            (topic.name, one.partition_index): ErrorCode(one.partition_error_code).name
            for topic in results
            for one in topic.results_by_partition
        }

    async def end(self, producer: Identity, commit: bool = True, version: int = 5, transactional_id: str = ID) -> Any:
        request = messages.EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        return await self.call(request, version)

    async def states(self, version: int = 2, **wanted: Any) -> dict[str, str]:
        """Return the response of ListTransactions."""
        answer = await self.call(messages.ListTransactionsRequest(**wanted), version)
        assert answer.error_code == ErrorCode.NONE
        return {found.transactional_id: found.transaction_state for found in answer.transaction_states}

    def state(self, transactional_id: str = ID) -> str:
        return self.txn_runtime(transactional_id).machine.transactions[transactional_id].state.label


class HeldMarkers:
    """Replaces TxnMarkers: keeps the markers until `answer`."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int, bool, list[TopicPartition], int]] = []
        self.waiting: list[tuple[list[TopicPartition], asyncio.Future[Results]]] = []

    def write(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        partitions: list[TopicPartition],
        transaction_version: int,
    ) -> asyncio.Future[Results]:
        self.calls.append(
            (producer_id, producer_epoch, coordinator_epoch, commit, list(partitions), transaction_version)
        )
        future: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        self.waiting.append((partitions, future))
        return future

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        waiting, self.waiting = self.waiting, []
        for partitions, future in waiting:
            if not future.done():
                future.set_result(dict.fromkeys(partitions, code))
