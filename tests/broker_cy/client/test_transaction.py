"""A producer without a broker, as rows: state, request and its answer, verdict, state after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_cy.client.transaction import (
    END_TXN_V2,
    NO_PRODUCER,
    PREDECESSORS,
    PRODUCE_BY_NAME,
    PRODUCE_V1,
    PRODUCE_V2,
    SEQUENCE_MASK,
    TXN_OFFSET_COMMIT_V2,
    V1,
    V2,
    GroupMetadata,
    ProducerCore,
    Request,
    State,
    WrongState,
    client_version,
)
from broker_cy.client.transaction_errors import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END,
    INIT,
    OFFSETS,
    PRODUCE,
    Verdict,
    code_of,
    verdict_on,
)
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m

E, S, V = ErrorCode, State, Verdict
P0, P1 = ("t", 0), ("t", 1)
GROUP = GroupMetadata("g", 3, "member", "i-1")


def answer_of(api: str, code: int = 0, identity: tuple[int, int] = (7, 0)) -> Any:
    if api == INIT:
        return m.InitProducerIdResponse(error_code=code, producer_id=identity[0], producer_epoch=identity[1])
    if api == END:
        return m.EndTxnResponse(error_code=code, producer_id=identity[0], producer_epoch=identity[1])
    if api == ADD_OFFSETS:
        return m.AddOffsetsToTxnResponse(error_code=code)
    if api == PRODUCE:
        part = m.ProduceResponse.PartitionProduceResponse(index=0, error_code=code)
        return m.ProduceResponse(responses=[m.ProduceResponse.TopicProduceResponse(partition_responses=[part])])
    if api == OFFSETS:
        offset = m.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name="t", partitions=[offset])
        return m.TxnOffsetCommitResponse(topics=[topic])
    result = m.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
    of_topic = m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
        name="t", results_by_partition=[result(partition_index=0, partition_error_code=code)]
    )
    return m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[of_topic])


def ready(transactional_id: str | None = "x") -> ProducerCore:
    core = ProducerCore(transactional_id)
    assert core.take(core.initialize(), answer_of(INIT)) is V.DONE
    return core


def begun(version: int = V1) -> ProducerCore:
    core = ready()
    core.begin(version)
    return core


def added(core: ProducerCore) -> ProducerCore:
    """The partitions 0 and 1, and the group, are parts of the transaction."""
    for request in (core.add_partitions([P0, P1]), core.add_offsets("g")):
        assert request is not None
        assert core.take(request, answer_of(request.api)) is V.DONE
    return core


def batch(core: ProducerCore, records: int = 1) -> Request:
    return core.produce(core.batch(P0), records, b"data", 1_000)


def stored(core: ProducerCore, records: int = 1) -> None:
    assert core.take(batch(core, records), answer_of(PRODUCE)) is V.DONE


def ending(core: ProducerCore, *, commit: bool) -> Request:
    request = core.end(commit=commit)
    assert request is not None
    return request


# request, error, verdict, state of a transactional producer after it
ERRORS = [
    (INIT, E.COORDINATOR_LOAD_IN_PROGRESS, V.RETRY, S.INITIALIZING),
    (INIT, E.NOT_COORDINATOR, V.FIND, S.INITIALIZING),
    (INIT, E.CONCURRENT_TRANSACTIONS, V.RETRY_SOON, S.INITIALIZING),
    (INIT, E.INVALID_PRODUCER_EPOCH, V.FATAL, S.FATAL_ERROR),
    (INIT, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, V.FATAL, S.FATAL_ERROR),
    (INIT, E.INVALID_TRANSACTION_TIMEOUT, V.FATAL, S.FATAL_ERROR),
    (ADD_PARTITIONS, E.CONCURRENT_TRANSACTIONS, V.RETRY_SOON, S.IN_TRANSACTION),
    (ADD_PARTITIONS, E.COORDINATOR_NOT_AVAILABLE, V.FIND, S.IN_TRANSACTION),
    (ADD_PARTITIONS, E.UNKNOWN_TOPIC_OR_PARTITION, V.RETRY, S.IN_TRANSACTION),
    (ADD_PARTITIONS, E.TOPIC_AUTHORIZATION_FAILED, V.ABORTABLE, S.ABORTABLE_ERROR),
    (ADD_PARTITIONS, E.PRODUCER_FENCED, V.FATAL, S.FATAL_ERROR),
    (ADD_PARTITIONS, E.INVALID_TXN_STATE, V.FATAL, S.FATAL_ERROR),
    (ADD_OFFSETS, E.GROUP_AUTHORIZATION_FAILED, V.ABORTABLE, S.ABORTABLE_ERROR),
    (OFFSETS, E.NOT_COORDINATOR, V.FIND, S.IN_TRANSACTION),
    (OFFSETS, E.ILLEGAL_GENERATION, V.ABORTABLE, S.ABORTABLE_ERROR),
    (OFFSETS, E.UNKNOWN_MEMBER_ID, V.ABORTABLE, S.ABORTABLE_ERROR),
    (OFFSETS, E.FENCED_INSTANCE_ID, V.ABORTABLE, S.ABORTABLE_ERROR),
    (OFFSETS, E.INVALID_PRODUCER_EPOCH, V.FATAL, S.FATAL_ERROR),
    (PRODUCE, E.NOT_LEADER_OR_FOLLOWER, V.FIND, S.IN_TRANSACTION),
    (PRODUCE, E.NOT_ENOUGH_REPLICAS, V.RETRY, S.IN_TRANSACTION),
    (PRODUCE, E.CONCURRENT_TRANSACTIONS, V.RETRY_SOON, S.IN_TRANSACTION),
    (PRODUCE, E.DUPLICATE_SEQUENCE_NUMBER, V.DONE, S.IN_TRANSACTION),
    (PRODUCE, E.OUT_OF_ORDER_SEQUENCE_NUMBER, V.ABORTABLE, S.ABORTABLE_ERROR),
    (PRODUCE, E.INVALID_PRODUCER_EPOCH, V.ABORTABLE, S.ABORTABLE_ERROR),
    (PRODUCE, E.INVALID_TXN_STATE, V.ABORTABLE, S.ABORTABLE_ERROR),
    (PRODUCE, E.TRANSACTION_ABORTABLE, V.ABORTABLE, S.ABORTABLE_ERROR),
    (PRODUCE, E.MESSAGE_TOO_LARGE, V.ABORTABLE, S.ABORTABLE_ERROR),
    (PRODUCE, E.PRODUCER_FENCED, V.FATAL, S.FATAL_ERROR),
    (END, E.CONCURRENT_TRANSACTIONS, V.RETRY_SOON, S.COMMITTING),
    (END, E.NOT_COORDINATOR, V.FIND, S.COMMITTING),
    (END, E.TRANSACTION_ABORTABLE, V.ABORTABLE, S.ABORTABLE_ERROR),
    (END, E.INVALID_PRODUCER_EPOCH, V.FATAL, S.FATAL_ERROR),
    (END, E.INVALID_PRODUCER_ID_MAPPING, V.FATAL, S.FATAL_ERROR),
    (END, E.UNKNOWN_SERVER_ERROR, V.FATAL, S.FATAL_ERROR),
]


def asked(api: str) -> tuple[ProducerCore, Request]:
    """A producer that waits for the answer to a request."""
    if api == INIT:
        core = ProducerCore("x")
        return core, core.initialize()
    core = begun()
    if api in (ADD_PARTITIONS, ADD_OFFSETS):
        request = core.add_partitions([P0]) if api == ADD_PARTITIONS else core.add_offsets("g")
        assert request is not None
        return core, request
    added(core)
    if api == OFFSETS:
        return core, core.commit_offsets(GROUP, {P0: 5})
    return core, batch(core) if api == PRODUCE else ending(core, commit=True)


@pytest.mark.parametrize(("api", "code", "verdict", "after"), ERRORS)
def test_an_error_has_its_verdict(api: str, code: ErrorCode, verdict: Verdict, after: State) -> None:
    """If this fails, a producer gives up after a passing error, or commits a transaction that lacks a batch."""
    core, request = asked(api)
    assert core.take(request, answer_of(api, code)) is verdict
    assert core.state is after
    assert core.error == (code if after in (S.ABORTABLE_ERROR, S.FATAL_ERROR) else E.NONE)


def test_every_error_of_an_api_has_a_verdict() -> None:
    """If this fails, an error that only a newer broker sends ends the program that hosts the producer."""
    for api in (INIT, ADD_PARTITIONS, ADD_OFFSETS, OFFSETS, PRODUCE, END):
        for code in (*ErrorCode, 9_999):
            assert verdict_on(api, code) in Verdict
        assert verdict_on(api, 0) is V.DONE


STEPS: dict[str, Callable[[ProducerCore], object]] = {
    "initialize": lambda core: core.initialize(),
    "begin": lambda core: core.begin(),
    "add": lambda core: core.add_partitions([P0]),
    "batch": lambda core: core.batch(P0),
    "commit": lambda core: core.end(commit=True),
    "abort": lambda core: core.end(commit=False),
}
ALLOWED = {
    S.UNINITIALIZED: {"initialize"},
    S.INITIALIZING: {"initialize"},
    S.READY: {"begin"},
    S.IN_TRANSACTION: {"add", "batch", "commit", "abort"},
    S.COMMITTING: {"commit"},
    S.ABORTING: {"abort"},
    S.ABORTABLE_ERROR: {"abort"},
    S.FATAL_ERROR: set[str](),
}


@pytest.mark.parametrize("state", list(State))
def test_a_step_that_a_state_does_not_allow_is_refused(state: State) -> None:
    """If this fails, a producer commits after an error, or sends batches outside of a transaction."""
    for name, step in STEPS.items():
        core = added(begun())
        core.state = state
        if name in ALLOWED[state]:
            step(core)
        else:
            with pytest.raises(WrongState, match=f"{state.name}"):
                step(core)


def test_every_state_has_predecessors() -> None:
    """If this fails, a state cannot be reached, or a fatal error can be left without a restart."""
    assert PREDECESSORS.keys() == set(State)
    assert [state for state, before in PREDECESSORS.items() if S.FATAL_ERROR in before] == [
        S.UNINITIALIZED, S.FATAL_ERROR,
    ]  # fmt: skip


def test_a_transaction_of_version_1() -> None:
    """If this fails, brokers before 4.0 refuse batches, because their partitions are not in the transaction."""
    core = begun()
    with pytest.raises(WrongState, match="partition t-0 is not a part of the transaction yet"):
        core.batch(P0)
    with pytest.raises(WrongState, match="group g is not a part of the transaction yet"):
        core.commit_offsets(GROUP, {P0: 5})
    added(core)
    assert core.add_partitions([P0, P1]) is None
    assert core.add_offsets("g") is None
    request = batch(core, 3)
    assert (request.at_least, request.at_most, request.to.partition) == (0, PRODUCE_V1, P0)
    core.take(request, answer_of(PRODUCE))
    assert core.batch(P0).base_sequence == 3
    offsets = core.commit_offsets(GROUP, {P0: 5, P1: 6})
    assert (offsets.to.group_id, offsets.message.generation_id, offsets.message.member_id) == ("g", 3, "member")
    core.take(offsets, answer_of(OFFSETS))
    core.take(ending(core, commit=True), answer_of(END))
    # The next transaction has the same epoch, and its sequences go on.
    assert (core.state, core.identity) == (S.READY, (7, 0))
    core.begin()
    assert core.add_partitions([P0]) is not None


def test_a_transaction_of_version_2() -> None:
    """If this fails, a late batch of a transaction joins the next one (KIP-890)."""
    core = begun(V2)
    assert core.add_partitions([P0]) is None
    assert core.add_offsets("g") is None
    request = batch(core)
    assert (request.at_least, request.at_most) == (PRODUCE_V2, PRODUCE_BY_NAME)
    assert request.message.transactional_id == "x"
    core.take(request, answer_of(PRODUCE))
    assert core.commit_offsets(GROUP, {P0: 5}).at_least == TXN_OFFSET_COMMIT_V2
    end = ending(core, commit=True)
    assert end.at_least == END_TXN_V2
    # Its answer was lost: the same request again.
    core.gave_up(end)
    assert ending(core, commit=True).message == end.message
    core.take(end, answer_of(END, identity=(7, 1)))
    assert (core.state, core.identity) == (S.READY, (7, 1))
    core.begin(V2)
    assert (core.batch(P0).producer_epoch, core.batch(P0).base_sequence) == (1, 0)
    # The late answer of the first transaction changes nothing.
    assert core.take(request, answer_of(PRODUCE, E.INVALID_PRODUCER_EPOCH)) is V.ABORTABLE
    assert core.state is S.IN_TRANSACTION


def test_a_transaction_without_requests_ends_without_one() -> None:
    """If this fails, the coordinator refuses the end of a transaction that it does not know."""
    for version in (V1, V2):
        for commit in (True, False):
            core = begun(version)
            assert core.end(commit=commit) is None
            assert core.state is S.READY


def test_after_a_lost_batch_the_sequences_begin_again() -> None:
    """If this fails, the transaction after an aborted one fails with OUT_OF_ORDER_SEQUENCE_NUMBER."""
    core = added(begun())
    stored(core, 4)
    core.lost(core.batch(P0))
    assert core.state is S.ABORTABLE_ERROR
    with pytest.raises(WrongState):
        core.end(commit=True)
    core.take(ending(core, commit=False), answer_of(END))
    # Version 1: the epoch is raised by InitProducerId (KIP-360).
    request = core.initialize()
    assert (request.message.producer_id, request.message.producer_epoch) == (7, 0)
    core.take(request, answer_of(INIT, identity=(7, 1)))
    assert added_again(core).base_sequence == 0
    # Version 2: EndTxn raises it.
    core = begun(V2)
    core.lost(batch(core).batch or core.batch(P0))
    core.take(ending(core, commit=False), answer_of(END, identity=(7, 1)))
    assert (core.state, core.identity) == (S.READY, (7, 1))


def added_again(core: ProducerCore) -> Any:
    core.begin()
    added(core)
    return core.batch(P0)


def test_an_idempotent_producer() -> None:
    """If this fails, a batch is stored twice, or refused, after another one was lost."""
    core = ProducerCore()
    with pytest.raises(WrongState, match="has no producer id"):
        core.batch(P0)
    request = core.initialize()
    assert request.message.transactional_id is None
    core.take(request, answer_of(INIT))
    with pytest.raises(WrongState, match="no transactions"):
        core.begin()
    first = batch(core, 2)
    assert (first.message.transactional_id, first.at_most) == (None, PRODUCE_BY_NAME)
    core.take(first, answer_of(PRODUCE))
    other = core.batch(P1)
    assert (core.batch(P0).base_sequence, other.base_sequence) == (2, 0)
    core.lost(core.batch(P0))
    assert (core.state, core.identity) == (S.UNINITIALIZED, NO_PRODUCER)
    core.take(core.initialize(), answer_of(INIT, identity=(8, 0)))
    # A batch of the former producer id that is still in flight changes nothing.
    core.take(core.produce(other, 5, b"data", 1_000), answer_of(PRODUCE))
    assert core.batch(P1) == (P1, 8, 0, 0, False)


def test_sequences_begin_again_after_the_largest() -> None:
    """If this fails, a producer of two billion records ends with an error."""
    core = ready(None)
    core._sequences[P0] = SEQUENCE_MASK
    stored(core, 2)
    assert core.batch(P0).base_sequence == 1


def test_a_restart_begins_as_a_new_process() -> None:
    """If this fails, a fenced producer cannot be replaced by its own program."""
    core = added(begun())
    core.take(batch(core), answer_of(PRODUCE, E.PRODUCER_FENCED))
    assert str(core) == "producer 7, epoch 0, FATAL_ERROR: PRODUCER_FENCED"
    core.restart()
    assert core.initialize().message.producer_id == -1
    assert str(core) == "producer -1, epoch -1, INITIALIZING"


def test_the_first_real_error_of_an_answer_counts() -> None:
    """If this fails, OPERATION_NOT_ATTEMPTED hides why partitions were not added."""
    result = m.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
    codes = [E.OPERATION_NOT_ATTEMPTED, E.TOPIC_AUTHORIZATION_FAILED]
    topic = m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
        results_by_partition=[result(partition_error_code=code) for code in codes]
    )
    answer = m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    assert code_of(ADD_PARTITIONS, answer) == E.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("level", "version"), [(None, V1), (0, V1), (1, V1), (2, V2), (3, V2)])
def test_the_finalized_version_decides(level: int | None, version: int) -> None:
    """If this fails, producers send requests that the cluster does not accept yet, or not any more."""
    feature = m.ApiVersionsResponse.FinalizedFeatureKey
    found = [feature(name="metadata.version", max_version_level=30)]
    if level is not None:
        found.append(feature(name="transaction.version", max_version_level=level))
    assert client_version(found) == version
