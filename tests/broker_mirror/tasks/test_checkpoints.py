"""Checkpoints, and offsets of groups in the target: the scenarios of MirrorCheckpointTaskTest, as rows."""

from __future__ import annotations

import pytest

from broker_cy.admin.group_offsets import Committed, CommittedOffset
from broker_cy.admin.group_values import GroupListing
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_offsets import ShareOffset
from broker_mirror.formats.checkpoints import Checkpoint
from broker_mirror.tasks.checkpoints import Checkpoints, LastCheckpoint, plan_checkpoints
from broker_mirror.tasks.groups import (
    ABSENT,
    committing_groups,
    may_commit,
    plan_offsets,
    plan_share_offsets,
    relevant,
    share_groups,
)
from broker_mirror.translation import Translation
from tests.broker_mirror.tasks.flow_rows import flow_of

T0, REMOTE = TopicPartition("t", 0), TopicPartition("A.t", 0)


def committed(offset: int, topic: str = "t") -> Committed:
    return {TopicPartition(topic, 0): CommittedOffset(offset, -1, "note")}


def translation() -> Translation:
    """Records 100 to 199 of t-0 are at 0 to 99 in the target."""
    found = Translation()
    found.add("t", 0, 100, 0, 100)
    return found


def point(source: int, target: int) -> Checkpoint:
    return Checkpoint("g", "A.t", 0, source, target, "note")


@pytest.mark.parametrize(
    ("offset", "before", "written"),
    [
        pytest.param(150, None, point(150, 50), id="the first one is exact"),
        pytest.param(200, None, point(200, 100), id="the end of the copied records is exact"),
        pytest.param(300, None, point(300, 100), id="an offset after them is their end"),
        pytest.param(50, None, None, id="an offset before them has none"),
        pytest.param(150, point(150, 50), None, id="an equal one is not written again"),
        pytest.param(160, point(150, 50), point(160, 60), id="a newer one is written"),
        pytest.param(300, point(200, 100), None, id="no record was copied since"),
        pytest.param(120, point(150, 50), point(120, 20), id="a group that went back in the source"),
        pytest.param(150, point(140, 90), None, id="an offset of the target does not go back by itself"),
    ],
)
def test_checkpoints_to_write(offset: int, before: Checkpoint | None, written: Checkpoint | None) -> None:
    """If this fails, a group reads records again after a failover, or skips some."""
    known = Checkpoints()
    if before is not None:
        known.apply(before)
    found = list(plan_checkpoints(flow_of(), {"g": committed(offset)}, translation(), known))
    assert found == ([] if written is None else [written])


def test_topics_that_are_not_copied_have_no_checkpoints() -> None:
    """If this fails, a checkpoint names a topic that does not exist."""
    groups = {"g": committed(150, "u"), "h": {**committed(150, "u"), **committed(150)}}
    flow = flow_of(topics="t")
    assert list(relevant(flow, groups)) == ["h"]
    assert [each.topic for each in plan_checkpoints(flow, groups, translation(), Checkpoints())] == ["A.t"]


def test_the_oldest_checkpoint_is_forgotten_first() -> None:
    """If this fails, many groups exhaust the memory of the mirror."""
    known = Checkpoints(2)
    for group in "ghg":
        known.apply(Checkpoint(group, "A.t", 0, 1, 1))
    known.apply(Checkpoint("i", "A.t", 0, 1, 1))
    assert list(known.of_groups("ghi")) == ["g", "i"]
    known.forget(("g", "A.t", 0))
    assert list(known.of_groups("ghi")) == ["i"]


def test_a_group_that_went_back_is_seen_in_the_records() -> None:
    """If this fails, the group of the target does not go back with its source."""
    known = Checkpoints()
    for each in (point(150, 50), point(120, 20)):
        known.apply(each)
    assert known.last("g", "A.t", 0) == LastCheckpoint(point(120, 20), 50)
    known.apply(point(130, 30))
    assert known.last("g", "A.t", 0) == LastCheckpoint(point(130, 30))


