"""StreamsGroupDescribe."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.streams.describe import describe
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.streams_harness import WORD_COUNT, StreamsHarness


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def test_a_group_is_described_as_its_written_records_have_it(h: StreamsHarness) -> None:
    """If this fails, an operator sees a state that another coordinator would not have."""
    h = StreamsHarness(Topics(t=4, words=4, counts=4))
    h.enter("a", "A", WORD_COUNT, endpoint=("host-a", 9))
    description = describe(h.written().get(GROUP), GROUP)
    shown = description.whole()
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Stable", 2, 2)
    assert shown.topology is not None
    assert shown.topology.subtopologies is not None
    assert [topic.partitions for topic in shown.topology.subtopologies[1].state_changelog_topics] == [4]
    assert description.topics == {"t", "words", "counts"}
    member = shown.members[0]
    assert (member.member_id, member.process_id, member.client_host) == ("A", "process-A", "/127.0.0.1")
    assert member.user_endpoint is not None
    assert member.assignment == member.target_assignment
    assert {each.subtopology_id for each in member.assignment.active_tasks} == {"0", "1"}
    h.hold = True
    h.enter("b", "B", WORD_COUNT)
    assert describe(h.written().get(GROUP), GROUP).whole() == shown
    h.write()
    assert describe(h.written().get(GROUP), GROUP).group.group_epoch == 3
    assert [(g.group_type, g.protocol_type) for g in h.list_groups(types=["Streams"])] == [("streams", "streams")]
    assert describe(None, "x").group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
