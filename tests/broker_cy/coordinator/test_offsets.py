"""Committing and fetching offsets."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.coordinator import commit, expiry, fetch, markers
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.offset_record import encode_offset_key, encode_offset_value
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator.harness import GROUP, RETENTION_MS, SESSION_MS, TOPIC_ID, Harness


@pytest.fixture
def h() -> Harness:
    return Harness(offsets_retention_ms=RETENTION_MS)


def test_offset_comes_back_as_committed(h: Harness) -> None:
    """If this fails, a consumer continues at the wrong place."""
    assert h.commit("c", 42, metadata="mark", leader_epoch=3) is ErrorCode.NONE
    h.restart()
    found = h.fetch()
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (42, 3, "mark")


def test_nothing_committed_is_minus_one_without_error(h: Harness) -> None:
    """If this fails, a new consumer fails instead of starting by auto.offset.reset."""
    assert (h.fetch().committed_offset, h.fetch().error_code) == (-1, ErrorCode.NONE)
    h.commit("c", 1)
    assert h.fetch(partition=1).committed_offset == -1
    assert h.fetch(topic="other").committed_offset == -1


def test_commit_is_answered_when_written_and_undone_when_not(h: Harness) -> None:
    """If this fails, an acknowledged commit is lost, or a failed one is served."""
    h.commit("first", 1)
    h.hold = True
    assert h.commit("c", 2) is None
    h.fail()
    assert h.answers["c"].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert h.fetch().committed_offset == 1
    h.commit("other", 3, group_id="fresh")
    h.fail(ErrorCode.RECORD_LIST_TOO_LARGE)
    assert h.answers["other"].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "fresh" not in h.machine.groups


def test_a_commit_is_part_of_the_output_once_it_is_written(h: Harness) -> None:
    """If this fails, the time lag of a group is computed from uncommitted offsets, or does not change."""
    h.hold = True
    h.commit("one", 1)
    h.commit("two", 2, partition=1)
    assert h.committed == []
    h.write()
    assert h.committed == [(GROUP, "t", 0), (GROUP, "t", 1)]
    h.commit("failed", 3)
    h.fail()
    h.commit("refused", 4, member_id="ghost", generation=1)
    h.restart()
    assert len(h.committed) == 2


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_are_part_of_the_output_when_it_commits(h: Harness, committed: bool) -> None:
    """If this fails, a group that reads in transactions has no exact time lag, or that of an aborted one."""
    topic = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    request = messages.TxnOffsetCommitRequest(
        transactional_id="x", group_id=GROUP, producer_id=7, producer_epoch=0,
        topics=[topic(name="t", partitions=[part(partition_index=3, committed_offset=5)])],
    )  # fmt: skip
    h.run(commit.commit_transactional, request, "pending")
    assert h.committed == []
    h.take(h.machine.written([h.machine.run(markers.end_transaction, 7, committed, "end")], h.now))
    assert h.answers["end"] is ErrorCode.NONE
    assert h.committed == ([(GROUP, "t", 3)] if committed else [])


def test_consumer_without_membership_commits_only_while_nobody_is_a_member(h: Harness) -> None:
    """If this fails, a tool that resets offsets races with live consumers."""
    assert h.commit("c1", 1) is ErrorCode.NONE
    assert h.group().protocol_type is None
    h.stable("m")
    assert h.commit("c2", 2) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_member_of_an_unknown_group_cannot_commit(h: Harness, version: int, code: ErrorCode) -> None:
    """If this fails, a group that was deleted comes back with the offsets of a zombie."""
    assert h.commit("c", 1, member_id="m", generation=3, version=version) is code
    assert GROUP not in h.machine.groups


def test_member_commits_in_its_generation_only(h: Harness) -> None:
    """If this fails, a member that lost its partitions sets the offset of their new owner back."""
    (a,) = h.stable("a")
    assert h.commit("ok", 1, member_id=a, generation=1) is ErrorCode.NONE
    assert h.commit("gen", 2, member_id=a, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert h.commit("who", 2, member_id="ghost", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit("in", 2, member_id=a, generation=1, instance_id="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.fetch().committed_offset == 1


def test_commit_while_the_group_rebalances(h: Harness) -> None:
    """If this fails, consumers that commit before they give partitions up lose their progress, or commit for the wrong
    owner.
    """
    a, b = h.stable("a", "b")
    h.join("a2", a)
    assert h.commit("prepare", 5, member_id=b, generation=1) is ErrorCode.NONE
    h.join("b2", b)
    assert h.group().state is GroupState.COMPLETING_REBALANCE
    assert h.commit("completing", 6, member_id=a, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_commit_keeps_the_session_alive(h: Harness) -> None:
    """If this fails, a consumer that only commits is thrown out."""
    (a,) = h.stable("a")
    for i in range(5):
        h.advance(SESSION_MS - 1)
        assert h.commit(i, i, member_id=a, generation=1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("x" * 4096, ErrorCode.NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 2048, ErrorCode.NONE),
        ("\U0001f600" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
    ids=["full", "over", "full of pairs", "over by pairs", "null"],
)
def test_metadata_is_bounded(h: Harness, metadata: str | None, code: ErrorCode) -> None:
    """If this fails, offsets fill the coordinator's memory, or a commit that Kafka accepts is refused."""
    assert h.commit("c", 1, metadata=metadata) is code
    assert h.fetch().committed_offset == (1 if code is ErrorCode.NONE else -1)


