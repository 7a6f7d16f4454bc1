"""The transaction APIs in each version, as a client decodes them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared import listing
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.coordinator_services.txn_broker import ID, P0, P1, TxnBroker


def code(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


@pytest.mark.parametrize("version", range(1, 7))
def test_coordinator_is_found(tmp_path: Path, version: int) -> None:
    """If this fails, no transactional producer starts, or the coordinator's topic differs from Kafka's."""

    async def work() -> None:
        async with TxnBroker(tmp_path, {"transaction.state.log.segment.bytes": "1048576"}) as broker:
            request = messages.FindCoordinatorRequest(key="k", key_type=1)
            if version >= 4:
                request.key, request.coordinator_keys = "", ["k", "other"]
            response = await broker.call(request, version)
            for found in response.coordinators if version >= 4 else [response]:
                assert (code(found), found.node_id) == ("NONE", 1)
                assert found.port > 0 or found.host
            image = broker.server.broker.image
            topic = image.topics.by_name("__transaction_state")
            assert topic is not None
            assert len(topic.partitions) == 3
            assert image.configs.topic("__transaction_state")["segment.bytes"] == "1048576"

    run(work)


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(tmp_path: Path, version: int) -> None:
    """If this fails, a producer of some age gets no id, or does not understand that it is fenced."""
    fenced = "PRODUCER_FENCED" if version >= 4 else "INVALID_PRODUCER_EPOCH"

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            assert code(await broker.init(version)) == "NOT_COORDINATOR"
            await broker.prepare_txn()
            for timeout_ms in (0, -1, 900_001):
                answer = await broker.init(version, timeout_ms=timeout_ms)
                assert (code(answer), answer.producer_id, answer.producer_epoch) == (
                    "INVALID_TRANSACTION_TIMEOUT",
                    -1,
                    -1,
                )
            assert code(await broker.init(version, "")) == "INVALID_REQUEST"
            first = await broker.init(version)
            second = await broker.init(version)
            assert [code(first), code(second)] == ["NONE", "NONE"]
            assert (first.producer_epoch, second.producer_epoch) == (0, 1)
            assert first.producer_id == second.producer_id
            other = await broker.init(version, "another")
            assert other.producer_id not in (first.producer_id, -1)
            if version >= 3:
                producer_id = first.producer_id
                again = await broker.init(version, expected=(producer_id, 1))
                assert (code(again), again.producer_epoch) == ("NONE", 2)
                assert code(await broker.init(version, expected=(producer_id, 0))) == fenced
                assert code(await broker.init(version, expected=(producer_id + 100, 2))) == fenced
                assert code(await broker.init(version, expected=(producer_id, -1))) == "INVALID_REQUEST"
                assert code(await broker.init(version, expected=(-1, 0))) == "INVALID_REQUEST"

    run(work)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_life_of_a_transaction(tmp_path: Path, version: int, commit: bool) -> None:
    """If this fails, producers of some age cannot add partitions or end a transaction; retries fail, zombies are
    accepted.
    """
    add_version = min(version, 3)
    fenced = "PRODUCER_FENCED" if version >= 2 else "INVALID_PRODUCER_EPOCH"
    done = "CompleteCommit" if commit else "CompleteAbort"

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = producer_id, epoch = await broker.producer()
            assert await broker.add(producer, P0, P1, version=add_version) == {P0: "NONE", P1: "NONE"}
            assert broker.state() == "Ongoing"
            stale = (producer_id, epoch - 1)
            fenced_add = "PRODUCER_FENCED" if add_version >= 2 else "INVALID_PRODUCER_EPOCH"
            assert await broker.add(stale, P0, version=add_version) == {P0: fenced_add}
            unknown = "INVALID_PRODUCER_ID_MAPPING"
            assert await broker.add((producer_id + 1, epoch), P0, version=add_version) == {P0: unknown}
            assert code(await broker.end(stale, commit, version)) == fenced
            assert code(await broker.end((producer_id + 1, epoch), commit, version)) == unknown
            assert code(await broker.end(producer, commit, version, "")) == "INVALID_REQUEST"
            ended = await broker.end(producer, commit, version)
            assert code(ended) == "NONE"
            await until(lambda: broker.state() == done and not broker.txn_runtime().is_writing)
            again = await broker.end(producer, commit, version)
            assert code(again) == "NONE"
            other = "INVALID_TXN_STATE" if commit or version < 5 else "PRODUCER_FENCED"
            assert code(await broker.end(producer, not commit, version)) == other
            if version >= 5:
                bumped = (producer_id, epoch + 1)
                assert (ended.producer_id, ended.producer_epoch) == bumped
                assert (again.producer_id, again.producer_epoch) == bumped
                producer = bumped
            assert await broker.add(producer, P1, version=add_version) == {P1: "NONE"}

    run(work)


@pytest.mark.parametrize("version", range(6))
def test_partitions_that_do_not_exist(tmp_path: Path, version: int) -> None:
    """If this fails, a transaction has a partition that never accepts a marker."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            assert await broker.add(producer, P0, ("t", 2), ("nobody", 0), version=version) == {
                P0: "OPERATION_NOT_ATTEMPTED",
                ("t", 2): "UNKNOWN_TOPIC_OR_PARTITION",
                ("nobody", 0): "UNKNOWN_TOPIC_OR_PARTITION",
            }
            assert broker.state() == "Empty"

    run(work)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_for_several_transactions(tmp_path: Path, version: int) -> None:
    """If this fails, (KIP-890) partitions on other brokers cannot verify transactional batches."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            absent = {P0: "TRANSACTION_ABORTABLE"}
            assert await broker.add(producer, P0, version=version, verify=True) == absent
            assert await broker.add(producer, P0, version=version) == {P0: "NONE"}
            assert await broker.add(producer, P0, P1, version=version, verify=True) == {
                P0: "NONE",
                P1: "TRANSACTION_ABORTABLE",
            }
            stale = (producer[0], producer[1] - 1)
            assert await broker.add(stale, P0, version=version, verify=True) == {P0: "PRODUCER_FENCED"}
            one = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
            topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])
            request = messages.AddPartitionsToTxnRequest(
                transactions=[
                    one(transactional_id="", producer_id=1, producer_epoch=0, topics=[topic]),
                    one(transactional_id="", producer_id=1, producer_epoch=0, verify_only=True, topics=[topic]),
                    one(transactional_id="nobody", producer_id=1, producer_epoch=0, topics=[topic]),
                ]
            )
            answer = await broker.call(request, version)
            codes = [
                ErrorCode(result.topic_results[0].results_by_partition[0].partition_error_code).name
                for result in answer.results_by_transaction
            ]
            assert codes == ["INVALID_REQUEST", "INVALID_REQUEST", "INVALID_PRODUCER_ID_MAPPING"]

    run(work)


@pytest.mark.parametrize("version", range(5))
def test_add_offsets(tmp_path: Path, version: int) -> None:
    """If this fails, consume-transform-produce does not commit its offsets with its records."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer_id, epoch = await broker.producer()

            async def add(epoch: int) -> str:
                request = messages.AddOffsetsToTxnRequest(
                    transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, group_id="g"
                )
                return code(await broker.call(request, version))

            assert await add(epoch) == "NONE"
            partition = broker.server.broker.groups.partition_for("g")
            assert broker.txn_runtime().machine.transactions[ID].partitions == {("__consumer_offsets", partition)}
            assert await add(epoch - 1) == ("PRODUCER_FENCED" if version >= 2 else "INVALID_PRODUCER_EPOCH")

    run(work)


