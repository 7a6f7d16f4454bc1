"""Transactions whose coordinator and partitions are on different brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator.txn.state import ProducerIdAndEpoch, TopicPartition
from broker_cy.coordinator_services.marker_sender import MarkerSender
from broker_cy.coordinator_services.txn_runtime import Results
from broker_cy.coordinator_services.txn_verifier import TxnVerifier
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import NO_LEADER, MetadataImage
from broker_cy.network import broker_calls
from broker_cy.wire import messages
from broker_cy.wire.control import ControlType, control_type
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.coordinator_services.other_brokers import FakeLinks, broker_image, change, partition_image
from tests.broker_cy.coordinator_services.txn_broker import ID, P0, P1, HeldMarkers, TxnBroker

PLACES: list[TopicPartition] = [("t", index) for index in range(5)]


def cluster_image() -> MetadataImage:
    """Broker 1 leads t-0, broker 2 t-1 and t-2, broker 3 t-3; t-4 has no leader."""
    image = MetadataImage()
    leaders = dict(zip(PLACES, (1, 2, 2, 3, NO_LEADER), strict=True))
    change(
        image,
        [broker_image(1), broker_image(2), broker_image(3)],
        {place: partition_image(leader, (1, 2, 3)) for place, leader in leaders.items()},
    )
    return image


async def take_markers(request: messages.WriteTxnMarkersRequest) -> messages.WriteTxnMarkersResponse:
    """A broker that leads everything but t-2."""
    response = messages.WriteTxnMarkersResponse(markers=[])
    for marker in request.markers:
        topics = [
            messages.WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    messages.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if index == 2 else 0
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        response.markers.append(
            messages.WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
        )
    return response


class Sender:
    """A MarkerSender of broker 1 with fake links."""

    def __init__(self) -> None:
        self.image = cluster_image()
        self.local = HeldMarkers()
        self.links = FakeLinks()
        self.links.brokers = {2: take_markers, 3: take_markers}
        self.sender = MarkerSender(
            1,
            asyncio.get_running_loop(),
            lambda: self.image,
            self.local,  # type: ignore[arg-type]
            self.links,
        )

    def write(self, places: Sequence[TopicPartition], producer_id: int = 7) -> asyncio.Future[Results]:
        return self.sender.write(producer_id, 3, 9, True, places, 2)


def test_markers_go_to_the_leader_of_each_partition() -> None:
    """If this fails, a transaction over several brokers is ended on one of them only."""

    async def work() -> None:
        world = Sender()
        written = world.write(PLACES)
        await until(lambda: len(world.links.sent) == 2)
        assert not written.done()
        world.local.answer()
        assert await written == {
            ("t", 0): ErrorCode.NONE,
            ("t", 1): ErrorCode.NONE,
            ("t", 2): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ("t", 3): ErrorCode.NONE,
            ("t", 4): ErrorCode.LEADER_NOT_AVAILABLE,
        }
        assert world.local.calls == [(7, 3, 9, True, [("t", 0)], 2)]
        by_broker = {
            broker: [(topic.name, topic.partition_indexes) for topic in request.markers[0].topics]
            for broker, request in world.links.sent
        }
        assert by_broker == {2: [("t", [1, 2])], 3: [("t", [3])]}
        marker = world.links.sent[0][1].markers[0]
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 9)
        assert (marker.transaction_result, marker.transaction_version) == (True, 2)
        assert await world.write([("t", 4)]) == {("t", 4): ErrorCode.LEADER_NOT_AVAILABLE}
        await world.sender.close()

    run(work)


def test_markers_for_one_broker_share_a_request() -> None:
    """If this fails, a thousand transactions that end together cause a thousand requests, or a later marker of a
    producer is mixed up with an earlier one.
    """

    async def work() -> None:
        world = Sender()
        world.links.hold = asyncio.Event()
        first = world.write([("t", 1)], 1)
        await until(lambda: len(world.links.sent) == 1)
        later = [world.write([("t", 1)], producer_id) for producer_id in (2, 3, 2, 4)]
        world.links.hold.set()
        for written in [first, *later]:
            assert await written == {("t", 1): ErrorCode.NONE}
        sent = [[marker.producer_id for marker in request.markers] for _, request in world.links.sent]
        assert sent == [[1], [2, 3, 4], [2]]
        await world.sender.close()

    run(work)


def test_markers_for_a_broker_that_is_gone_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the end of a transaction waits for a dead broker although its partitions have another leader."""

    async def work() -> None:
        world = Sender()
        world.links.hold = asyncio.Event()
        monkeypatch.setattr(broker_calls, "WAITING_MAX", 2)
        written = [world.write([("t", 1)])]
        await until(lambda: len(world.links.sent) == 1)
        written += [world.write([("t", 1)], producer_id) for producer_id in range(10, 13)]
        # The last one does not fit.
        assert [each.done() for each in written[:3]] == [False] * 3
        assert await written[3] == {("t", 1): ErrorCode.NETWORK_EXCEPTION}
        world.sender.apply(change(world.image, [broker_image(2, fenced=True)], {}), world.image)
        for each in written[:3]:
            assert await each == {("t", 1): ErrorCode.NETWORK_EXCEPTION}
        # Its partitions have another leader by now.
        world.links.hold.set()
        change(world.image, [], {("t", 1): partition_image(3, (1, 2, 3), 2)})
        assert await world.write([("t", 1)]) == {("t", 1): ErrorCode.NONE}
        assert [broker for broker, _ in world.links.sent] == [2, 3]
        del world.links.brokers[3]
        assert await world.write([("t", 1)]) == {("t", 1): ErrorCode.NETWORK_EXCEPTION}
        world.links.hold.clear()
        last = world.write([("t", 3)])
        await world.sender.close()
        assert await last == {("t", 3): ErrorCode.NETWORK_EXCEPTION}

    run(work)