def test_metadata_never_exceeds_what_a_record_can_hold() -> None:
    """If this fails, a large offset.metadata.max.bytes lets one commit break the connection."""
    h = Harness(offset_metadata_max=1_000_000)
    assert h.commit("c", 1, metadata="é" * 16_384) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert h.commit("d", 1, metadata="é" * 16_383) is ErrorCode.NONE


def test_offset_of_a_topic_that_was_created_again_is_not_reported(h: Harness) -> None:
    """If this fails, a consumer of version 10 starts a new topic at the old one's offset (KIP-516)."""
    h.commit("c", 9)
    assert h.fetch(topic_id=TOPIC_ID).committed_offset == 9
    assert h.fetch(topic_id=UUID(int=77)).committed_offset == -1


def test_all_offsets_of_a_group(h: Harness) -> None:
    """If this fails, tools that list a group's offsets see none of them."""
    h.commit("a", 1, partition=0)
    h.commit("b", 2, partition=5)
    h.commit("c", 3, topic="u")
    request = messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    answer = fetch.fetch_offsets(h.machine, request)
    assert {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions} == {
        ("t", 0): 1,
        ("t", 5): 2,
        ("u", 0): 3,
    }


def test_an_offset_is_visible_when_it_is_written(h: Harness) -> None:
    """If this fails, a consumer starts at an offset that the next coordinator does not know: its commit was never
    acknowledged.
    """

    def all_offsets() -> dict[tuple[str, int], int]:
        request = messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        answer = fetch.fetch_offsets(h.machine, request, h.held)
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}

    h.commit("a", 3)
    h.hold = True
    assert h.commit("b", 5) is None
    assert h.commit("c", 7) is None
    assert h.commit("d", 1, topic="u") is None
    assert (h.fetch().committed_offset, h.fetch(topic="u").committed_offset) == (3, -1)
    assert all_offsets() == {("t", 0): 3}
    h.write()
    assert all_offsets() == {("t", 0): 7, ("u", 0): 1}
    h.delete_offsets("e", "t", 0)
    assert h.fetch().committed_offset == 7
    h.fail()
    assert h.fetch().committed_offset == 7


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_for_readers_when_its_marker_is_written(h: Harness, committed: bool) -> None:
    """If this fails, a consumer starts at an offset of a transaction whose marker the next coordinator has not got."""
    h.commit("a", 3)
    pending(h, 1, 7, 50)
    assert h.fetch(require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    h.hold = True
    h.held = [h.machine.run(markers.end_transaction, 7, committed, "marker")]
    # The marker has no record of the harness.
    h.commit("b", 1, topic="u")
    assert h.fetch().committed_offset == 3
    assert h.fetch(require_stable=True, token="waits") is None
    h.write()
    assert h.answers["waits"].topics[0].partitions[0].committed_offset == (50 if committed else 3)


# ---- transactions, as read from a log ----


def pending(h: Harness, offset: int, producer_id: int, committed: int) -> None:
    key = encode_offset_key(GROUP, "t", 0)
    h.machine.apply(offset, producer_id, key, encode_offset_value(committed, -1, "", 5, -1, TOPIC_ID.bytes))


def test_pending_offset_is_seen_only_as_unstable(h: Harness) -> None:
    """If this fails, a consumer of a transaction's group reads records twice (KIP-447)."""
    pending(h, 0, 7, 50)
    h.machine.loaded(h.now)
    assert h.fetch().committed_offset == -1
    unstable = h.fetch(require_stable=True)
    assert (unstable.error_code, unstable.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert h.fetch(partition=1, require_stable=True).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("committed", "offset"), [(True, 50), (False, -1)])
def test_marker_decides_about_pending_offsets(h: Harness, committed: bool, offset: int) -> None:
    """If this fails, offsets of an aborted transaction count, or those of a committed one do not."""
    pending(h, 0, 7, 50)
    h.machine.apply_marker(1, 8, True)
    h.machine.apply_marker(2, 7, committed)
    h.machine.loaded(h.now)
    assert h.fetch(require_stable=True).committed_offset == offset


def test_younger_commit_beats_an_older_transaction(h: Harness) -> None:
    """If this fails, compaction of the log makes a group go back to an older offset."""
    pending(h, 0, 7, 50)
    h.machine.apply(1, -1, encode_offset_key(GROUP, "t", 0), encode_offset_value(60, -1, "", 5, -1, TOPIC_ID.bytes))
    h.machine.apply_marker(2, 7, True)
    h.machine.loaded(h.now)
    assert h.fetch().committed_offset == 60


def test_group_with_pending_offsets_is_kept(h: Harness) -> None:
    """If this fails, the end of a transaction puts offsets into a group that was deleted."""
    pending(h, 0, 7, 50)
    h.machine.loaded(h.now)
    h.advance(10 * RETENTION_MS)
    h.run(expiry.sweep)
    assert GROUP in h.machine.groups
    assert not h.log


def test_deleting_an_offset_drops_what_is_pending_there(h: Harness) -> None:
    """If this fails, a deleted offset comes back when the transaction ends."""
    pending(h, 0, 7, 50)
    h.machine.loaded(h.now)
    assert h.delete_offsets("d", "t", 0).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert len(h.log) == 1
    h.machine.apply_marker(1, 7, True)
    assert h.fetch().committed_offset == -1
