"""Produce with transactional batches: the requests to the transaction coordinator, and the effects of its responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import pytest

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.silence import FollowerSilence
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import CoreHarness, RawClient, fetch_from, fetch_request, produce_request

PRODUCER = 77
Place = tuple[str, int]
PartitionResponse = messages.ProduceResponse.PartitionProduceResponse


class Verifier:
    """A transaction coordinator that answers with `code`, immediately or when `release` is called."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.holds = False
        self.calls: list[tuple[str, int, int, tuple[Place, ...], bool]] = []
        self.held: list[tuple[asyncio.Future[dict[Place, ErrorCode]], tuple[Place, ...]]] = []

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[Place], *, add: bool
    ) -> asyncio.Future[dict[Place, ErrorCode]]:
        self.calls.append((transactional_id, producer_id, producer_epoch, tuple(partitions), add))
        future: asyncio.Future[dict[Place, ErrorCode]] = asyncio.get_running_loop().create_future()
        if self.holds:
            self.held.append((future, tuple(partitions)))
        else:
            future.set_result(dict.fromkeys(partitions, self.code))
        return future

    def release(self) -> None:
        for future, partitions in self.held:
            future.set_result(dict.fromkeys(partitions, self.code))
        self.held.clear()


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def core(verifier: Verifier) -> Iterator[CoreHarness]:
    harness = CoreHarness(verifier=verifier)
    harness.topic("t", 3)
    yield harness
    harness.close()


def batch(
    sequence: int = 0, *, producer_id: int = PRODUCER, epoch: int = 0, count: int = 1, transactional: bool = True
) -> bytes:
    return encode_batch(
        [Record(i, int(time.time() * 1000), None, b"v", []) for i in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def request(*parts: tuple[int, bytes], transactional_id: str | None = "x", acks: int = -1) -> messages.ProduceRequest:
    data = [messages.ProduceRequest.PartitionProduceData(index=index, records=records) for index, records in parts]
    topics = [messages.ProduceRequest.TopicProduceData(name="t", partition_data=data)]
    return messages.ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics)


def send(client: RawClient, what: messages.ProduceRequest, version: int = 12) -> list[PartitionResponse]:
    answer = client.call(what, ApiKey.PRODUCE, version, messages.ProduceResponse)
    return list(answer.responses[0].partition_responses)


def codes(client: RawClient, what: messages.ProduceRequest, version: int = 12) -> list[ErrorCode]:
    return [ErrorCode(result.error_code) for result in send(client, what, version)]


def end(core: CoreHarness, commit: bool, *, epoch: int = 0, index: int = 0, transaction_version: int = 1) -> None:
    """Write the marker of the producer's transaction."""
    partition = core.table.get("t", index)
    assert partition is not None
    core.on_loop(lambda: partition.append_marker(PRODUCER, epoch, 0, commit, 5, transaction_version))
    core.wait_until(lambda: partition.log.written_end_offset == partition.log.log_end_offset)


@pytest.mark.parametrize(("version", "adds"), [(9, False), (11, False), (12, True)])
def test_the_coordinator_is_asked_once_per_partition_and_transaction(
    core: CoreHarness, verifier: Verifier, version: int, adds: bool
) -> None:
    """If this fails, records get into a transaction that never ends, or each batch is verified."""
    client = core.client()
    assert codes(client, request((0, batch()), (2, batch())), version) == [ErrorCode.NONE] * 2
    assert verifier.calls == [("x", PRODUCER, 0, (("t", 0), ("t", 2)), adds)]
    assert codes(client, request((0, batch(1)), (1, batch())), version) == [ErrorCode.NONE] * 2
    assert verifier.calls[1:] == [("x", PRODUCER, 0, (("t", 1),), adds)]
    end(core, True)
    assert codes(client, request((0, batch(2))), version) == [ErrorCode.NONE]
    assert verifier.calls[2:] == [("x", PRODUCER, 0, (("t", 0),), adds)]


def test_answers_wait_in_order_and_nothing_else_is_handled(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, batches of one producer overtake each other during the coordinator's verification, and are out of
    sequence.
    """
    verifier.holds = True
    client = core.client()
    frames = [
        client.encode(request((0, batch())), ApiKey.PRODUCE, 12),
        client.encode(request((0, batch(1))), ApiKey.PRODUCE, 12),
        client.encode(fetch_request("t", 0, 0), ApiKey.FETCH, 11),
    ]
    client.send(b"".join(frames))
    core.wait_until(lambda: len(verifier.held) == 1)
    other = core.client()
    assert fetch_from(other, "t", 0).high_watermark == 0
    core.on_loop(verifier.release)
    offsets = []
    for number in (1, 2):
        correlation_id, answer = client.receive(ApiKey.PRODUCE, 12, messages.ProduceResponse)
        assert correlation_id == number
        offsets.append(answer.responses[0].partition_responses[0].base_offset)
    assert offsets == [0, 1]
    correlation_id, fetched = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert (correlation_id, fetched.responses[0].partitions[0].high_watermark) == (3, 2)
    assert len(verifier.calls) == 1


def test_a_client_that_leaves_meanwhile_leaves_its_batch(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, the broker fails on a response for which no request waits."""
    verifier.holds = True
    client = core.client()
    client.send(client.encode(request((0, batch())), ApiKey.PRODUCE, 12))
    core.wait_until(lambda: len(verifier.held) == 1)
    client.close()
    core.on_loop(verifier.release)
    core.wait_until(lambda: core.table.get("t", 0).high_watermark == 1)  # type: ignore[union-attr]
    assert codes(core.client(), request((0, batch(1)))) == [ErrorCode.NONE]


UNVERIFIED = "Unable to verify the partition has been added to the transaction. Underlying error: "


@pytest.mark.parametrize(
    ("said", "version", "told", "message"),
    [
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            10,
            ErrorCode.INVALID_TXN_STATE,
            "Partition was not added to the transaction",
        ),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE, None),
        (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE, None),
        (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 9, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING, None),
        (ErrorCode.NOT_COORDINATOR, 9, ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED + "NOT_COORDINATOR"),
        (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            12,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            UNVERIFIED + "COORDINATOR_NOT_AVAILABLE",
        ),
        (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            12,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            UNVERIFIED + "COORDINATOR_LOAD_IN_PROGRESS",
        ),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED + "CONCURRENT_TRANSACTIONS"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS, None),
    ],
)
def test_errors_are_reported_as_clients_of_each_age_know_them(
    core: CoreHarness, verifier: Verifier, said: ErrorCode, version: int, told: ErrorCode, message: str | None
) -> None:
    """If this fails, a producer fails on an error after which it should retry, or retries forever."""
    verifier.code = said
    (result,) = send(core.client(), request((1, batch())), version)
    assert (result.error_code, result.error_message) == (told, message)
    assert (result.base_offset, result.log_start_offset) == (-1, -1)


