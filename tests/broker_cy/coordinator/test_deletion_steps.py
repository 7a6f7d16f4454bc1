"""Deletions that no request waits for: one step of them is written at a time, and a failed one is repeated."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.coordinator import commit, expiry, markers
from broker_cy.coordinator.group import DELETIONS_RETRY_MS
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages
from tests.broker_cy.coordinator.harness import GROUP, TOPIC_ID, Harness

RETENTION_MS = 100_000


@pytest.fixture
def h(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """Seven groups with an offset in the topic `t`; a step deletes two of them."""
    monkeypatch.setattr(expiry, "DELETIONS_PER_STEP", 2)
    h = Harness(offsets_retention_ms=RETENTION_MS)
    for number in range(7):
        h.commit(number, 1, group_id=f"g{number}")
    return h


def delete_topic(h: Harness, name: str = "t", topic_id: UUID = TOPIC_ID) -> None:
    gone = [TopicDelta(TopicImage(name, topic_id, {}), None)]
    h.take(h.machine.metadata_changed(ImageDelta(gone, [], [], []), MetadataImage()))


def sweep(h: Harness) -> None:
    h.run(expiry.sweep)


def commit_in_transaction(h: Harness, topic: str = "t") -> None:
    """As Kafka, the coordinator does not store a topic id with this offset."""
    request = messages.TxnOffsetCommitRequest
    partition = request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=50, committed_metadata="")
    wanted = request(
        transactional_id="id",
        group_id=GROUP,
        producer_id=7,
        producer_epoch=0,
        topics=[request.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    h.run(commit.commit_transactional, wanted, object())


def test_one_step_of_deletions_is_written_at_a_time(h: Harness) -> None:
    """If this fails, deletions pile up in memory and in the log for as long as a follower hangs."""
    h.hold = True
    h.advance(RETENTION_MS)
    delete_topic(h)
    sweep(h)
    delete_topic(h, "u")
    h.take(h.machine.expire(h.now))
    h.advance(RETENTION_MS)
    sweep(h)
    assert [len(step.records) for step in h.held] == [2]
    assert h.machine.next_wake_ms() is None
    h.write()
    assert h.machine.next_wake_ms() == 0
    h.hold = False
    h.advance(0)
    h.restart()
    assert (h.machine.offsets.count, h.machine.groups) == (0, {})


def test_a_failed_deletion_is_repeated(h: Harness) -> None:
    """If this fails, offsets in a deleted topic stay until they expire, and a consumer of a new topic with the name may
    start at one. If it is repeated too early, a broker with a full disk does nothing else.
    """
    h.hold = True
    delete_topic(h)
    h.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert h.machine.offsets.count == 7
    assert h.machine.next_wake_ms() == h.mono_ms + DELETIONS_RETRY_MS
    h.advance(DELETIONS_RETRY_MS - 1)
    assert not h.held
    h.advance(1)
    assert [len(step.records) for step in h.held] == [2]
    h.hold = False
    h.write()
    h.advance(0)
    h.restart()
    assert h.machine.offsets.count == 0


def test_a_failed_sweep_goes_on_later(h: Harness) -> None:
    """If this fails, expired offsets fill the log of a broker whose disk was full once."""
    h.advance(RETENTION_MS)
    h.hold = True
    sweep(h)
    h.fail()
    sweep(h)
    assert not h.held
    h.hold = False
    h.advance(DELETIONS_RETRY_MS)
    sweep(h)
    h.advance(0)
    h.restart()
    assert h.machine.groups == {}


def test_offsets_of_open_transactions_go_with_their_topic(h: Harness) -> None:
    """If this fails, the end of a transaction makes a group read a new topic from the old one's offset."""
    commit_in_transaction(h)
    h.hold = True
    delete_topic(h, "u")
    delete_topic(h)
    h.fail()
    h.hold = False
    h.advance(DELETIONS_RETRY_MS)
    assert list(h.machine.offsets.pending_offsets()) == []
    assert h.machine.offsets.count == 0


def test_offsets_in_the_next_topic_of_the_name_stay(h: Harness) -> None:
    """If this fails, a group starts a new topic over, because another one with its name was deleted shortly before."""
    h.commit("old", 1, topic="u", partition=1)
    h.hold = True
    delete_topic(h)
    delete_topic(h, "u")
    commit_in_transaction(h, "u")
    h.hold = False
    h.write()
    h.advance(0)
    h.take(h.machine.run(markers.end_transaction, 7, True, object()))
    assert (h.fetch(topic="u").committed_offset, h.fetch(topic="u", partition=1).committed_offset) == (50, -1)


def test_what_is_committed_after_a_failed_write_stays(h: Harness) -> None:
    """If this fails, the same happens after a full disk: the offsets of records that were undone are given again."""
    h.commit("old", 1, topic="u", partition=1)
    h.hold = True
    for number in range(5):
        h.commit(f"lost {number}", 1)
    delete_topic(h)
    delete_topic(h, "u")
    h.fail()
    commit_in_transaction(h, "u")
    h.hold = False
    h.write()
    h.advance(DELETIONS_RETRY_MS)
    h.take(h.machine.run(markers.end_transaction, 7, True, object()))
    assert (h.fetch(topic="u").committed_offset, h.fetch(topic="u", partition=1).committed_offset) == (50, -1)