@pytest.mark.parametrize("version", range(3))
def test_list_transactions(tmp_path: Path, version: int) -> None:
    """If this fails, hanging transactions cannot be found."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            await broker.producer("other")
            await broker.add(producer, P0)
            assert await broker.states(version) == {ID: "Ongoing", "other": "Empty"}
            assert await broker.states(version, state_filters=["Ongoing"]) == {ID: "Ongoing"}
            assert await broker.states(version, state_filters=["PrepareCommit"]) == {}
            assert await broker.states(version, producer_id_filters=[producer[0], 99]) == {ID: "Ongoing"}
            request = messages.ListTransactionsRequest(state_filters=["Odd", "Empty", "odder"])
            answer = await broker.call(request, version)
            assert answer.unknown_state_filters == ["Odd", "odder"]
            assert [found.transactional_id for found in answer.transaction_states] == ["other"]
            if version >= 1:
                # One that never started counts as old.
                assert await broker.states(version, duration_filter=3_600_000) == {"other": "Empty"}
                assert await broker.states(version, duration_filter=-1) == {ID: "Ongoing", "other": "Empty"}
            if version >= 2:
                assert await broker.states(version, transactional_id_pattern="pay.*") == {ID: "Ongoing"}
                assert await broker.states(version, transactional_id_pattern="pay") == {}
                assert len(await broker.states(version, transactional_id_pattern="")) == 2
                request = messages.ListTransactionsRequest(transactional_id_pattern="(")
                assert code(await broker.call(request, version)) == "INVALID_REGULAR_EXPRESSION"

    run(work)


@pytest.mark.parametrize("per_turn", [2, 3, 5])
def test_transactions_are_listed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_turn: int) -> None:
    """If this fails, all requests wait for half a second while 100,000 transactional ids are compared with a pattern;
    or ids are missing in a long list.
    """
    monkeypatch.setattr(listing, "LISTED_PER_TURN", per_turn)

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            ids = [f"id-{number}" for number in range(5)]
            for each in ids:
                await broker.producer(each)
            listed = asyncio.ensure_future(broker.states())
            turns = 0
            while not listed.done():
                await asyncio.sleep(0)
                turns += 1
            assert sorted(await listed) == ids
            assert (turns > 2) == (per_turn < 5)
            assert sorted(await broker.states(transactional_id_pattern="id-[24]")) == ["id-2", "id-4"]

    run(work)


def test_describe_transactions(tmp_path: Path) -> None:
    """If this fails, an admin does not see which partitions a transaction holds back."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer = await broker.producer()
            await broker.add(producer, P0, P1)
            request = messages.DescribeTransactionsRequest(transactional_ids=[ID, "nobody", ""])
            found, nobody, empty = (await broker.call(request, 0)).transaction_states
            assert (code(nobody), nobody.transactional_id) == ("TRANSACTIONAL_ID_NOT_FOUND", "nobody")
            assert code(empty) == "INVALID_REQUEST"
            assert (code(found), found.transaction_state, found.transaction_timeout_ms) == ("NONE", "Ongoing", 60_000)
            assert (found.producer_id, found.producer_epoch) == producer
            assert found.transaction_start_time_ms > 0
            assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", [0, 1])]

    run(work)
