"""The share coordinator's state machine: epochs, snapshots, the cut of its log, deleted topics, failed writes."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.share_state import records, upkeep
from broker_cy.coordinator.share_state.answers import Outcome, StateRead, SummaryRead
from broker_cy.coordinator.share_state.share_state_table import DELETIONS_RETRY_MS
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import Record
from broker_cy.core.errors import ErrorCode, WireError
from tests.broker_cy.coordinator.share_state.share_state_harness import (
    KEY,
    OTHER_TOPIC_ID,
    PARTITIONS,
    TOPIC_ID,
    ShareStateHarness,
    batch,
    key,
)

COLD_MS = 300_000


@pytest.fixture
def h() -> ShareStateHarness:
    """One initialized share partition; two updates follow each snapshot."""
    h = ShareStateHarness(updates_per_snapshot=2)
    assert h.initialize(start_offset=0) == Outcome()
    return h


def kinds(h: ShareStateHarness) -> str:
    """The types of the records in the log: s(napshot), u(pdate), or t(ombstone)."""
    return "".join("t" if value is None else "su"[record_key[1]] for record_key, value in h.log)


# ---- epochs ----


def test_a_new_leader_fences_the_previous_one(h: ShareStateHarness) -> None:
    """If this fails, two leaders of a partition change the state of a share group, and records are lost."""
    assert h.read(leader_epoch=3).code is ErrorCode.NONE
    assert h.write(batch(0, 4), leader_epoch=2).code is ErrorCode.FENCED_LEADER_EPOCH
    assert h.read(leader_epoch=2).code is ErrorCode.FENCED_LEADER_EPOCH
    assert h.write(batch(0, 4), leader_epoch=3) == Outcome()


def test_a_new_leader_epoch_is_committed_before_the_state_is_read(h: ShareStateHarness) -> None:
    """If this fails, the next coordinator accepts writes of a leader that another one has replaced (KAFKA-17796)."""
    h.hold = True
    assert h.read(leader_epoch=3, token="read") is None
    h.write_held()
    assert h.answers["read"] == StateRead(state_epoch=1, start_offset=0)
    h.hold = False
    h.restart()
    assert h.write(batch(0, 4), leader_epoch=2).code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_read_without_a_new_epoch_writes_nothing(h: ShareStateHarness) -> None:
    """If this fails, each look at a share group costs a write."""
    h.read(leader_epoch=3)
    before = len(h.log)
    h.read(leader_epoch=3)
    h.read()
    h.summary()
    assert len(h.log) == before


def test_a_write_raises_no_epoch(h: ShareStateHarness) -> None:
    """If this fails, one write with a wrong epoch fences the leader and the group coordinator (KAFKA-19456)."""
    assert h.write(batch(0, 4), leader_epoch=9, state_epoch=9) == Outcome()
    assert h.write(batch(5, 9), leader_epoch=0, state_epoch=1) == Outcome()
    assert h.initialize(state_epoch=1) == Outcome()


def test_epochs_of_minus_one_are_not_checked(h: ShareStateHarness) -> None:
    """If this fails, administrators and the group coordinator, which know no epoch, are refused (KAFKA-20694)."""
    h.read(leader_epoch=3)
    assert h.read(leader_epoch=-1).code is ErrorCode.NONE
    assert h.write(batch(0, 4), leader_epoch=-1, state_epoch=-1) == Outcome()
    assert h.initialize(state_epoch=-1) == Outcome()


def test_an_old_state_epoch_is_refused(h: ShareStateHarness) -> None:
    """If this fails, a leader that has not seen the new start offset of an administrator overwrites it."""
    h.initialize(state_epoch=5, start_offset=100)
    assert h.write(start_offset=7, state_epoch=4).code is ErrorCode.FENCED_STATE_EPOCH
    assert h.initialize(state_epoch=4).code is ErrorCode.FENCED_STATE_EPOCH
    assert h.state().start_offset == 100


def test_an_initialization_keeps_the_previous_leader_fenced(h: ShareStateHarness) -> None:
    """If this fails, an altered start offset lets a leader of the past write again."""
    h.read(leader_epoch=3)
    h.initialize(state_epoch=2)
    assert (h.state().leader_epoch, h.entry().leader_fence) == (0, 3)
    assert h.write(leader_epoch=2).code is ErrorCode.FENCED_LEADER_EPOCH
    h.restart()
    assert h.entry().leader_fence == 3


# ---- the order of the checks ----


def test_errors_have_kafkas_order(h: ShareStateHarness) -> None:
    """If this fails, Kafka's share partitions react to another error than the one that matters."""
    h.read(leader_epoch=3)
    h.initialize(state_epoch=3)
    bad, missing = key(-1), key(PARTITIONS)
    assert h.write(of=bad).code is ErrorCode.INVALID_REQUEST
    assert h.read(bad).code is ErrorCode.INVALID_REQUEST
    assert h.delete(bad).code is ErrorCode.INVALID_REQUEST
    assert h.initialize(bad).code is ErrorCode.INVALID_REQUEST
    assert h.summary(bad).code is ErrorCode.INVALID_REQUEST
    assert h.write(of=missing).code is ErrorCode.INVALID_REQUEST  # uninitialized, before the topic
    assert h.read(missing).code is ErrorCode.INVALID_REQUEST
    assert h.delete(missing).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert h.summary(missing).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert h.initialize(missing).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert h.write(leader_epoch=2, state_epoch=2).code is ErrorCode.FENCED_LEADER_EPOCH


