"""The runtime of one partition of the transaction coordinator, which also sends the markers of its state machine. See
`coordinator_runtime`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker_cy.coordinator.txn import expiry, markers
from broker_cy.coordinator.txn.settings import TxnSettings
from broker_cy.coordinator.txn.state import Markers, TopicPartition
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.coordinator.txn.transaction_table import TxnStep
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime, LoadState, RuntimeContext
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition

Results = dict[TopicPartition, ErrorCode]


class MarkerWriter(Protocol):
    """Writes the markers of one transaction into partitions of this broker."""

    def write(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        partitions: Sequence[TopicPartition],
        transaction_version: int,
    ) -> asyncio.Future[Results]: ...


class TransactionRuntime(CoordinatorRuntime[TransactionMachine, TxnStep]):
    """Owns a `TransactionMachine` and its partition of `__transaction_state`."""

    coordinator = "transaction coordinator"
    logger = logging.getLogger("broker_cy.server.transactions")

    def __init__(
        self,
        partition: Partition,
        leader_epoch: int,
        context: RuntimeContext,
        settings: TxnSettings,
        markers: MarkerWriter,
        next_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        super().__init__(partition, leader_epoch, TransactionMachine(settings), context)
        self.machine.coordinator_epoch = leader_epoch
        self._markers = markers
        self._next_producer_id = next_producer_id
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._fetching: asyncio.Task[None] | None = None

    def loaded_facts(self) -> dict[str, object]:
        found: dict[str, object] = {"transactional_ids": len(self.machine.transactions)}
        if self.machine.ending:
            found["to_be_ended"] = len(self.machine.ending)
        return found

    def accept(self, step: TxnStep) -> None:
        super().accept(step)
        for sent in step.markers:
            self._send(sent)
        if self._waiting:
            for transactional_id in step.settled:
                self._wake(transactional_id)

    # ---- markers ----

    def _send(self, sent: Markers) -> None:
        """Send the markers; a partition that was deleted needs none."""
        wanted = [partition for partition in sent.partitions if self.machine.exists(partition)]
        if not wanted:
            self._loop.call_soon(self._sent, sent, {})
            return
        try:
            written = self._markers.write(
                sent.producer_id,
                sent.producer_epoch,
                sent.coordinator_epoch,
                sent.commit,
                wanted,
                sent.transaction_version,
            )
        except KafkaError as error:
            self._loop.call_soon(self._sent, sent, dict.fromkeys(wanted, error.code))
            return
        written.add_done_callback(partial(self._answered, sent, wanted))

    def _answered(self, sent: Markers, wanted: list[TopicPartition], written: asyncio.Future[Results]) -> None:
        if written.cancelled():
            results = dict.fromkeys(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif (error := written.exception()) is not None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            results = dict.fromkeys(wanted, code)
        else:
            results = dict.fromkeys(wanted, ErrorCode.UNKNOWN_SERVER_ERROR) | written.result()
        self._sent(sent, results)

    def _sent(self, sent: Markers, results: Results) -> None:
        if self.state is not LoadState.ACTIVE:
            return
        gone = {partition: ErrorCode.NONE for partition in sent.partitions if partition not in results}
        self.accept(self.machine.run(markers.written, sent, results | gone, self.now()))
        ending = self.machine.ending.get(sent.transactional_id)
        if ending is not None and ending.number == sent.number and (ending.fenced or ending.failures == 1):
            self._log_events.markers_not_written(
                sent.transactional_id,
                sent.producer_id,
                sent.producer_epoch,
                ",".join(sorted({code.name for code in results.values() if code is not ErrorCode.NONE})),
                fenced=ending.fenced,
            )

    def _timeout_ms(self, step: TxnStep) -> int:
        return step.timeout_ms

    # ---- waiting ----

    def settled(self, transactional_id: str) -> asyncio.Future[None]:
        """Return a future that is done when a request that failed with CONCURRENT_TRANSACTIONS can be retried, or when
        the runtime is closed.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(transactional_id, []).append(future)
        return future

    def give_up(self, transactional_id: str, future: asyncio.Future[None]) -> None:
        """Stop waiting for `settled`."""
        waiting = self._waiting.get(transactional_id, [])
        if future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiting[transactional_id]

    def _wake(self, transactional_id: str) -> None:
        for future in self._waiting.pop(transactional_id, ()):
            if not future.done():
                future.set_result(None)

    # ---- time ----

    def abort_timed_out(self) -> None:
        """Apply the timeouts of transactions."""
        if self.state is not LoadState.ACTIVE:
            return
        step = self.machine.run(expiry.abort_timed_out, self.now())
        self.accept(step)
        if step.needs_producer_id and self._fetching is None:
            self._fetching = self._loop.create_task(self._fetch_producer_id())

    async def _fetch_producer_id(self) -> None:
        try:
            await self.add_producer_id()
        except KafkaError as error:
            # The next check of timeouts tries again.
            self.logger.warning(
                "could not obtain a producer id to abort a transaction; will retry", extra=facts(reason=str(error))
            )
            return
        finally:
            self._fetching = None
        self.abort_timed_out()

    async def add_producer_id(self) -> None:
        """Give the state machine an unused producer id. Raises KafkaError."""
        self.machine.add_producer_id(await self._next_producer_id())

    def remove_expired(self) -> None:
        """Apply `transactional.id.expiration.ms`."""
        if self.state is LoadState.ACTIVE:
            self.accept(self.machine.run(expiry.remove_expired, self.now()))

    def close(self) -> None:
        super().close()
        if self._fetching is not None:
            self._fetching.cancel()
        for transactional_id in list(self._waiting):
            self._wake(transactional_id)