def test_defect_of_an_answer_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, one answer that this broker cannot handle ends no transaction ever again."""

    async def work() -> None:
        world = Sender()

        async def broken(request: Any) -> Any:
            raise ValueError("a defect")

        async def empty(request: Any) -> Any:
            return messages.WriteTxnMarkersResponse(markers=[])

        world.links.brokers[2] = broken
        assert await world.write([("t", 1)]) == {("t", 1): ErrorCode.UNKNOWN_SERVER_ERROR}
        world.links.brokers[2] = empty
        assert await world.write([("t", 1)]) == {("t", 1): ErrorCode.UNKNOWN_SERVER_ERROR}
        world.links.brokers[2] = take_markers
        assert await world.write([("t", 1)]) == {("t", 1): ErrorCode.NONE}

    run(work)


PRODUCER = ProducerIdAndEpoch(7, 3)


def test_verification_by_another_broker() -> None:
    """If this fails, a batch is appended that belongs to no transaction, or a producer gets an error that it cannot
    handle.
    """

    async def work() -> None:
        links = FakeLinks()
        verifier = TxnVerifier(asyncio.get_running_loop(), links)
        codes = {0: ErrorCode.NONE, 1: ErrorCode.TRANSACTION_ABORTABLE}

        async def coordinator(request: messages.AddPartitionsToTxnRequest) -> messages.AddPartitionsToTxnResponse:
            response = messages.AddPartitionsToTxnResponse
            return response(
                results_by_transaction=[
                    response.AddPartitionsToTxnResult(
                        transactional_id=each.transactional_id,
                        topic_results=[
                            response.AddPartitionsToTxnTopicResult(
                                name=topic.name,
                                results_by_partition=[
                                    response.AddPartitionsToTxnPartitionResult(
                                        partition_index=index, partition_error_code=codes[index]
                                    )
                                    for index in topic.partitions
                                ],
                            )
                            for topic in each.topics
                        ],
                    )
                    for each in request.transactions
                ]
            )

        async def too_old(request: Any) -> Any:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

        async def refused(request: Any) -> Any:
            return messages.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        links.brokers[2] = coordinator
        links.hold = asyncio.Event()
        asked = [
            verifier.ask(2, "a", PRODUCER, [P0, P1], add=False),
            verifier.ask(2, "a", PRODUCER, [P0], add=True),
            verifier.ask(2, "b", PRODUCER, [P1], add=False),
        ]
        links.hold.set()
        assert await asked[0] == {P0: ErrorCode.NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}
        assert await asked[1] == {P0: ErrorCode.NONE}
        assert await asked[2] == {P1: ErrorCode.TRANSACTION_ABORTABLE}
        found = [[(each.transactional_id, each.verify_only) for each in one.transactions] for _, one in links.sent]
        assert found == [[("a", True), ("b", True)], [("a", False)]]
        assert await verifier.ask(3, "a", PRODUCER, [P0], add=False) == {P0: ErrorCode.NETWORK_EXCEPTION}
        links.brokers[3] = too_old
        assert await verifier.ask(3, "a", PRODUCER, [P0], add=False) == {P0: ErrorCode.NONE}
        links.brokers[3] = refused
        expected = {P0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        assert await verifier.ask(3, "a", PRODUCER, [P0], add=False) == expected
        await verifier.close()

    run(work)


class Pair:
    """Broker 1 coordinates `ID`, broker 2 leads t-0; both have the topics, and their metadata say so."""

    def __init__(self, first: TxnBroker, second: TxnBroker) -> None:
        self.first, self.second = first, second
        self.links = FakeLinks()
        self.links.brokers[1] = lambda request: first.call(request, 5)
        self.links.brokers[2] = lambda request: second.call(request, 2)
        for broker, other in ((first, 2), (second, 1)):
            server = broker.server
            server._coordinators.marker_sender._calls = server._coordinators.verifier._calls = self.links
            index = server.broker.transactions.partition_for(ID)
            leaders = {("t", 0): partition_image(2), (topic_names.TRANSACTION_STATE, index): partition_image(1)}
            broker.learn([broker_image(other)], leaders)

    async def ready(self) -> None:
        """Wait until the coordinator is loaded in its new epoch."""
        await self.first.service.loaded()


def transactional_batch(producer_id: int, epoch: int) -> bytes:
    return encode_batch(
        [Record(0, 1_000, b"k", b"v", [])],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )


@pytest.mark.parametrize("adds", [True, False])
def test_transaction_of_two_brokers(tmp_path: Path, adds: bool) -> None:
    """If this fails, transactions do not work in a cluster: the broker of the partition does not know them, or does not
    learn of their end.
    """

    async def work() -> None:
        async with TxnBroker(tmp_path / "1") as first, TxnBroker(tmp_path / "2", {"node.id": "2"}) as second:
            await first.prepare_txn()
            await second.prepare_txn()
            pair = Pair(first, second)
            await pair.ready()
            assert (await second.init()).error_code == ErrorCode.NOT_COORDINATOR
            producer_id, epoch = await first.producer()
            partition: Any = second.server.broker.partitions.get("t", 0)
            verification = partition.verify_producer(producer_id, epoch, adds=adds)
            verify = second.service.verify
            if not adds:
                found = await verify(ID, producer_id, epoch, [P0], add=False)
                assert found == {P0: ErrorCode.TRANSACTION_ABORTABLE}
                await first.add((producer_id, epoch))
            assert await verify(ID, producer_id, epoch, [P0], add=adds) == {P0: ErrorCode.NONE}
            await partition.append_transactional(transactional_batch(producer_id, epoch), 1_000, verification)
            assert first.state() == "Ongoing"
            assert partition.last_stable_offset == 0
            # The other broker cannot be reached for a moment.
            second_answers = pair.links.brokers.pop(2)
            assert (await first.end((producer_id, epoch))).error_code == ErrorCode.NONE
            await until(lambda: first.txn_runtime().machine.ending[ID].failures > 1)
            assert first.state() == "PrepareCommit"
            pair.links.brokers[2] = second_answers
            await until(lambda: first.state() == "CompleteCommit")
            assert partition.last_stable_offset == partition.high_watermark == 2
            (marker,) = decode_batches(partition.log.read_slice(1).read())
            assert control_type(marker.records()[0]) is ControlType.COMMIT
            assert marker.producer_epoch == epoch + 1
            # A marker of the coordinator before that arrives late.
            late = await second.server.broker.txn_markers.write(producer_id, epoch + 1, 0, False, [P0], 1)
            assert late == {P0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}

    run(work)


def test_adding_partitions_waits_for_the_transaction_before_on_another_broker(tmp_path: Path) -> None:
    """If this fails, each transaction but the first of a fast producer begins with an error and a pause."""

    async def work() -> None:
        settings = {"node.id": "2", "add.partitions.to.txn.retry.backoff.max.ms": "30000"}
        async with TxnBroker(tmp_path / "1") as first, TxnBroker(tmp_path / "2", settings) as second:
            await first.prepare_txn()
            await second.prepare_txn()
            pair = Pair(first, second)
            await pair.ready()
            producer_id, epoch = await first.producer()
            await first.add((producer_id, epoch))
            answers = pair.links.brokers.pop(2)
            await first.end((producer_id, epoch))
            adding = second.service.verify(ID, producer_id, epoch + 1, [P0], add=True)
            await until(lambda: [broker for broker, _ in pair.links.sent].count(1) > 2)
            assert not adding.done()
            pair.links.brokers[2] = answers
            assert await adding == {P0: ErrorCode.NONE}
            assert first.state() == "Ongoing"

    run(work)