def test_an_empty_batch_is_refused(h: ShareStateHarness) -> None:
    """If this fails, one bad request makes the coordinator merge batches for ever, as Kafka's does."""
    answer = h.write(batch(5, 4))
    assert answer.code is ErrorCode.INVALID_REQUEST
    assert answer.message == "a state batch begins at offset 5, and ends before it, at 4"


def test_an_unknown_share_partition_has_a_summary(h: ShareStateHarness) -> None:
    """If this fails, DescribeShareGroupOffsets fails for a topic that a group has not read yet."""
    assert h.summary(key(1)) == SummaryRead(start_offset=-1)
    assert h.delete(key(1)) == Outcome()
    assert kinds(h) == "s"


def test_the_lag_is_known_after_the_offset_was_altered(h: ShareStateHarness) -> None:
    """If this fails, the lag of a share group is unknown after its offset was altered (KAFKA-20034)."""
    h.initialize(state_epoch=2, start_offset=10)
    assert h.summary().delivery_complete_count == 0
    h.initialize(state_epoch=3, start_offset=-1)
    assert h.summary().delivery_complete_count == -1


# ---- records ----


def test_a_snapshot_follows_the_configured_number_of_updates(h: ShareStateHarness) -> None:
    """If this fails, a coordinator loads more updates than share.coordinator.snapshot.update.records.per.snapshot."""
    for number in range(7):
        h.write(batch(number, number))
    assert kinds(h) == "suusuusu"
    assert h.state().snapshot_epoch == 2
    assert h.read().batches == (batch(0, 6),)


def test_a_write_changes_what_it_names(h: ShareStateHarness) -> None:
    """If this fails, an acknowledgement moves the start offset of a share group."""
    h.write(batch(0, 4, state=2), batch(5, 9), start_offset=0, complete=5)
    h.write(batch(5, 9, 2), complete=5)
    assert h.read() == StateRead(state_epoch=1, start_offset=0, batches=(batch(0, 4, state=2), batch(5, 9, 2)))
    h.write(start_offset=5, complete=0)
    assert h.read() == StateRead(state_epoch=1, start_offset=5, batches=(batch(5, 9, 2),))


def test_a_restart_has_the_same_state(h: ShareStateHarness) -> None:
    """If this fails, a move of the coordinator changes what a share group has consumed."""
    h.read(leader_epoch=3)
    for number in range(5):
        h.write(batch(2 * number, 2 * number, 1 + number % 2), leader_epoch=3)
    h.initialize(key(1, group_id="others"))
    h.initialize(key(2))
    h.delete(key(2))
    before = h.machine
    h.restart()
    assert h.machine.entries == before.entries
    assert h.machine.next_offset == before.next_offset
    assert h.machine.deleted_at == before.deleted_at


def test_a_log_whose_beginning_is_lost_can_be_loaded(h: ShareStateHarness) -> None:
    """If this fails, a truncated log makes all share groups of a partition unavailable."""
    h.write(batch(0, 4), start_offset=0)
    h.write(batch(5, 9))
    h.log_start = 1
    h.restart()
    assert h.read().batches == (batch(0, 9),)
    assert h.redundant_offset() == 1, "the only records of the key would be deleted"
    h.write(batch(10, 14))
    h.restart()
    assert h.read().batches == (batch(0, 14),)