@pytest.mark.parametrize(
    ("state", "present", "last", "synced", "commits"),
    [
        pytest.param(ABSENT, None, LastCheckpoint(point(150, 50)), None, 50, id="a new group"),
        pytest.param("Empty", None, LastCheckpoint(point(150, 50)), None, 50, id="a new partition"),
        pytest.param("Empty", 40, LastCheckpoint(point(150, 50)), None, 50, id="a group behind its source"),
        pytest.param("Dead", 40, LastCheckpoint(point(150, 50)), None, 50, id="a dead group"),
        pytest.param("Stable", 40, LastCheckpoint(point(150, 50)), None, None, id="a group with members"),
        pytest.param("PreparingRebalance", 40, LastCheckpoint(point(150, 50)), None, None, id="members that join"),
        pytest.param("Empty", 50, LastCheckpoint(point(150, 50)), None, None, id="an equal offset"),
        pytest.param("Empty", 60, LastCheckpoint(point(150, 50)), None, None, id="a group that has gone on"),
        pytest.param("Empty", 50, LastCheckpoint(point(120, 20), 50), None, 20, id="a source that went back"),
        pytest.param("Empty", 40, LastCheckpoint(point(120, 20), 50), 40, 20, id="the same before the last sync"),
        pytest.param("Empty", 70, LastCheckpoint(point(120, 20), 50), 50, None, id="the same after a failover"),
    ],
)
def test_offsets_to_commit(
    state: str, present: int | None, last: LastCheckpoint, synced: int | None, commits: int | None
) -> None:
    """If this fails, a group in the target loses its place, or reads records again."""
    there = {} if present is None else {REMOTE: CommittedOffset(present, -1, "")}
    found = plan_offsets([last], state, there, {} if synced is None else {REMOTE: synced})
    assert found == ({} if commits is None else {REMOTE: commits})


def test_groups_are_chosen_by_type_and_filter() -> None:
    """If this fails, groups of Connect workers are created in the target, or a group has no checkpoints."""
    listings = [
        GroupListing("classic", "consumer", "Stable", "classic"),
        GroupListing("old", "consumer", "", ""),
        GroupListing("manual", "", "Empty", "classic"),
        GroupListing("new", "consumer", "Stable", "consumer"),
        GroupListing("new-topology", "streams", "Stable", "streams"),
        GroupListing("shared", "share", "Stable", "share"),
        GroupListing("worker", "connect", "Stable", "classic"),
        GroupListing("connect-sink", "consumer", "Stable", "classic"),
        GroupListing("console-consumer-1", "consumer", "Stable", "classic"),
    ]
    groups = flow_of().groups
    assert committing_groups(groups, listings) == ["classic", "old", "manual", "new", "new-topology"]
    assert share_groups(groups, listings) == ["shared"]
    assert committing_groups(flow_of(groups="n.*").groups, listings) == ["new", "new-topology"]
    states = ABSENT, "Empty", "Dead", "Stable", "Assigning"
    assert [each for each in states if may_commit(each)] == [ABSENT, "Empty", "Dead"]


@pytest.mark.parametrize(
    ("state", "start", "present", "sets"),
    [
        pytest.param(ABSENT, 150, None, 50, id="a new share group"),
        pytest.param("Empty", 150, 40, 50, id="a share group behind its source"),
        pytest.param("Empty", 150, 60, None, id="acknowledged records stay so"),
        pytest.param("Stable", 150, 40, None, id="a share group with members"),
        pytest.param("Empty", None, 40, None, id="a partition that was not read yet"),
        pytest.param("Empty", 50, 40, None, id="an offset without a translation"),
    ],
)
def test_start_offsets_of_share_groups(state: str, start: int | None, present: int | None, sets: int | None) -> None:
    """If this fails, a share group delivers records again after a failover."""
    source = {T0: ShareOffset(start, -1, None)}
    there = {} if present is None else {REMOTE: ShareOffset(present, -1, None)}
    assert plan_share_offsets(flow_of(), source, translation(), state, there) == (
        {} if sets is None else {REMOTE: sets}
    )
