"""The transaction coordinator by operation and state. The tables are Kafka 4.3's.

One long file, so that each operation's answers in all states stand beside those of the others.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import pairwise

import pytest

from broker_cy.coordinator.txn import admin, expiry
from broker_cy.coordinator.txn.end import Ended
from broker_cy.coordinator.txn.init import Initialized
from broker_cy.coordinator.txn.state import EPOCH_MAX, TxnState
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX
from tests.broker_cy.coordinator.txn_harness import ID, P0, P1, TIMEOUT_MS, TxnHarness

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
BAD_STATE = ErrorCode.INVALID_TXN_STATE
STATES = (
    TxnState.EMPTY,
    TxnState.ONGOING,
    TxnState.PREPARE_COMMIT,
    TxnState.PREPARE_ABORT,
    TxnState.COMPLETE_COMMIT,
    TxnState.COMPLETE_ABORT,
)


def in_state(state: TxnState, version: int = 2, epoch: int = 5) -> tuple[TxnHarness, tuple[int, int]]:
    """Return a coordinator whose only transaction is in that state, and the producer of that transaction."""
    harness = TxnHarness(version)
    harness.hold_markers = True
    harness.producer()
    harness.force(replace(harness.state(), producer_epoch=epoch))
    producer = (harness.state().producer_id, epoch)
    if state is TxnState.EMPTY:
        return harness, producer
    assert harness.add(producer, P0, P1, version=version) is NONE
    if state is not TxnState.ONGOING:
        commit = state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)
        assert harness.end(producer, commit, version=version).code is NONE
        if state.is_complete:
            harness.write_markers()
    assert harness.state().state is state
    return harness, (harness.state().producer_id, harness.state().producer_epoch)


# ---- InitProducerId ----


def test_new_id_gets_a_producer_id_and_epoch_0() -> None:
    """If this fails, no transactional producer starts."""
    harness = TxnHarness()
    assert harness.init() == Initialized(NONE, 1000, 0)
    found = harness.state()
    assert (found.state, found.timeout_ms, found.start_ms) == (TxnState.EMPTY, TIMEOUT_MS, -1)
    assert len(harness.log) == 1


def test_second_producer_gets_the_next_epoch_and_fences_the_first() -> None:
    """If this fails, two producers of one transactional id write at the same time (zombies)."""
    harness = TxnHarness()
    first = harness.producer()
    second = harness.producer()
    assert second == (first[0], first[1] + 1)
    assert harness.add(first) is FENCED
    assert harness.end(first).code is FENCED
    assert harness.add(second) is NONE


@pytest.mark.parametrize("state", STATES)
def test_init_by_state(state: TxnState) -> None:
    """If this fails, a producer that restarts can begin before its last transaction is ended."""
    harness, (producer_id, epoch) = in_state(state)
    answer = harness.init()
    if state is TxnState.ONGOING:
        assert answer.code is BUSY
        assert harness.state().state is TxnState.PREPARE_ABORT
        assert harness.state().producer_epoch == epoch + 1
        assert harness.init().code is BUSY
        harness.write_markers()
        assert harness.init() == Initialized(NONE, producer_id, epoch + 2)
    elif state.is_prepared:
        assert answer.code is BUSY
    else:
        assert answer == Initialized(NONE, producer_id, epoch + 1)


def test_fencing_with_the_old_protocol_bumps_once_before_the_abort() -> None:
    """If this fails, with transaction.version 0 the old producer's next write is accepted after the marker."""
    harness, (producer_id, epoch) = in_state(TxnState.ONGOING, version=0)
    assert harness.init().code is BUSY
    (sent,) = harness.sent
    assert (sent.producer_epoch, sent.commit, sent.transaction_version) == (epoch + 1, False, 0)
    assert harness.add((producer_id, epoch), version=0) is BUSY
    harness.write_markers()
    assert harness.add((producer_id, epoch), version=0) is FENCED
    assert harness.init() == Initialized(NONE, producer_id, epoch + 2)