def test_a_marker_in_between_makes_the_answer_stale(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a batch that was verified before its transaction was aborted opens one that never ends."""
    verifier.holds = True
    client = core.client()
    client.send(client.encode(request((0, batch())), ApiKey.PRODUCE, 11))
    core.wait_until(lambda: len(verifier.held) == 1)
    end(core, False)
    core.on_loop(verifier.release)
    _, answer = client.receive(ApiKey.PRODUCE, 11, messages.ProduceResponse)
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE
    assert refused.error_message == (
        "t-0: no transaction of producer 77 with epoch 0 is open in this partition, "
        "or verified for it by the coordinator"
    )


def test_the_marker_of_the_transaction_before_does_not(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, with epochs that grow at each end, the first batch of the next transaction is refused without a
    reason.
    """
    verifier.holds = True
    client = core.client()
    client.send(client.encode(request((0, batch(epoch=1))), ApiKey.PRODUCE, 12))
    core.wait_until(lambda: len(verifier.held) == 1)
    end(core, True, epoch=1, transaction_version=2)
    core.on_loop(verifier.release)
    _, answer = client.receive(ApiKey.PRODUCE, 12, messages.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_fenced_producer_is_refused_without_a_question(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a zombie's request causes work in the coordinator, and is accepted if verification is off."""
    client = core.client()
    assert codes(client, request((0, batch(epoch=3)))) == [ErrorCode.NONE]
    verifier.calls.clear()
    both = codes(client, request((0, batch(epoch=2)), (1, batch(epoch=2))))
    assert both == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE]
    assert verifier.calls == [("x", PRODUCER, 2, (("t", 1),), True)]


def test_a_batch_outside_of_the_open_transaction(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, records that their producer considers written are part of its transaction, and may be aborted."""
    client = core.client()
    assert codes(client, request((0, batch()))) == [ErrorCode.NONE]
    plain = request((0, batch(1, transactional=False)))
    assert codes(client, plain) == [ErrorCode.INVALID_TXN_STATE]
    assert verifier.calls[1:] == []
    end(core, True)
    assert codes(client, plain) == [ErrorCode.NONE]


def test_whole_requests_that_are_refused(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a part of a request that Kafka refuses as a whole is written."""
    client = core.client()
    nameless = request(
        (0, batch()), (1, batch(producer_id=-1, sequence=-1, epoch=-1, transactional=False)), transactional_id=None
    )
    assert codes(client, nameless) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    two = request((0, batch()), (1, batch(producer_id=5)))
    results = send(client, two)
    assert [result.error_code for result in results] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert results[0].error_message == "Transactional records contained more than one producer ID"
    assert verifier.calls == []
    assert fetch_from(client, "t", 0).high_watermark == 0


def test_a_transactional_id_with_plain_batches_asks_nobody(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, requests that Kafka serves are refused."""
    client = core.client()
    assert codes(client, request((0, batch(transactional=False)))) == [ErrorCode.NONE]
    assert verifier.calls == []


def test_sequences_while_verification_failed(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a later batch is written before an earlier one that must be sent again, which is then never
    accepted.
    """
    client = core.client()
    verifier.code = ErrorCode.NOT_COORDINATOR
    assert codes(client, request((0, batch(3))), 11) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    verifier.code = ErrorCode.NONE
    assert codes(client, request((0, batch(4))), 11) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert codes(client, request((0, batch(3))), 11) == [ErrorCode.NONE]
    assert codes(client, request((0, batch(4))), 11) == [ErrorCode.NONE]
    # If epochs grow with each transaction, an unknown producer begins with 0.
    assert codes(client, request((1, batch(3))), 12) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert codes(client, request((1, batch(0))), 12) == [ErrorCode.NONE]


def assign(core: CoreHarness, leader: int, epoch: int) -> None:
    """Let broker 1, which this one is, or 2 lead partition 0."""
    partition = core.table.get("t", 0)
    assert partition is not None
    image = PartitionImage((1, 2), (leader,), leader, epoch, epoch)
    silence = FollowerSilence(1000, 10_000, {})
    core.on_loop(lambda: partition.assign(image, leader == 1, lambda: InSync(1, {}, 10_000, 1, silence), -1))


def test_what_a_follower_was_sent_does_not_count_when_it_leads(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a producer whose leader fails meets a fatal error at the next one, to which it has sent an earlier
    batch before: that batch was written by the failed leader.
    """
    client = core.client()
    assign(core, 2, 5)
    assert codes(client, request((0, batch(3))), 11) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert verifier.calls == []
    assign(core, 1, 6)
    assert codes(client, request((0, batch(7))), 11) == [ErrorCode.NONE]


def test_a_refused_batch_or_marker_is_explained(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a user sees an error code, but not which epoch or sequence is expected."""
    client = core.client()

    def problem(index: int, records: bytes, version: int = 11) -> str | None:
        return send(client, request((index, records)), version)[0].error_message

    def marker_problem(epoch: int, coordinator_epoch: int, transaction_version: int = 1) -> str:
        partition = core.table.get("t", 0)
        assert partition is not None
        with pytest.raises(KafkaError) as caught:
            core.on_loop(
                lambda: partition.append_marker(PRODUCER, epoch, coordinator_epoch, True, 5, transaction_version)
            )
        return caught.value.message

    assert problem(0, batch(epoch=3)) is None
    sender = "t-0: producer 77 with epoch"
    assert problem(0, batch(5, epoch=3)) == f"{sender} 3 sent sequence 5; 1 is expected"
    assert problem(0, batch(2, epoch=4, transactional=False)) == f"{sender} 4 sent sequence 2; 0 is expected"
    fenced = problem(0, batch(epoch=2, transactional=False))
    assert fenced == f"{sender} 2 was fenced; the producer's current epoch is 3"
    outside = problem(0, batch(1, epoch=3, transactional=False))
    assert outside == f"{sender} 3 sent a batch outside of its transaction, which is open in this partition"
    assert marker_problem(2, 0) == "t-0: the marker for producer 77 has epoch 2; at least 3 is required"
    assert marker_problem(3, 0, 2) == "t-0: the marker for producer 77 has epoch 3; at least 4 is required"
    partition = core.table.get("t", 0)
    assert partition is not None
    core.on_loop(lambda: partition.append_marker(PRODUCER, 3, 7, True, 5, 1))
    older = marker_problem(3, 6)
    assert older == "t-0: the marker for producer 77 is from coordinator epoch 6; epoch 7 has already written one"
    # A batch that waits for its verification again must be first, or sequence 0 for an unknown producer of version 12.
    verifier.code = ErrorCode.NOT_COORDINATOR
    assert codes(client, request((1, batch(3))), 11) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    verifier.code = ErrorCode.NONE
    assert problem(1, batch(4)) == "t-1: producer 77 with epoch 0 sent sequence 4; 3 is expected"
    assert problem(2, batch(3), 12) == "t-2: producer 77 with epoch 0 sent sequence 3; 0 is expected"


def test_verification_may_be_turned_off_for_old_clients(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, transaction.partition.verification.enable=false has no effect, or loses partitions of new
    clients.
    """
    core.on_loop(lambda: setattr(core.core, "verifies", False))
    client = core.client()
    assert codes(client, request((0, batch())), 11) == [ErrorCode.NONE]
    assert verifier.calls == []
    assert codes(client, request((1, batch())), 12) == [ErrorCode.NONE]
    assert verifier.calls == [("x", PRODUCER, 0, (("t", 1),), True)]


def test_without_an_answer_an_error_closes(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, a producer with acks=0 never learns that it was fenced."""
    client = core.client()
    client.send(client.encode(request((0, batch()), acks=0), ApiKey.PRODUCE, 12))
    core.wait_until(lambda: core.table.get("t", 0).high_watermark == 1)  # type: ignore[union-attr]
    verifier.code = ErrorCode.PRODUCER_FENCED
    client.send(client.encode(request((1, batch()), acks=0), ApiKey.PRODUCE, 12))
    assert client.is_closed()


def test_a_committed_reader_waits_for_the_end_of_the_transaction(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, it reads records that are aborted later, polls without pause while a transaction is open, or wakes
    up late at its end.
    """
    writer, reader = core.client(), core.client()
    reader.send(reader.encode(committed_fetch(), ApiKey.FETCH, 11))
    core.wait_until(lambda: core.core.pending_answers == 1)
    for sequence in range(3):
        assert codes(writer, request((0, batch(sequence)))) == [ErrorCode.NONE]
    # It still waits: only the writer got a response.
    assert core.on_loop(lambda: core.core.pending_answers) == 1
    end(core, False)
    _, answer = reader.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    (found,) = answer.responses[0].partitions
    assert (found.last_stable_offset, found.high_watermark) == (4, 4)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [(PRODUCER, 0)]


def test_a_committed_reader_of_plain_records_counts_bytes(core: CoreHarness) -> None:
    """If this fails, a consumer that requests large responses is woken for every record."""
    writer, reader = core.client(), core.client()
    first = batch(producer_id=-1, sequence=-1, epoch=-1, transactional=False)
    reader.send(reader.encode(committed_fetch(min_bytes=2 * len(first)), ApiKey.FETCH, 11))
    core.wait_until(lambda: core.core.pending_answers == 1)
    for _ in range(2):
        writer.call(produce_request("t", 0, first), ApiKey.PRODUCE, 9, messages.ProduceResponse)
    _, answer = reader.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert len(answer.responses[0].partitions[0].records) == 2 * len(first)


def test_a_committed_reader_waits_on_after_too_little(core: CoreHarness, verifier: Verifier) -> None:
    """If this fails, the end of one small transaction answers a consumer that requested more bytes."""
    writer, reader = core.client(), core.client()
    reader.send(reader.encode(committed_fetch(min_bytes=250), ApiKey.FETCH, 11))
    core.wait_until(lambda: core.core.pending_answers == 1)
    for number in range(2):
        assert codes(writer, request((0, batch(number)))) == [ErrorCode.NONE]
        assert core.on_loop(lambda: core.core.pending_answers) == 1
        end(core, True)
    _, answer = reader.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert answer.responses[0].partitions[0].last_stable_offset == 4


def committed_fetch(min_bytes: int = 1) -> messages.FetchRequest:
    return fetch_request("t", 0, 0, isolation_level=1, max_wait_ms=20_000, min_bytes=min_bytes)
