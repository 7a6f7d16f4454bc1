"""Deleting and expiring offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn
from uuid import UUID

import pytest

from broker_cy.coordinator import expiry
from broker_cy.coordinator.offset_record import encode_offset_key, encode_offset_value
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from tests.broker_cy.coordinator.harness import GROUP, RETENTION_MS, SESSION_MS, TOPIC_ID, Harness, subscription


@pytest.fixture
def h() -> Harness:
    return Harness(offsets_retention_ms=RETENTION_MS)


# ---- deletion ----


def test_offsets_are_deleted_but_not_of_topics_that_are_read(h: Harness) -> None:
    """If this fails, an administrator's mistake sets live consumers back to the beginning."""
    h.commit("t", 1)
    h.commit("u", 2, topic="u")
    h.stable("m", protocols=[("range", subscription("t"))])
    answer = h.delete_offsets("d1", "t", 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    answer = h.delete_offsets("d2", "u", 0, 1)
    assert [p.error_code for p in answer.topics[0].partitions] == [ErrorCode.NONE, ErrorCode.NONE]
    h.restart()
    assert (h.fetch().committed_offset, h.fetch(topic="u").committed_offset) == (1, -1)


def test_offsets_of_unknown_groups_and_of_other_protocols_are_not_deleted(h: Harness) -> None:
    """If this fails, offsets of Connect's workers are deleted while they run."""
    assert h.delete_offsets("d1", "t", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    h.commit("t", 1)
    h.stable("m", protocol_type="connect")
    assert h.delete_offsets("d2", "t", 0).error_code == ErrorCode.NON_EMPTY_GROUP


def test_unreadable_subscription_counts_as_reading_everything(h: Harness) -> None:
    """If this fails, offsets of a group with a custom assignor are deleted while it runs."""
    h.commit("t", 1)
    h.stable("m", protocols=[("range", b"\x00")])
    answer = h.delete_offsets("d", "t", 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_deletion_that_cannot_be_written_is_undone(h: Harness) -> None:
    """If this fails, offsets vanish until the next restart brings them back."""
    h.commit("t", 1)
    h.hold = True
    h.delete_offsets("d", "t", 0)
    h.fail()
    assert h.answers["d"].error_code == ErrorCode.NOT_COORDINATOR
    assert h.fetch().committed_offset == 1


def test_offsets_of_a_deleted_topic_go_with_it(h: Harness) -> None:
    """If this fails, a topic created again under the name is read from the old offset."""
    h.commit("t", 1)
    h.commit("u", 2, topic="u", topic_id=UUID(int=5))
    h.commit("v", 3, topic="t", partition=1, topic_id=UUID(int=6))
    deleted = ImageDelta([TopicDelta(TopicImage("t", TOPIC_ID, {}), None)], [], [], [])
    h.take(h.machine.metadata_changed(deleted, MetadataImage()))
    h.restart()
    assert h.fetch().committed_offset == -1
    assert h.fetch(topic="u").committed_offset == 2
    assert h.fetch(partition=1).committed_offset == 3, "committed in another topic of the name"


def test_a_deleted_topic_costs_nothing_for_groups_without_offsets_in_it(h: Harness) -> None:
    """If this fails, the deletion of 1,000 topics blocks a broker that coordinates 10,000 groups for seconds."""

    class NotWalked(dict[str, Any]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("walked over all groups")

        items = keys = values = __iter__

    h.commit("t", 1)
    h.commit("u", 2, topic="u", topic_id=UUID(int=5))
    store = h.machine.offsets
    assert (store.groups_of("t"), store.groups_of("u"), store.groups_of("v")) == ([GROUP], [GROUP], [])
    store.by_group = NotWalked(store.by_group)
    gone = [TopicDelta(TopicImage("t", TOPIC_ID, {}), None)]
    h.take(h.machine.metadata_changed(ImageDelta(gone, [], [], []), MetadataImage()))
    store.by_group = dict(dict.items(store.by_group))
    assert h.fetch().committed_offset == -1
    assert h.fetch(topic="u").committed_offset == 2
    assert (store.groups_of("t"), store.groups_of("u")) == ([], [GROUP])


def rest(h: Harness) -> Iterator[GroupStep]:
    """Yield the steps in which the machine makes the deletions that it has left for later turns; each step is due
    immediately.
    """
    while h.machine.has_deletions():
        assert h.machine.next_wake_ms() == 0
        yield h.take(h.machine.expire(h.now))
    assert h.machine.next_wake_ms() != 0


def test_the_offsets_of_a_deleted_topic_go_in_parts(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a topic that 1,000 groups read blocks its coordinators for seconds when it is deleted."""
    monkeypatch.setattr(expiry, "DELETIONS_PER_STEP", 2)
    for number in range(7):
        h.commit(number, 1, group_id=f"g{number}")
    h.commit("u", 2, topic="u", topic_id=UUID(int=5), group_id="g3")
    gone = [TopicDelta(TopicImage("t", TOPIC_ID, {}), None)]
    taken = [h.take(h.machine.metadata_changed(ImageDelta(gone, [], [], []), MetadataImage()))]
    # Offsets that are committed in the meantime, in a new topic with this name, stay.
    h.commit("later", 9, topic_id=UUID(int=6), group_id="g6")
    taken += rest(h)
    assert [len(step.records) for step in taken] == [2, 2, 2, 0]
    h.restart()
    assert [h.fetch(group_id=f"g{number}").committed_offset for number in range(7)] == [-1] * 6 + [9]
    assert h.fetch(topic="u", group_id="g3").committed_offset == 2


# ---- expiry ----


def sweep(h: Harness) -> None:
    h.run(expiry.sweep)


def test_groups_expire_in_parts(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, 10,000 groups that nothing has used for a week block their coordinator for seconds."""
    for number in range(7):
        h.commit(number, 1, group_id=f"g{number}")
    h.advance(RETENTION_MS)
    monkeypatch.setattr(expiry, "DELETIONS_PER_STEP", 4)
    taken = [h.run(expiry.sweep)]
    # An offset that is committed in the meantime stays.
    h.commit("later", 9, group_id="g6")
    # A sweep that begins before the last one has ended continues the last one.
    taken.append(h.run(expiry.sweep))
    taken += rest(h)
    assert [len(step.records) for step in taken] == [4, 4, 4, 0]
    h.restart()
    assert [h.fetch(group_id=f"g{number}").committed_offset for number in range(7)] == [-1] * 6 + [9]
    assert list(h.machine.groups) == ["g6"]


def test_a_sweep_looks_at_groups_in_parts(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a coordinator of 10,000 groups is blocked each time that offsets are checked for their age."""
    for number in range(5):
        h.commit(number, 1, group_id=f"g{number}")
    monkeypatch.setattr(expiry, "LOOKS_PER_STEP", 4)
    h.run(expiry.sweep)
    left = [len(h.machine.unswept)]
    for step in rest(h):
        assert not step.records
        left.append(len(h.machine.unswept))
    assert left == [3, 1, 0]


def test_offsets_of_a_group_without_members_expire_from_when_it_was_empty(h: Harness) -> None:
    """If this fails, a consumer that pauses over a weekend starts from the beginning, or groups are kept forever."""
    (a,) = h.stable("a")
    h.commit("c", 1, member_id=a, generation=1)
    h.advance(SESSION_MS - 1)
    h.heartbeat(a, 1)
    h.leave("l", (a, None))
    h.advance(RETENTION_MS - 1)
    sweep(h)
    assert h.fetch().committed_offset == 1
    h.advance(1)
    sweep(h)
    assert GROUP not in h.machine.groups
    h.restart()
    assert not h.machine.groups
    assert h.machine.offsets.count == 0


def test_offsets_without_membership_expire_one_by_one(h: Harness) -> None:
    """If this fails, one partition that is still read keeps the offsets of all others."""
    h.commit("old", 1)
    h.advance(RETENTION_MS // 2)
    h.commit("young", 2, partition=1)
    h.advance(RETENTION_MS // 2)
    sweep(h)
    assert (h.fetch().committed_offset, h.fetch(partition=1).committed_offset) == (-1, 2)
    assert GROUP in h.machine.groups


def test_an_expired_offset_stays_while_a_transaction_replaces_it(h: Harness) -> None:
    """If this fails, the expiry of an offset deletes the one that an open transaction has committed in its place, and
    the group starts at the beginning (Redpanda CORE-16998).
    """
    h.commit("old", 1)
    h.machine.apply(1, 7, encode_offset_key(GROUP, "t", 0), encode_offset_value(50, -1, "", 5, -1, TOPIC_ID.bytes))
    h.advance(10 * RETENTION_MS)
    sweep(h)
    h.machine.apply_marker(2, 7, True)
    assert h.fetch().committed_offset == 50


def test_offsets_of_topics_no_longer_read_expire_in_a_live_group(h: Harness) -> None:
    """If this fails, a group that changed its topics keeps the old offsets forever, or loses the current ones."""
    (a,) = h.stable("a", protocols=[("range", subscription("t"))])
    h.commit("read", 1, member_id=a, generation=1)
    h.commit("left", 2, member_id=a, generation=1, topic="u")
    for _ in range(RETENTION_MS // 5_000):
        h.advance(5_000)
        h.heartbeat(a, 1)
    sweep(h)
    assert (h.fetch().committed_offset, h.fetch(topic="u").committed_offset) == (1, -1)


def test_offsets_of_a_group_of_another_protocol_do_not_expire_while_it_lives(h: Harness) -> None:
    """If this fails, Connect loses its offsets while a task runs."""
    (a,) = h.stable("a", protocol_type="connect")
    h.commit("c", 1, member_id=a, generation=1)
    for _ in range(RETENTION_MS // 5_000):
        h.advance(5_000)
        h.heartbeat(a, 1)
    sweep(h)
    assert h.fetch().committed_offset == 1


def test_commit_with_its_own_retention(h: Harness) -> None:
    """If this fails, old clients that request a longer retention lose their offsets. Only versions 2 to 4 can do so."""
    h.commit("c", 1, retention_ms=3 * RETENTION_MS, version=4)
    h.restart()
    h.advance(3 * RETENTION_MS - 1)
    sweep(h)
    assert h.fetch().committed_offset == 1
    h.advance(1)
    sweep(h)
    assert h.fetch().committed_offset == -1


def test_absurd_retention_is_capped(h: Harness) -> None:
    """If this fails, a retention of Long.MAX_VALUE breaks the connection."""
    assert h.commit("c", 1, retention_ms=(1 << 63) - 1, version=2) is ErrorCode.NONE
    sweep(h)
    assert h.fetch().committed_offset == 1


def test_empty_group_without_offsets_is_removed(h: Harness) -> None:
    """If this fails, every console consumer that ever ran is listed forever."""
    (a,) = h.stable("a")
    sweep(h)
    assert GROUP in h.machine.groups
    h.leave("l", (a, None))
    sweep(h)
    assert GROUP not in h.machine.groups