def test_epoch_bump_that_a_producer_asks_for() -> None:
    """If this fails, (KIP-360) a producer cannot recover from an error without losing its id, or retries bump the epoch
    twice.
    """
    harness = TxnHarness()
    producer_id, epoch = harness.producer()
    assert harness.init(expected=(producer_id, epoch)) == Initialized(NONE, producer_id, epoch + 1)
    # It did not get the response.
    assert harness.init(expected=(producer_id, epoch)) == Initialized(NONE, producer_id, epoch + 1)
    assert harness.init(expected=(producer_id, epoch + 1)) == Initialized(NONE, producer_id, epoch + 2)
    assert harness.init(expected=(producer_id, epoch)).code is FENCED
    assert harness.init(expected=(producer_id + 1, epoch + 2)).code is FENCED
    # Another producer has taken over: the first producer's request no longer counts as a retry.
    assert harness.init() == Initialized(NONE, producer_id, epoch + 3)
    assert harness.init(expected=(producer_id, epoch + 2)).code is FENCED


def test_expected_producer_of_an_id_that_was_forgotten() -> None:
    """If this fails, a producer whose id expired cannot continue."""
    harness = TxnHarness()
    assert harness.init(expected=(77, 3)) == Initialized(NONE, 1000, 0)


@pytest.mark.parametrize("told", [False, True])
def test_exhausted_epochs_bring_another_producer_id(told: bool) -> None:
    """If this fails, after 32,766 starts a producer gets an epoch that cannot be fenced, or never starts again."""
    harness, (producer_id, epoch) = in_state(TxnState.EMPTY, epoch=EPOCH_MAX - 1)
    expected = (producer_id, epoch) if told else None
    assert harness.init(expected=expected) == Initialized(NONE, 1001, 0)
    assert harness.state().previous_producer_id == producer_id
    if told:
        assert harness.init(expected=expected) == Initialized(NONE, 1001, 0)
        assert harness.init(expected=(producer_id, epoch - 1)).code is FENCED


def test_older_epoch_where_epochs_are_exhausted() -> None:
    """If this fails, the answer is not Kafka's, which fails there with an internal error."""
    harness, (producer_id, epoch) = in_state(TxnState.EMPTY, epoch=EPOCH_MAX - 1)
    assert harness.init(expected=(producer_id, epoch - 1)).code is ErrorCode.UNKNOWN_SERVER_ERROR


# ---- AddPartitionsToTxn ----


@pytest.mark.parametrize("state", STATES)
def test_add_by_state(state: TxnState) -> None:
    """If this fails, records of a transaction are written to one that is already decided."""
    harness, producer = in_state(state)
    answer = harness.add(producer, ("u", 3))
    if state.is_prepared:
        assert answer is BUSY
        return
    assert answer is NONE
    assert harness.state().state is TxnState.ONGOING
    assert ("u", 3) in harness.state().partitions
    assert (P0 in harness.state().partitions) == (state is TxnState.ONGOING)
    assert harness.add((producer[0] + 1, producer[1])) is UNKNOWN
    assert harness.add((producer[0], producer[1] + 1)) is FENCED
    assert harness.add((producer[0], producer[1] - 1)) is FENCED
    assert harness.add(producer, transactional_id="nobody") is UNKNOWN


def test_partitions_that_are_there_are_not_written_again() -> None:
    """If this fails, each batch of a transaction costs a record in the coordinator's log."""
    harness, producer = in_state(TxnState.ONGOING)
    count = len(harness.log)
    assert harness.add(producer, P0) is NONE
    assert len(harness.log) == count


