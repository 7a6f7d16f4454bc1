"""The running transaction coordinator: markers, restarts, timers, waiting producers, and damage."""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from broker_cy.coordinator.txn.transaction_table import TxnStep
from broker_cy.coordinator_services.coordinator_runtime import LoadState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.coordinator_services.txn_broker import ID, P0, P1, HeldMarkers, TxnBroker

FIXTURE = Path(__file__).parents[2] / "fixtures/kafka-4.3.1/logdir"


def hold(broker: TxnBroker, monkeypatch: pytest.MonkeyPatch) -> HeldMarkers:
    markers = HeldMarkers()
    monkeypatch.setattr(broker.server.broker.txn_markers, "write", markers.write)
    return markers


@pytest.mark.parametrize("commit", [True, False])
def test_decided_transaction_is_ended_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    """If this fails, a crash between decision and markers holds back consumers forever."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            markers = hold(broker, monkeypatch)
            producer = await broker.producer()
            await broker.add(producer, P0, P1)
            assert (await broker.end(producer, commit)).error_code == ErrorCode.NONE
            (call,) = markers.calls
            assert call == (producer[0], producer[1] + 1, 0, commit, [P0, P1], 2)
            assert broker.state() == ("PrepareCommit" if commit else "PrepareAbort")
        async with TxnBroker(tmp_path) as broker:
            await until(lambda: broker.state() == ("CompleteCommit" if commit else "CompleteAbort"))
            assert await broker.producer() == (producer[0], producer[1] + 2)

    run(work)


def test_markers_that_fail_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a disk that is full for a moment leaves a transaction open forever."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            markers = hold(broker, monkeypatch)
            producer = await broker.producer()
            await broker.add(producer)
            await broker.end(producer)
            for count in (2, 3):
                markers.answer(ErrorCode.KAFKA_STORAGE_ERROR)
                await until(lambda count=count: len(markers.calls) == count)  # type: ignore[misc]
            markers.answer()
            await until(lambda: broker.state() == "CompleteCommit")

    run(work)


def test_markers_of_a_fenced_producer_are_given_up_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, the reason why a transactional id is stuck is unknown."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            markers = hold(broker, monkeypatch)
            producer = await broker.producer()
            await broker.add(producer)
            await broker.end(producer)
            caplog.clear()
            markers.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
            await until(lambda: broker.txn_runtime().machine.ending[ID].fenced)
        (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert line.getMessage() == "could not end a transaction in all partitions"
        assert line.fields["reason"] == "INVALID_PRODUCER_EPOCH"  # type: ignore[attr-defined]

    run(work)


def test_deleted_topic_needs_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, deleting a topic leaves its transactions open forever."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            markers = hold(broker, monkeypatch)
            producer = await broker.producer()
            await broker.add(producer)
            await broker.call(messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
            assert (await broker.end(producer)).error_code == ErrorCode.NONE
            await until(lambda: broker.state() == "CompleteCommit")
            assert not markers.calls

    run(work)


def test_batch_waits_for_the_end_of_the_transaction_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each transaction but the first of a fast producer begins with an error and a pause."""

    async def work() -> None:
        async with TxnBroker(tmp_path, {"add.partitions.to.txn.retry.backoff.max.ms": "60000"}) as broker:
            await broker.prepare_txn()
            markers = hold(broker, monkeypatch)
            producer_id, epoch = await broker.producer()
            verify = broker.service.verify
            assert await verify(ID, producer_id, epoch, [P0], add=True) == {P0: ErrorCode.NONE}
            await broker.end((producer_id, epoch))
            waits = verify(ID, producer_id, epoch + 1, [P0, P1], add=True)
            await asyncio.sleep(0)
            assert not waits.done()
            markers.answer()
            assert await waits == {P0: ErrorCode.NONE, P1: ErrorCode.NONE}
            assert await verify(ID, producer_id, epoch + 1, [P1], add=False) == {P1: ErrorCode.NONE}

    run(work)


def test_batch_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a partition that accepts no marker hangs the connections of its producers."""

    async def work() -> None:
        async with TxnBroker(tmp_path, {"add.partitions.to.txn.retry.backoff.max.ms": "30"}) as broker:
            await broker.prepare_txn()
            hold(broker, monkeypatch)
            producer_id, epoch = await broker.producer()
            verify = broker.service.verify
            await verify(ID, producer_id, epoch, [P0], add=True)
            await broker.end((producer_id, epoch))
            busy = await verify(ID, producer_id, epoch + 1, [P0], add=True)
            assert busy == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
            for name, add in (("", True), ("", False)):
                assert await verify(name, 1, 0, [P0], add=add) == {P0: ErrorCode.INVALID_REQUEST}

    run(work)


def test_what_waits_is_answered_at_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that stops leaves requests without a response."""

    async def work() -> None:
        async with TxnBroker(tmp_path, {"add.partitions.to.txn.retry.backoff.max.ms": "60000"}) as broker:
            await broker.prepare_txn()
            hold(broker, monkeypatch)
            producer_id, epoch = await broker.producer()
            await broker.add((producer_id, epoch))
            await broker.end((producer_id, epoch))
            waits = broker.service.verify(ID, producer_id, epoch + 1, [P0], add=True)
        assert await waits == {P0: ErrorCode.NOT_COORDINATOR}

    run(work)


