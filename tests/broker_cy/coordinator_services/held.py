"""A partition whose followers hang, and answers that are due soon: the test sets the outcome of the records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.storage.errors import StorageError
from broker_cy.wire.records import decode_batches
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, until
from tests.broker_cy.coordinator_services.txn_broker import ID, TxnBroker

Done = Callable[[KafkaError | None], None]
# Milliseconds after which the answers of these tests are due, once nothing has to succeed any longer.
SOON_MS = 30
# Transactions whose timeout is SOON_MS stay open.
NO_ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000"}


class HeldPartition:
    """A partition whose followers hang: appended records are in the log, and the test sets their outcome."""

    def __init__(self, runtime: Any) -> None:
        self.partition = runtime.partition
        runtime.partition = self
        self.outcomes: list[Done] = []
        self.room = 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(self.partition, name)

    def append_then(self, batch: bytes, now_ms: int, done: Done) -> None:
        if not self.room:
            raise StorageError("no space left on device")
        self.room -= 1
        self.partition.append_then(batch, now_ms, lambda error: None)
        self.outcomes.append(done)

    def _held(self) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(error: KafkaError | None) -> None:
            if error is None:
                future.set_result(0)
            else:
                future.set_exception(error)

        self.outcomes.append(done)
        return future

    def append_transactional(self, *arguments: Any) -> asyncio.Future[int]:
        self.partition.append_transactional(*arguments)
        return self._held()

    def append_marker(self, *arguments: Any) -> asyncio.Future[int]:
        self.partition.append_marker(*arguments)
        return self._held()

    def records(self) -> int:
        """The number of records that a start would find."""
        log, count, at = self.partition.log, 0, self.partition.log.log_start_offset
        while at < log.written_end_offset:
            for batch in decode_batches(log.read_slice(at).read()):
                count += batch.count
                at = batch.last_offset + 1
        return count


class HeldTimers:
    """A loop whose timers also run when the test runs them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.timers.append((delay_s, call))
        return self.loop.call_later(delay_s, call)


def answers_soon(broker: GroupBroker) -> None:
    """From now on, the answers of the group coordinator are due after SOON_MS."""
    machine = broker.runtime().machine
    machine.settings = machine.settings._replace(offsets_commit_timeout_ms=SOON_MS)


def ends_soon(broker: TxnBroker) -> None:
    """From now on, the answers about the transaction are due after SOON_MS."""
    transactions = broker.txn_runtime().machine.transactions
    transactions[ID] = replace(transactions[ID], timeout_ms=SOON_MS)


def lost() -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "input/output error")


async def in_flight(held: HeldPartition, count: int) -> None:
    await until(lambda: len(held.outcomes) == count)
