"""The offsets of groups in link flows."""

from __future__ import annotations

import pytest

from broker_cy.admin.group_offsets import CommittedOffset
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic, mirror_topic
from broker_cy.admin.share_offsets import ShareOffset
from broker_mirror.link.groups import Wanted, equal_offsets, share_starts, to_commit
from broker_mirror.link.mirrors import by_source

KEY, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
MIRROR = MirrorTopic("orders", "east", "orders", None, 2)
ENDS = {KEY: 100, OTHER: 50}


def committed(offset: int, text: str = "") -> CommittedOffset:
    return CommittedOffset(offset, 3, text)


def test_offsets_are_equal_as_far_as_the_mirror_has_the_records() -> None:
    """If this fails, a group that fails over reads records again, or continues where auto.offset.reset says."""
    mirrors = by_source([MIRROR])
    offsets = {KEY: committed(100, "note"), OTHER: committed(70), TopicPartition("payments", 0): committed(9)}
    assert equal_offsets(offsets, mirrors, ENDS) == {KEY: Wanted(100, "note"), OTHER: Wanted(50, "")}
    assert equal_offsets(offsets, mirrors, {KEY: 40}) == {KEY: Wanted(40, "note")}


def test_a_topic_may_have_another_name_and_several_mirrors() -> None:
    """If this fails, groups of mirrors with the names of MirrorMaker 2 have no offsets after a failover."""
    renamed = MIRROR._replace(name="A.orders", partitions=1)
    promoted = MIRROR._replace(name="old", link=None)
    mirrors = by_source([MIRROR, renamed, promoted])
    ends = {**ENDS, TopicPartition("A.orders", 0): 80, TopicPartition("old", 0): 80}
    found = equal_offsets({KEY: committed(90), OTHER: committed(20)}, mirrors, ends)
    assert found == {KEY: Wanted(90, ""), TopicPartition("A.orders", 0): Wanted(80, ""), OTHER: Wanted(20, "")}


def test_the_start_of_a_share_group_is_carried_over() -> None:
    """If this fails, a share group delivers every record again after a failover."""
    offsets = {KEY: ShareOffset(60, 1, 5, None), OTHER: ShareOffset(None, 1, None, None)}
    assert share_starts(offsets, by_source([MIRROR]), ENDS) == {KEY: 60}


@pytest.mark.parametrize(
    ("wanted", "present", "synced", "is_committed"),
    [
        (10, None, None, True),
        (10, 5, None, True),
        (10, 10, None, False),
        (10, 20, None, False),  # the group has gone on in the target
        (10, 20, 20, True),  # the group went back in the source
        (10, 20, 15, False),
    ],
)
def test_an_offset_does_not_go_back_by_itself(
    wanted: int, present: int | None, synced: int | None, is_committed: bool
) -> None:
    """If this fails, a group that reads in the target is set back, or one that was reset in the source is not."""
    there = {} if present is None else {KEY: present}
    known = {} if synced is None else {KEY: synced}
    assert to_commit({KEY: wanted}, there, known) == ({KEY: wanted} if is_committed else {})


def test_settings_of_a_topic_name_its_mirror() -> None:
    """If this fails, an ordinary topic is taken for a mirror, or a promoted one for an active one."""
    topic_id = "GwdKkBAzTqmDQxlIqXGwKg"
    assert mirror_topic("t", {"brokercy.mirror.link": ""}, 3) is None
    active = mirror_topic("t", {"brokercy.mirror.link": "east", "brokercy.mirror.source.topic": "s"}, 3)
    assert active is not None
    assert (active.link, active.source, active.source_id, len(active.keys)) == ("east", "s", None, 3)
    promoted = mirror_topic("t", {"brokercy.mirror.source.topic.id": topic_id}, 3)
    assert promoted is not None
    assert (promoted.link, promoted.source) == (None, "t")
    assert promoted.source_id is not None