def test_time_ends_transactions_and_ids(tmp_path: Path) -> None:
    """If this fails, dead producers hold back consumers, and their ids fill the memory."""
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "10",
        "transactional.id.expiration.ms": "50",
    }

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            assert await broker.add(producer) == {P0: "NONE"}
            broker.shorten(20)
        async with TxnBroker(tmp_path, settings) as broker:
            runtime = broker.txn_runtime().machine
            await until(
                lambda: ID not in runtime.transactions or runtime.transactions[ID].state.label == "CompleteAbort"
            )
            await until(lambda: ID not in runtime.transactions)
            assert await broker.add(producer) == {P0: "INVALID_PRODUCER_ID_MAPPING"}
        async with TxnBroker(tmp_path, settings) as broker:
            assert ID not in broker.txn_runtime().machine.transactions

    run(work)


def test_epochs_that_run_out_in_a_running_broker(tmp_path: Path) -> None:
    """If this fails, the end of a producer's last epoch fails for lack of a producer id."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10"}

    async def work() -> None:
        async with TxnBroker(tmp_path, settings) as broker:
            await broker.prepare_txn()

            async def at_the_end() -> int:
                producer_id, _ = await broker.producer()
                runtime = broker.txn_runtime()
                step = TxnStep()
                runtime.machine.change(step, replace(runtime.machine.transactions[ID], producer_epoch=32766))
                runtime.accept(step)
                await until(lambda: not runtime.is_writing)
                assert await broker.add((producer_id, 32766)) == {P0: "NONE"}
                return producer_id

            before = await at_the_end()
            ended = await broker.end((before, 32766))
            assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, 0)
            assert ended.producer_id not in (before, -1)
            await until(lambda: broker.state() == "CompleteCommit")
            before = await at_the_end()
            broker.shorten(20)
            await until(lambda: broker.state() == "CompleteAbort")
            found = broker.txn_runtime().machine.transactions[ID]
            assert found.producer_id != before
            assert found.producer_epoch == 0

    run(work)


@pytest.mark.parametrize(
    "damage",
    [
        Record(key=b"\0", value=b""),
        Record(key=b"\0\0\0\1x", value=b"\0"),
        Record(key=b"\0\0\0\1x", value=b"\0\0short"),
        Record(key=b"\0\0\0\1x", value=b"\0\0" + bytes(14) + b"\x09" + b"\xff" * 4 + bytes(16)),
        Record(key=b"\0\0\0\1x", value=b"\0\0" + bytes(14) + b"\x01" + b"\xff" * 4 + bytes(16)),
        Record(key=None, value=b""),
    ],
)
def test_damaged_log_is_refused_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Record) -> None:
    """If this fails, after damage the coordinator returns wrong responses, or the broker does not start."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            await broker.producer()
            runtime = broker.txn_runtime()
            await runtime.partition.append_records(encode_batch([damage]), 1)
            index = runtime.partition.index
        caplog.clear()
        async with TxnBroker(tmp_path) as broker:
            states = {i: runtime.state for i, runtime in broker.service.runtimes.items()}
            assert states == {i: LoadState.FAILED if i == index else LoadState.ACTIVE for i in range(3)}
            assert (await broker.init()).error_code == ErrorCode.NOT_COORDINATOR
            assert await broker.add((0, 0)) == {P0: "NOT_COORDINATOR"}
            assert (await broker.end((0, 0))).error_code == ErrorCode.NOT_COORDINATOR
        (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert line.getMessage() == "could not load the transaction coordinator"
        assert line.fields["partition"] == f"__transaction_state-{index}"  # type: ignore[attr-defined]
        assert "restore" in line.fields["remedy"]  # type: ignore[attr-defined]

    run(work)


def test_damaged_file_is_refused_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a bit that the disk flipped gives a transaction another state, or removes the newer ones."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            for _ in range(3):
                producer = await broker.producer()
                assert await broker.add(producer) == {P0: "NONE"}
                await broker.end(producer)
            index = broker.txn_runtime().partition.index
        path = tmp_path / f"__transaction_state-{index}" / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 0x10
        path.write_bytes(content)
        caplog.clear()
        async with TxnBroker(tmp_path) as broker:
            states = {i: runtime.state for i, runtime in broker.service.runtimes.items()}
            assert states == {i: LoadState.FAILED if i == index else LoadState.ACTIVE for i in range(3)}
            assert (await broker.init()).error_code == ErrorCode.NOT_COORDINATOR
        (line,) = [
            record for record in caplog.records if record.getMessage() == "could not load the transaction coordinator"
        ]
        assert line.fields["partition"] == f"__transaction_state-{index}"  # type: ignore[attr-defined]
        assert "restore" in line.fields["remedy"]  # type: ignore[attr-defined]
        # It stays so: nothing was cut off, and nothing was written after the damage.
        assert path.read_bytes() == content

    run(work)


def test_records_of_a_newer_kafka_are_left_alone(tmp_path: Path) -> None:
    """If this fails, after a downgrade the coordinator does not start, although Kafka's would."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            runtime = broker.txn_runtime()
            newer = [Record(key=b"\0\x09new", value=b"new"), Record(key=b"\0\0\0\1x", value=b"\0\x09new")]
            await runtime.partition.append_records(encode_batch(newer), 1)
        async with TxnBroker(tmp_path) as broker:
            assert await broker.producer() == (producer[0], producer[1] + 1)
            assert broker.txn_runtime().machine.unknown_records == 2

    run(work)


def test_log_of_a_real_kafka_is_served(tmp_path: Path) -> None:
    """If this fails, a data directory that Kafka wrote loses its transactional ids with this broker."""
    shutil.copytree(FIXTURE, tmp_path / "data")

    async def work() -> None:
        async with TxnBroker(tmp_path / "data") as broker:
            assert await broker.states() == {"tx-sample": "CompleteCommit"}
            found = broker.txn_runtime("tx-sample").machine.transactions["tx-sample"]
            assert await broker.producer("tx-sample") == (found.producer_id, found.producer_epoch + 1)

    run(work)