def test_partition_counts_only_once_it_is_on_disk() -> None:
    """If this fails, a crash leaves records in a partition that no marker ever ends."""
    harness, producer = in_state(TxnState.EMPTY)
    before = len(harness.log)
    harness.hold = True
    assert harness.add(producer, P0, token="add") is None
    assert harness.add(producer, P0, token="again") is None
    assert harness.add(producer, P1, token="other") is None
    assert harness.verify(producer, P0, token="verify") is None
    assert harness.init().code is BUSY
    assert harness.end(producer).code is BUSY
    harness.fail()
    failed = ErrorCode.NOT_COORDINATOR
    assert [harness.answers[token] for token in ("add", "again", "other")] == [failed] * 3
    assert harness.answers["verify"] == {P0: failed}
    assert harness.state().state is TxnState.EMPTY
    assert len(harness.log) == before
    harness.hold = False
    assert harness.add(producer, P0) is NONE


@pytest.mark.parametrize("state", STATES)
def test_verify_by_state(state: TxnState) -> None:
    """If this fails, (KIP-890) a late batch of a producer that speaks the old protocol makes a transaction hang."""
    harness, producer = in_state(state)
    absent = ErrorCode.TRANSACTION_ABORTABLE
    expected = {P0: absent, ("u", 1): absent}
    if state is TxnState.ONGOING:
        expected[P0] = NONE
    elif state.is_prepared:
        expected = dict.fromkeys(expected, BUSY)
    assert harness.verify(producer, P0, ("u", 1)) == expected
    assert harness.verify((producer[0] + 1, producer[1])) == {P0: UNKNOWN}
    assert harness.verify((producer[0], producer[1] - 1)) == {P0: FENCED}


# ---- EndTxn ----

# By state: the answers to commit and abort of a producer that does not bump epochs.
OLD = {
    TxnState.EMPTY: (BAD_STATE, BAD_STATE),
    TxnState.ONGOING: (NONE, NONE),
    TxnState.PREPARE_COMMIT: (BUSY, BUSY),
    TxnState.PREPARE_ABORT: (BUSY, BUSY),
    TxnState.COMPLETE_COMMIT: (NONE, BAD_STATE),
    TxnState.COMPLETE_ABORT: (BAD_STATE, NONE),
}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_end_with_the_old_protocol(state: TxnState, commit: bool) -> None:
    """If this fails, a commit of an aborted transaction is answered with success, or the other way round."""
    harness, (producer_id, epoch) = in_state(state, version=0)
    assert harness.end((producer_id, epoch - 1), commit, version=0).code is FENCED
    assert harness.end((producer_id, epoch + 1), commit, version=0).code is FENCED
    assert harness.end((producer_id + 1, epoch), commit, version=0).code is UNKNOWN
    assert harness.end((producer_id, epoch), commit, version=0) == Ended(OLD[state][0 if commit else 1])
    if state is TxnState.ONGOING:
        assert harness.state().producer_epoch == epoch
        harness.write_markers()
        assert harness.state().state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
    assert harness.end((producer_id, epoch), transactional_id="nobody", version=0).code is UNKNOWN


# By state: commit and abort with the epoch before (a retry), then with the current one.
NEW = {
    TxnState.EMPTY: (FENCED, FENCED, BAD_STATE, NONE),
    TxnState.ONGOING: (FENCED, FENCED, NONE, NONE),
    TxnState.PREPARE_COMMIT: (BUSY, BUSY, BUSY, BUSY),
    TxnState.PREPARE_ABORT: (BUSY, BUSY, BUSY, BUSY),
    TxnState.COMPLETE_COMMIT: (NONE, BAD_STATE, BAD_STATE, NONE),
    # KAFKA-20785: a producer whose commit finds that the coordinator has aborted can begin again.
    TxnState.COMPLETE_ABORT: (FENCED, NONE, BAD_STATE, NONE),
}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("retry", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_end_that_bumps_the_epoch(state: TxnState, retry: bool, commit: bool) -> None:
    """If this fails, (KIP-890) a retry ends the next transaction, or a producer is fenced by its own retry."""
    harness, (producer_id, epoch) = in_state(state)
    busy = state.is_prepared
    assert harness.end((producer_id, epoch + 1), commit).code is (BUSY if busy else FENCED)
    assert harness.end((producer_id + 1, epoch), commit).code is (BUSY if busy else UNKNOWN)
    expected = NEW[state][(0 if commit else 1) + (0 if retry else 2)]
    answer = harness.end((producer_id, epoch - retry), commit)
    assert answer.code is expected
    if expected is not NONE:
        assert answer == Ended(expected)
    elif retry:
        assert answer == Ended(NONE, producer_id, epoch)
    else:
        assert answer == Ended(NONE, producer_id, epoch + 1)
        harness.write_markers()
        assert harness.state().state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)