def test_records_of_a_newer_kafka_stay_unread(h: ShareStateHarness) -> None:
    """If this fails, a downgrade from a newer Kafka makes share groups unavailable."""
    place = records.snapshot(KEY, h.state())
    assert place.value is not None
    before = h.machine.entries.copy()
    for record in (
        Record(b"\0\x02" + place.key[2:], b""),
        Record(place.key, b"\0\x01" + place.value[2:]),
        Record(b"\0\x01" + place.key[2:], None),
    ):
        h.log.append(record)
    h.restart()
    assert h.machine.entries == before
    assert h.machine.unknown_records == 3


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0\0", b"\0\0\xff\xff"])
def test_a_malformed_key_is_an_error(h: ShareStateHarness, bad: bytes) -> None:
    """If this fails, a damaged log is taken for a good one."""
    with pytest.raises(WireError):
        h.machine.apply(9, -1, bad, None)


def test_a_damaged_value_is_an_error(h: ShareStateHarness) -> None:
    """If this fails, a damaged log is taken for a good one."""
    place = records.snapshot(KEY, h.state()._replace(batches=(batch(5, 4),)))
    assert place.value is not None
    for value in (b"", place.value[:-3], place.value):
        with pytest.raises(WireError):
            h.machine.apply(9, -1, place.key, value)


# ---- failed writes ----


def test_a_failed_write_changes_nothing(h: ShareStateHarness) -> None:
    """If this fails, a share group sees an acknowledgement that no other coordinator will know."""
    before, offset = h.machine.entries.copy(), h.machine.next_offset
    h.hold = True
    h.read(leader_epoch=3, token="read")
    h.write(batch(0, 4), leader_epoch=3, token="write")
    h.initialize(key(1), token="initialize")
    h.delete(token="delete")
    h.summary(token="summary")
    h.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert h.machine.entries == before
    assert (h.machine.next_offset, h.machine.deleted_at) == (offset, -1)
    assert {token: answer.code for token, answer in h.answers.items() if isinstance(token, str)} == dict.fromkeys(
        ("read", "write", "initialize", "delete", "summary"), ErrorCode.NOT_COORDINATOR
    )
    assert h.answers["write"].message == "Unable to write share group state: This is not the correct coordinator."


def test_an_answer_waits_for_earlier_writes(h: ShareStateHarness) -> None:
    """If this fails, a summary shows a start offset that a failed write takes back."""
    h.hold = True
    h.write(start_offset=7, token="write")
    assert h.summary(token="summary") is None
    assert h.write(of=key(1), token="refused") is None, "the initialization of it might be under way"
    h.time_out()
    assert h.answers["summary"].code is ErrorCode.COORDINATOR_NOT_AVAILABLE


# ---- the cut of the log ----


def test_the_log_is_cut_below_the_oldest_snapshot(h: ShareStateHarness) -> None:
    """If this fails, the log of a busy share group grows for ever, or a restart loses a share partition."""
    assert h.redundant_offset() is None
    h.initialize(key(1))
    h.initialize(key(2))
    for number in range(3):
        h.write(batch(number, number))
    assert kinds(h) == "sssuus"
    assert h.redundant_offset() == 1
    h.delete(key(1))
    assert h.redundant_offset() == 2
    before = h.machine.entries
    h.prune()
    h.restart()
    assert h.log_start == 2
    assert h.machine.entries == before
    h.delete(key(2))
    h.delete(KEY)
    assert h.redundant_offset() == len(h.log) - 1, "nothing but the last tombstone is needed"


def test_no_record_is_redundant_because_of_an_unwritten_one(h: ShareStateHarness) -> None:
    """If this fails, the log is cut because of a snapshot that could not be written: the state is lost."""
    h.initialize(state_epoch=2)
    h.hold = True
    h.initialize(state_epoch=3)
    assert h.redundant_offset(token="cut") is None
    h.fail()
    assert h.answers["cut"] is None
    assert h.redundant_offset() == 1


def test_a_cold_share_partition_gets_another_snapshot(h: ShareStateHarness) -> None:
    """If this fails, one idle share partition holds up the log of all others."""
    h.initialize(key(1))
    h.write(batch(0, 4))
    h.advance(COLD_MS)
    h.initialize(key(2))
    h.snapshot_cold()
    assert kinds(h) == "ssusss"
    assert h.state().write_ms == h.wall_ms
    assert h.state().create_ms == h.wall_ms - COLD_MS
    assert (h.state().snapshot_epoch, h.read().batches) == (1, (batch(0, 4),))
    assert h.redundant_offset() == 3
    before = h.machine.entries
    h.prune()
    h.restart()
    assert h.machine.entries == {place: entry._replace(updates=0) for place, entry in before.items()}


