"""Offsets of streams groups; and streams groups in place of groups of other types."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.streams.member import HeldTasks
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.streams.test_heartbeat import two_members
from tests.broker_cy.coordinator.streams_harness import AT_ONCE, WORD_COUNT, Part, StreamsHarness, topology

ALL = {"0": {0, 1, 2, 3}}


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def test_offsets_are_committed_by_the_owners_of_tasks(h: StreamsHarness) -> None:
    """If this fails, a member that lost a task overwrites the offsets of the next one."""
    epoch = two_members(h)
    kept = min(h.streams().members["A"].assigned.active["0"])
    gone = min(ALL["0"] - h.streams().members["A"].assigned.active["0"].keys())
    how: dict[str, Any] = {"member_id": "A", "topic_id": topic_id("t")}
    assert h.commit("now", 1, generation=epoch, partition=kept, **how) is ErrorCode.NONE
    assert h.commit("before", 2, generation=2, partition=kept, **how) is ErrorCode.NONE
    assert h.commit("gone", 3, generation=2, partition=gone, **how) is ErrorCode.STALE_MEMBER_EPOCH
    assert h.commit("newer", 4, generation=epoch + 1, partition=kept, **how) is ErrorCode.STALE_MEMBER_EPOCH
    assert h.commit("old api", 5, generation=epoch, version=8, **how) is ErrorCode.UNSUPPORTED_VERSION
    assert h.commit("stranger", 6, generation=epoch, member_id="X") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit("admin", 7) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.fetch(partition=kept).committed_offset == 2
    assert h.fetch(member_id="A", member_epoch=epoch - 1).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert h.delete_offsets("subscribed", "t", kept).topics[0].partitions[0].error_code == (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    )


def test_commits_in_a_topic_that_two_subtopologies_read() -> None:
    """If this fails, commits with a former epoch get another code than from Kafka, which looks at the tasks of one of
    the subtopologies alone.
    """
    h = StreamsHarness(Topics(t=4), streams=AT_ONCE)
    shared = topology(Part(["t"]), Part(["t"]))
    h.enter("a", "A", shared)
    h.enter("b", "B", shared)
    h.beat("a revokes", "A", 2, owned={**ALL, "1": ALL["0"]})
    kept = h.active("a revokes")
    assert kept is not None
    assert kept["0"] == kept["1"]
    h.beat("a has revoked", "A", 2, owned=kept)
    member = h.streams().members["A"]
    mine = min(kept["0"])
    assert (member.epoch, member.active_since("0", mine), member.active_since("1", mine)) == (3, 2, 2)
    how: dict[str, Any] = {"member_id": "A", "topic_id": topic_id("t"), "partition": mine}
    assert h.commit("both", 1, generation=2, **how) is ErrorCode.NONE
    h.streams().put_member("A", member._replace(assigned=HeldTasks({"1": {mine: 2}}, {}, {})))
    assert h.commit("the last one", 2, generation=2, **how) is ErrorCode.NONE
    h.streams().put_member("A", member._replace(assigned=HeldTasks({"0": {mine: 2}}, {}, {})))
    assert h.commit("the first one", 3, generation=2, **how) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_group_takes_the_place_of_an_empty_classic_one_and_back(h: StreamsHarness) -> None:
    """If this fails, an application cannot move to the new protocol, or back, with its offsets."""
    h.commit("admin", 5, topic_id=topic_id("t"))
    h.enter("a", "A")
    assert h.active("a") == ALL
    assert h.join("classic", "").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.delete_groups("d", GROUP) == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    h.beat("a leaves", "A", -1)
    h.join_new("classic 2")
    assert h.group().group_type.value == "classic"
    assert h.fetch().committed_offset == 5
    assert not h.machine.subscribers.of("t")


def test_an_empty_group_can_be_deleted(h: StreamsHarness) -> None:
    """If this fails, applications that ended stay in all lists, or their records come back after a restart."""
    h.enter("a", "A", WORD_COUNT)
    h.beat("a leaves", "A", -1)
    assert h.delete_groups("d", GROUP) == {GROUP: ErrorCode.NONE}
    assert GROUP not in h.machine.groups
    h.restart()
    assert GROUP not in h.machine.groups
