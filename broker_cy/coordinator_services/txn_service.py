"""The transaction coordinator of this broker: one runtime for each partition of `__transaction_state`. See
`coordinator_service`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from broker_cy.coordinator.txn import admin, end, init, partitions
from broker_cy.coordinator.txn.end import Ended
from broker_cy.coordinator.txn.init import Initialized
from broker_cy.coordinator.txn.settings import TxnSettings
from broker_cy.coordinator.txn.state import ProducerIdAndEpoch, TopicPartition, Transaction
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.coordinator_services.coordinator_service import CoordinatorService, ServiceContext
from broker_cy.coordinator_services.txn_runtime import MarkerWriter, Results, TransactionRuntime
from broker_cy.coordinator_services.txn_verifier import TxnVerifier
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.metadata import topic_names
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The recorded version of a producer that supports transaction.version 2, and of one that does not.
VERSION_IMPLICIT = 2
VERSION_OLD = 0


class TransactionService(CoordinatorService[TransactionRuntime, TransactionMachine]):
    topic = topic_names.TRANSACTION_STATE
    what = "transactional id"
    logger = logging.getLogger("broker_cy.server.transactions")

    def __init__(
        self,
        context: ServiceContext,
        markers: MarkerWriter,
        next_producer_id: Callable[[], Awaitable[int]],
        verifier: TxnVerifier,
    ) -> None:
        """`markers` writes markers into partitions of any broker, `verifier` asks the coordinators on other brokers;
        `next_producer_id` returns a producer id that was never used before; it raises KafkaError.
        """
        super().__init__(context)
        self.verifier = verifier
        self.settings = TxnSettings.from_config(context.config)
        self._markers = markers
        self._next_producer_id = next_producer_id
        self._sweep_every(self.settings.abort_interval_ms, TransactionRuntime.abort_timed_out)
        self._sweep_every(self.settings.expiration_interval_ms, TransactionRuntime.remove_expired)

    def _new_runtime(self, partition: Partition, leader_epoch: int) -> TransactionRuntime:
        return TransactionRuntime(
            partition, leader_epoch, self._runtime_context, self.settings, self._markers, self._next_producer_id
        )

    # ---- for handlers ----

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Initialized:
        """InitProducerId of a transactional id; `expected` is the producer id and epoch that the producer claims."""
        if not transactional_id:
            return Initialized(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            return Initialized(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        try:
            # It would only ask for one.
            runtime = await self.ready(transactional_id)
            if not runtime.machine.producer_ids and transactional_id not in runtime.machine.transactions:
                await runtime.add_producer_id()
        except KafkaError as error:
            return Initialized(error.code)
        return await self._run(Initialized, init.init_producer_id, transactional_id, timeout_ms, expected)

    async def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, client_version: int
    ) -> Ended:
        """EndTxn; `client_version` is 2 for a producer whose epoch is to be bumped."""
        if not transactional_id:
            return Ended(ErrorCode.INVALID_REQUEST)
        return await self._run(Ended, end.end, transactional_id, producer, commit, client_version)

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        added: frozenset[TopicPartition],
        client_version: int,
    ) -> ErrorCode:
        """AddPartitionsToTxn and AddOffsetsToTxn; the partitions exist."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return await self._run(ErrorCode, partitions.add, transactional_id, producer, added, client_version)

    async def _run(
        self,
        failed: Callable[[ErrorCode], T],
        operation: Callable[[TransactionTable, TxnStep, str, *Ts, Any, Now], None],
        transactional_id: str,
        *request: *Ts,
    ) -> T:
        """Return the answer of an operation, or `failed(code)`. Provides a producer id if the operation needs one."""
        try:
            while True:
                runtime = await self.ready(transactional_id)
                answer: T | None = await runtime.run(operation, transactional_id, *request)
                if answer is not None:
                    return answer
                await runtime.add_producer_id()
        except KafkaError as error:
            return failed(error.code)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> asyncio.Future[Results]:
        """Return whether the partitions are part of the producer's transaction, as one error code for each: for
        transactional batches that are to be appended here. The coordinator may be another broker.

        With `add` they become part of it (KIP-890 part 2), and NONE means that this is on disk. While the previous
        transaction is being completed, this waits, up to `add.partitions.to.txn.retry.backoff.max.ms`. The partitions
        exist. Codes are the coordinator's: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
        TRANSACTION_ABORTABLE (not part of it), INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR; NETWORK_EXCEPTION if it cannot be reached.
        """
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        if add:
            adding = _Adding(self, transactional_id, producer, partitions)
            return adding.result
        other = self.other_coordinator(transactional_id)
        if other is not None:
            return self.verifier.ask(other, transactional_id, producer, partitions, add=False)
        return self.verify_here(transactional_id, producer, partitions)

    def verify_here(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> asyncio.Future[Results]:
        """The same without `add`, for AddPartitionsToTxn with `verify_only`: if this broker is not the coordinator, the
        answer has that error. Waits for a coordinator that is being loaded.
        """
        if transactional_id:
            try:
                return self._verified(self.runtime_for(transactional_id), transactional_id, producer, partitions)
            except KafkaError:
                return self._loop.create_task(self._verify_when_ready(transactional_id, producer, partitions))
        result: asyncio.Future[Results] = self._loop.create_future()
        result.set_result(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
        return result

    async def _verify_when_ready(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> Results:
        try:
            runtime = await self.ready(transactional_id)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return await self._verified(runtime, transactional_id, producer, partitions)

    def _verified(
        self,
        runtime: TransactionRuntime,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        asked: Sequence[TopicPartition],
    ) -> asyncio.Future[Results]:
        return runtime.run(partitions.verify, transactional_id, producer, asked)

    def describe(self, transactional_id: str) -> messages.DescribeTransactionsResponse.TransactionState:
        """DescribeTransactions of one id."""
        code = ErrorCode.INVALID_REQUEST
        if transactional_id:
            try:
                return admin.describe(self.runtime_for(transactional_id).machine, transactional_id)
            except KafkaError as error:
                code = error.code
        return messages.DescribeTransactionsResponse.TransactionState(
            transactional_id=transactional_id, error_code=code
        )

    def readable_transactions(self) -> list[Transaction]:
        """All transactional ids of this broker. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while some are still
        being loaded.
        """
        return [found for runtime in self._loaded_runtimes() for found in runtime.machine.transactions.values()]


class _Adding:
    """Partitions that a producer writes to. They join its transaction as soon as the previous one has ended."""

    def __init__(
        self,
        service: TransactionService,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
    ) -> None:
        self._service = service
        self._loop = service._loop
        self._transactional_id = transactional_id
        self._producer = producer
        self._partitions = partitions
        self._added = frozenset(partitions)
        self._deadline = self._loop.time() + service.settings.add_backoff_max_ms / 1000
        self._runtime: TransactionRuntime | None = None
        self._settled: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None  # while the coordinator is being loaded
        self.result: asyncio.Future[Results] = self._loop.create_future()
        self._try()

    def _try(self, _: object = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._settled is not None and self._runtime is not None:
            self._runtime.give_up(self._transactional_id, self._settled)
            self._settled = None
        if self.result.done():
            return
        if not self._transactional_id:
            self._give(ErrorCode.INVALID_REQUEST)
            return
        other = self._service.other_coordinator(self._transactional_id)
        if other is not None:
            self._service.verifier.ask(
                other, self._transactional_id, self._producer, self._partitions, add=True
            ).add_done_callback(self._answered_elsewhere)
            return
        try:
            self._run(self._service.runtime_for(self._transactional_id))
        except KafkaError:
            self._loading = self._loop.create_task(self._run_when_ready())

    async def _run_when_ready(self) -> None:
        """Wait for a coordinator that is being loaded, as other requests for it do."""
        try:
            runtime = await self._service.ready(self._transactional_id)
        except KafkaError as error:
            self._give(error.code)
        else:
            if not self.result.done():
                self._run(runtime)

    def _run(self, runtime: TransactionRuntime) -> None:
        self._runtime = runtime
        answer = runtime.run(partitions.add, self._transactional_id, self._producer, self._added, VERSION_IMPLICIT)
        answer.add_done_callback(self._answered)

    def _answered(self, answer: asyncio.Future[ErrorCode]) -> None:
        code = answer.result()
        left_s = self._deadline - self._loop.time()
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or left_s <= 0 or self._runtime is None:
            self._give(code)
            return
        self._timer = self._loop.call_later(min(left_s, self._service.settings.add_backoff_ms / 1000), self._try)
        self._settled = self._runtime.settled(self._transactional_id)
        self._settled.add_done_callback(self._on_settled)

    def _answered_elsewhere(self, answer: asyncio.Future[Results]) -> None:
        results = answer.result()
        left_s = self._deadline - self._loop.time()
        if ErrorCode.CONCURRENT_TRANSACTIONS in results.values() and left_s > 0:
            self._timer = self._loop.call_later(min(left_s, self._service.settings.add_backoff_ms / 1000), self._try)
        elif not self.result.done():
            self.result.set_result(results)

    def _on_settled(self, settled: asyncio.Future[None]) -> None:
        if settled is self._settled:
            self._settled = None
            self._try()

    def _give(self, code: ErrorCode) -> None:
        if not self.result.done():
            self.result.set_result(dict.fromkeys(self._partitions, code))
