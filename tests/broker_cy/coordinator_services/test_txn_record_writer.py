"""The records of transactions: their answers do not wait forever for records that are not committed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator_services import test_transactional_offsets as txn_offsets
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run, until
from tests.broker_cy.coordinator_services.held import (
    NO_ABORTS,
    SOON_MS,
    HeldPartition,
    HeldTimers,
    answers_soon,
    ends_soon,
    in_flight,
)
from tests.broker_cy.coordinator_services.txn_broker import TxnBroker


def test_an_offset_of_a_transaction_is_answered_in_time(tmp_path: Path) -> None:
    """If this fails, a transactional producer hangs in sendOffsetsToTransaction for as long as a follower does."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            txn_offsets.started(broker)
            answers_soon(broker)
            held = HeldPartition(broker.runtime())
            assert await txn_offsets.commit(broker, 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            held.outcomes[0](None)
            await until(lambda: not broker.runtime().is_writing)
            assert await txn_offsets.stable(broker) == txn_offsets.UNSTABLE

    run(work)


def test_markers_are_answered_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one partition with a hanging follower delays the ends of all its transactions."""

    async def work() -> None:
        async with GroupBroker(tmp_path, {"request.timeout.ms": "40000"}) as broker:
            await broker.prepare("t")
            txn_offsets.started(broker)
            assert await txn_offsets.commit(broker, 2) is ErrorCode.NONE
            held = HeldPartition(broker.runtime())
            place = ("__consumer_offsets", txn_offsets.offsets_index(broker))
            markers = broker.server.broker.txn_markers
            timers = HeldTimers(markers._loop)
            monkeypatch.setattr(markers, "_loop", timers)
            appends: list[asyncio.Future[Any]] = []
            right = markers._append

            def append(*arguments: Any) -> asyncio.Future[Any]:
                appends.append(right(*arguments))
                return appends[-1]

            monkeypatch.setattr(markers, "_append", append)
            ended = asyncio.ensure_future(txn_offsets.end(broker, True, ("t", 0), place))
            await in_flight(held, 1)
            await appends[0]
            # Its result is taken in the same turn of the loop.
            await asyncio.sleep(0)
            ((delay_s, expire),) = timers.timers
            assert delay_s == 40
            expire()
            assert await ended == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
            held.outcomes[0](None)
            await until(lambda: not broker.runtime().is_writing)
            assert await txn_offsets.stable(broker) == (2, ErrorCode.NONE)

    run(work)


def test_a_transactional_id_is_answered_in_time(tmp_path: Path) -> None:
    """If this fails, a transactional producer hangs when it starts or ends a transaction, for as long as a follower
    does. As in Kafka, it is answered after its transaction timeout.
    """

    async def work() -> None:
        async with TxnBroker(tmp_path, NO_ABORTS) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            held = HeldPartition(broker.txn_runtime())
            answer = await broker.init(timeout_ms=SOON_MS)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await broker.init(timeout_ms=SOON_MS)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            held.outcomes[0](None)
            again = asyncio.ensure_future(broker.init())
            await in_flight(held, 2)
            held.outcomes[1](None)
            assert ((await again).error_code, (await again).producer_epoch) == (ErrorCode.NONE, producer[1] + 2)

    run(work)


def test_an_end_is_answered_in_time(tmp_path: Path) -> None:
    """If this fails, commitTransaction hangs for as long as a follower does. Its decision stands: once it is committed
    the transaction is ended, and a repeated request is answered so.
    """

    async def work() -> None:
        async with TxnBroker(tmp_path, NO_ABORTS) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            assert set((await broker.add(producer)).values()) == {"NONE"}
            ends_soon(broker)
            held = HeldPartition(broker.txn_runtime())
            assert (await broker.end(producer)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await broker.end(producer)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            held.outcomes[0](None)
            await in_flight(held, 2)
            held.outcomes[1](None)
            answer = await broker.end(producer)
            assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, producer[1] + 1)

    run(work)


def test_partitions_of_a_transaction_are_answered_in_time(tmp_path: Path) -> None:
    """If this fails, a producer hangs in its first send of a transaction, and so does every repetition, for as long as
    a follower of the coordinator does.
    """

    async def work() -> None:
        async with TxnBroker(tmp_path, NO_ABORTS) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            ends_soon(broker)
            held = HeldPartition(broker.txn_runtime())
            assert set((await broker.add(producer)).values()) == {"COORDINATOR_NOT_AVAILABLE"}
            assert set((await broker.add(producer)).values()) == {"CONCURRENT_TRANSACTIONS"}
            assert set((await broker.add(producer, version=4, verify=True)).values()) == {"CONCURRENT_TRANSACTIONS"}
            held.outcomes[0](None)
            assert set((await broker.add(producer)).values()) == {"NONE"}

    run(work)