def test_answer_comes_with_the_decision_and_the_record_behind_the_markers() -> None:
    """If this fails, clients wait for all partitions, or consumers see an end that a crash undoes."""
    harness, producer = in_state(TxnState.ONGOING)
    harness.hold = True
    assert harness.end(producer, token="end") is None
    assert not harness.sent
    harness.write()
    assert harness.answers["end"].code is NONE
    (sent,) = harness.sent
    assert sent.commit
    assert sent.partitions == (P0, P1)
    assert (sent.producer_epoch, sent.coordinator_epoch, sent.transaction_version) == (producer[1] + 1, 7, 2)
    assert harness.state().state is TxnState.PREPARE_COMMIT
    harness.write_markers()
    assert harness.state().state is TxnState.COMPLETE_COMMIT
    # The next transaction begins after the record that is being written.
    assert harness.add((producer[0], producer[1] + 1), token="next") is None
    harness.write()
    assert harness.answers["next"] is NONE


@pytest.mark.parametrize("commit", [True, False])
def test_epochs_that_run_out_at_the_end_of_a_transaction(commit: bool) -> None:
    """If this fails, after 32,767 transactions a producer stops, or writes with the epoch of another one."""
    harness, (producer_id, epoch) = in_state(TxnState.ONGOING, epoch=EPOCH_MAX - 1)
    assert harness.end((producer_id, epoch), commit) == Ended(NONE, 1001, 0)
    (sent,) = harness.sent
    assert (sent.producer_id, sent.producer_epoch) == (producer_id, EPOCH_MAX)
    harness.write_markers()
    assert (harness.state().producer_id, harness.state().producer_epoch) == (1001, 0)
    # It did not get the response.
    assert harness.end((producer_id, epoch), commit) == Ended(NONE, 1001, 0)
    assert harness.end((producer_id, epoch), not commit).code is (BAD_STATE if commit else FENCED)
    assert harness.add((1001, 0)) is NONE


def test_write_that_fails_leaves_the_transaction_open() -> None:
    """If this fails, after a full disk a transaction is half ended."""
    harness, producer = in_state(TxnState.ONGOING)
    harness.hold = True
    harness.end(producer, token="end")
    harness.fail()
    assert harness.answers["end"] == Ended(ErrorCode.NOT_COORDINATOR)
    assert harness.state().state is TxnState.ONGOING
    assert not harness.sent
    harness.hold = False
    assert harness.end(producer).code is NONE


# ---- markers ----


def test_partition_that_fails_is_tried_again_and_only_that() -> None:
    """If this fails, one partition without a leader holds back read_committed consumers forever, or gets markers in a
    loop.
    """
    harness, producer = in_state(TxnState.ONGOING)
    harness.end(producer)
    harness.write_markers(ErrorCode.NOT_LEADER_OR_FOLLOWER, only=[P1])
    assert not harness.sent
    harness.advance(20)
    (again,) = harness.sent
    assert again.partitions == (P1,)
    assert admin.describe(harness.machine, ID).topics[0].partitions == [1]
    for _ in range(8):
        harness.write_markers(ErrorCode.KAFKA_STORAGE_ERROR)
        harness.advance(1_000)
    harness.write_markers()
    assert harness.state().state is TxnState.COMPLETE_COMMIT