def test_a_quiet_coordinator_writes_no_snapshots(h: ShareStateHarness) -> None:
    """If this fails, an unused cluster writes all share partitions again every five minutes."""
    h.advance(COLD_MS)
    h.snapshot_cold()
    h.advance(COLD_MS)
    h.snapshot_cold()
    assert kinds(h) == "ss"


def test_cold_snapshots_are_written_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the sweep of a large coordinator blocks its clients, or fills the log while a follower hangs."""
    monkeypatch.setattr(upkeep, "SNAPSHOTS_PER_STEP", 2)
    h = ShareStateHarness()
    for number in range(5):
        h.initialize(key(0, group_id=f"g{number}"))
    h.advance(COLD_MS)
    h.hold = True
    h.snapshot_cold()
    h.snapshot_cold()
    assert [len(step.records) for step in h.held] == [2]
    assert h.machine.next_wake_ms() is None
    h.write_held()
    h.hold = False
    h.advance(0)
    assert kinds(h) == "s" * 10
    assert h.redundant_offset() == 5


# ---- deleted topics ----


def test_the_state_of_a_deleted_topic_is_deleted(h: ShareStateHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the state of deleted topics is kept for ever, and holds up the log."""
    monkeypatch.setattr(upkeep, "DELETIONS_PER_STEP", 2)
    for number in range(3):
        h.initialize(key(number, OTHER_TOPIC_ID))
    h.hold = True
    h.delete_topics([OTHER_TOPIC_ID])
    assert [len(step.records) for step in h.held] == [2]
    assert h.machine.next_wake_ms() is None, "the next deletions are made although these are not written"
    h.write_held()
    h.hold = False
    h.advance(0)
    assert list(h.machine.entries) == [KEY]
    assert h.write(of=key(0, OTHER_TOPIC_ID)).code is ErrorCode.INVALID_REQUEST
    h.restart()
    assert list(h.machine.entries) == [KEY]


def test_a_failed_deletion_is_repeated(h: ShareStateHarness) -> None:
    """If this fails, a full disk at the wrong time keeps the state of a deleted topic for ever, as in Kafka."""
    h.hold = True
    h.delete_topics([TOPIC_ID])
    h.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert list(h.machine.entries) == [KEY]
    assert h.machine.next_wake_ms() == h.mono_ms + DELETIONS_RETRY_MS
    h.hold = False
    h.advance(DELETIONS_RETRY_MS)
    assert h.machine.entries == {}


def test_a_topic_that_was_deleted_without_a_coordinator_is_found_at_the_start(h: ShareStateHarness) -> None:
    """If this fails, the state of a topic that was deleted during a failover is kept for ever, as in Kafka."""
    h.image.topics.remove(TOPIC_ID)
    h.restart()
    assert h.machine.entries == {}
    assert kinds(h) == "st"


# ---- keys ----


@pytest.mark.parametrize("group_id", ["readers", "a:b", "::x"])
def test_a_key_is_read_from_the_right(group_id: str) -> None:
    """If this fails, a group whose id has a colon finds no coordinator."""
    place = SharePartitionKey(group_id, TOPIC_ID, 17)
    assert place.text == f"{group_id}:AAAAAAAAAAAAAAAAAABe7Q:17"
    assert SharePartitionKey.from_text(place.text) == place
    assert SharePartitionKey.from_text(f"{place.text}:") == place, "Java's split drops empty ends"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "readers",
        "readers:AAAAAAAAAAAAAAAAAABe7Q",
        "readers:AAAAAAAAAAAAAAAAAABe7Q:",
        " :AAAAAAAAAAAAAAAAAABe7Q:1",
        ":AAAAAAAAAAAAAAAAAABe7Q:1",
        "readers:short:1",
        "readers:AAAAAAAAAAAAAAAAAABe7Q:x",
        "readers:AAAAAAAAAAAAAAAAAABe7Q:2147483648",
    ],
)
def test_a_bad_key_is_an_error_that_names_the_form(bad: str) -> None:
    """If this fails, FindCoordinator answers a malformed key with some coordinator."""
    with pytest.raises(ValueError, match="is not a share partition; expected group:topicId:partition"):
        SharePartitionKey.from_text(bad)