def test_last_record_that_fails_is_written_again() -> None:
    """If this fails, after a full disk a producer gets CONCURRENT_TRANSACTIONS until the broker restarts."""
    harness, producer = in_state(TxnState.ONGOING)
    harness.end(producer)
    harness.hold = True
    harness.write_markers()
    assert harness.add((producer[0], producer[1] + 1), token="next") is None
    harness.fail()
    assert harness.answers["next"] is ErrorCode.NOT_COORDINATOR
    assert harness.state().state is TxnState.PREPARE_COMMIT
    harness.hold = False
    harness.advance(20)
    assert not harness.sent
    assert harness.state().state is TxnState.COMPLETE_COMMIT


def test_fenced_markers_stop_the_coordinator() -> None:
    """If this fails, a coordinator that was replaced continues to write."""
    harness, producer = in_state(TxnState.ONGOING)
    harness.end(producer)
    harness.write_markers(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    harness.advance(60_000)
    assert not harness.sent
    assert harness.state().state is TxnState.PREPARE_COMMIT
    harness.restart()
    harness.write_markers()
    assert harness.state().state is TxnState.COMPLETE_COMMIT


# ---- time ----


@pytest.mark.parametrize("version", [0, 2])
def test_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    """If this fails, a dead producer holds back read_committed consumers forever."""
    harness, producer = in_state(TxnState.ONGOING, version)
    harness.advance(TIMEOUT_MS)
    harness.take(harness.machine.run(expiry.abort_timed_out, harness.now))
    assert harness.state().state is TxnState.ONGOING
    harness.advance(1)
    harness.take(harness.machine.run(expiry.abort_timed_out, harness.now))
    (sent,) = harness.sent
    assert not sent.commit
    assert sent.producer_epoch == producer[1] + 1
    harness.write_markers()
    assert harness.end(producer, version=version).code is FENCED
    assert harness.add(producer, version=version) is FENCED


def test_a_timeout_of_many_partitions_lists_the_first_and_counts_all() -> None:
    """If this fails, the event of a large transaction is too large for a record, or hides that its list is cut."""
    partitions = frozenset(("t", index) for index in range(PARTITIONS_REPORTED_MAX + 1))
    harness, _ = in_state(TxnState.ONGOING)
    event = expiry.timed_out(replace(harness.state(), partitions=partitions), harness.now)
    assert (len(event.partitions), event.partitions_total) == (PARTITIONS_REPORTED_MAX, PARTITIONS_REPORTED_MAX + 1)


def test_timeout_where_epochs_are_exhausted_waits_for_a_producer_id() -> None:
    """If this fails, the last transaction of a producer id never times out."""
    harness, (producer_id, _) = in_state(TxnState.ONGOING, epoch=EPOCH_MAX - 1)
    harness.advance(TIMEOUT_MS + 1)
    harness.take(harness.machine.run(expiry.abort_timed_out, harness.now))
    assert harness.state().state is TxnState.ONGOING
    harness.give_producer_id()
    harness.take(harness.machine.run(expiry.abort_timed_out, harness.now))
    (sent,) = harness.sent
    assert (sent.producer_id, sent.producer_epoch) == (producer_id, EPOCH_MAX)
    harness.write_markers()
    assert harness.init() == Initialized(NONE, 1001, 1)


@pytest.mark.parametrize("state", STATES)
def test_unused_ids_expire(state: TxnState) -> None:
    """If this fails, the coordinator's memory and log grow with every id that ever existed, or open transactions are
    forgotten.
    """
    harness, producer = in_state(state)
    harness.advance(harness.settings.id_expiration_ms - 1)
    harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    assert ID in harness.machine.transactions
    harness.advance(1)
    harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    stays = state is TxnState.ONGOING or state.is_prepared
    assert (ID in harness.machine.transactions) == stays
    if not stays:
        assert harness.log[-1].value is None
        assert harness.add(producer) is UNKNOWN
        assert harness.init() == Initialized(NONE, 1001, 0)


def test_an_expired_id_is_deleted_once_at_a_time() -> None:
    """If this fails, each search for expired ids queues their deletions again while a follower hangs, or a failed
    deletion is not repeated.
    """
    harness, _ = in_state(TxnState.EMPTY)
    harness.advance(harness.settings.id_expiration_ms)
    harness.hold = True
    for _ in range(3):
        harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    assert len(harness.held) == 1
    harness.fail()
    assert ID in harness.machine.transactions
    harness.hold = False
    harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    assert ID not in harness.machine.transactions


def test_expired_ids_are_deleted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, no request is answered while thousands of expired ids are deleted; or some ids are never deleted;
    or the parts are queued while a follower hangs.
    """
    monkeypatch.setattr(expiry, "DELETIONS_PER_STEP", 3)
    monkeypatch.setattr(expiry, "LOOKS_PER_STEP", 5)
    harness, _ = in_state(TxnState.EMPTY)
    for number in range(10):
        harness.init(f"expired-{number}")
    harness.advance(harness.settings.id_expiration_ms)
    machine = harness.machine
    harness.hold = True
    harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    assert [len(step.records) for step in harness.held] == [3]
    assert machine.next_wake_ms() is None, "the next part begins before this one is written"
    harness.fail()
    assert (len(machine.transactions), machine.next_wake_ms()) == (11, None), "a failed part is repeated at once"
    harness.hold = False
    sizes = [len(harness.log)]
    harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    sizes.append(len(harness.log))
    while machine.next_wake_ms() == 0:
        harness.take(machine.expire(harness.now))
        sizes.append(len(harness.log))
    assert [after - before for before, after in pairwise(sizes)] == [3, 3, 3, 2]
    assert not machine.transactions


def test_ids_that_stay_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a search that deletes nothing ends at its first part, or looks at all ids in one turn."""
    monkeypatch.setattr(expiry, "LOOKS_PER_STEP", 5)
    harness, _ = in_state(TxnState.EMPTY)
    for number in range(11):
        harness.init(f"unused-{number}")
    harness.advance(harness.settings.id_expiration_ms - 1)
    harness.init("used")
    machine = harness.machine
    # As if the search came to the expired ids last.
    for number in range(11):
        harness.init(f"unused-{number}")
    harness.advance(1)
    harness.take(harness.machine.run(expiry.remove_expired, harness.now))
    turns = 1
    while machine.next_wake_ms() == 0:
        harness.take(machine.expire(harness.now))
        turns += 1
    assert turns == 3
    assert set(machine.transactions) == {"used", *(f"unused-{number}" for number in range(11))}


# ---- recovery ----


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", STATES)
def test_restart_finds_what_was_written_and_ends_what_is_decided(state: TxnState, version: int) -> None:
    """If this fails, a crash leaves a transaction half committed."""
    harness, producer = in_state(state, version)
    before = harness.as_loaded()
    if version == 0:
        # Version 0 of the value contains neither.
        before = {key: replace(found, previous_producer_id=-1, client_version=0) for key, found in before.items()}
    harness.restart()
    assert harness.machine.transactions == before
    assert len(harness.sent) == state.is_prepared
    harness.write_markers()
    if state.is_prepared:
        assert harness.state().state is TxnState(state + 2)
        assert harness.written[-1].producer_epoch == producer[1]


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_written_or_undone_leaves_nothing_to_the_collector(fails: bool) -> None:
    """If this fails, each transaction leaves hundreds of objects in cycles, and all clients wait while the collector
    runs.
    """
    harness = TxnHarness()
    producer = harness.producer()
    harness.hold = fails
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            harness.add(producer, P0, P1)
            if fails:
                harness.fail()
                continue
            ended = harness.end(producer)
            producer = (ended.producer_id, ended.epoch)
        assert gc.collect() == 0
    finally:
        gc.enable()
