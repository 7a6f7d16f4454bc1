"""StreamsGroupHeartbeat: joins, epochs, the handover of tasks, leaving, and deadlines."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment
from broker_cy.coordinator.settings import StreamsGroupSettings
from broker_cy.coordinator.streams.configure import Status
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import RESOURCE_GROUP
from broker_cy.metrics.events import StreamsStatus
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.harness import GROUP, durable
from tests.broker_cy.coordinator.streams_harness import (
    AT_ONCE,
    REBALANCE_MS,
    Part,
    StreamsHarness,
    topology,
)

ALL = {"0": {0, 1, 2, 3}}
SESSION_MS = 45_000


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def two_members(h: StreamsHarness) -> int:
    """A group whose members A and B have two tasks each; returns its epoch."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.beat("a revokes", "A", 2, owned=ALL)
    kept = h.active("a revokes")
    assert kept is not None
    epoch: int = h.beat("a has revoked", "A", 2, owned=kept).member_epoch
    assert h.beat("b gets them", "B", epoch).error_code == ErrorCode.NONE
    assert h.streams().state_name == "Stable"
    return epoch


def test_the_first_member_gets_all_tasks(h: StreamsHarness) -> None:
    """If this fails, an application that runs once does not process all partitions."""
    answer = h.enter("join", "A")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("A", 2, 5_000)
    assert (h.active("join"), answer.status) == (ALL, [])
    assert h.beat("again", "A", 2).active_tasks is None
    assert h.streams().state_name == "Stable"


def test_a_task_is_given_on_after_it_was_given_up(h: StreamsHarness) -> None:
    """If this fails, two members process one partition at the same time."""
    h.enter("a", "A")
    answer = h.enter("b", "B")
    assert (answer.member_epoch, h.active("b")) == (3, {})
    assert h.beat("a 2", "A", 2, owned=ALL).member_epoch == 2
    kept = h.active("a 2")
    assert kept is not None
    assert len(kept["0"]) == 2
    assert h.beat("b 2", "B", 3).active_tasks is None
    assert h.beat("a 3", "A", 2, owned=kept).member_epoch == 3
    h.beat("b 3", "B", 3)
    assert h.active("b 3") == {"0": ALL["0"] - kept["0"]}


def test_members_of_a_process_share_a_disk() -> None:
    """If this fails, two threads of a process open the state of one task, and both fail."""
    h = StreamsHarness(Topics(t=1, counts=1), streams=AT_ONCE._replace(standby_replicas=1))
    counting = topology(Part(["t"], changelogs=["counts"]))
    h.enter("a", "A", counting, process_id="p")
    h.enter("b", "B", counting, process_id="p")
    both = [h.streams().target_of(member_id) for member_id in "AB"]
    assert sorted(len(target.active) for target in both) == [0, 1]
    assert not any(target.standby for target in both)
    h.enter("c", "C", counting, process_id="q")
    assert h.tasks("c") == TaskAssignment({}, {"0": frozenset({0})}, {})


def test_a_standby_takes_over(h: StreamsHarness) -> None:
    """If this fails, an instance that crashes leaves its tasks to one that has to read the whole changelog first."""
    h = StreamsHarness(Topics(t=1, counts=1), streams=AT_ONCE._replace(standby_replicas=1))
    counting = topology(Part(["t"], changelogs=["counts"]))
    h.enter("a", "A", counting)
    h.enter("b", "B", counting)
    assert h.tasks("b") == TaskAssignment({}, {"0": frozenset({0})}, {})
    h.enter("c", "C", counting)
    h.beat("a leaves", "A", -1)
    # Its copy is given up first, then it is active.
    epoch = h.beat("b 2", "B", 3, owned={}, standby={"0": [0]}).member_epoch
    assert epoch == 3
    epoch = h.beat("b 3", "B", 3, owned={}, standby={}).member_epoch
    h.beat("b 4", "B", epoch, owned={}, standby={})
    assert h.streams().members["B"].assigned.active.keys() == {"0"}
    h.beat("c 2", "C", 4, owned={}, standby={})
    assert h.streams().members["C"].assigned.standby == {"0": frozenset({0})}


def test_more_copies_begin_an_epoch(h: StreamsHarness) -> None:
    """If this fails, a changed number of copies takes effect only with the next failure."""
    h = StreamsHarness(Topics(t=1, counts=1))
    counting = topology(Part(["t"], changelogs=["counts"]))
    h.enter("a", "A", counting)
    epoch = h.enter("b", "B", counting).member_epoch
    h.topics.image.configs.set(RESOURCE_GROUP, GROUP, "streams.num.standby.replicas", "1")
    h.advance(1_000)
    assert h.beat("b 2", "B", epoch).member_epoch == epoch + 1
    assert h.tasks("b 2") == TaskAssignment({}, {"0": frozenset({0})}, {})


def test_the_first_assignment_waits_for_more_members() -> None:
    """If this fails, an application that starts with ten instances moves its tasks ten times."""
    h = StreamsHarness(streams=StreamsGroupSettings())
    assert h.enter("a", "A").member_epoch == 1
    assert h.active("a") == {}
    assert list(h.statuses("a")) == [Status.ASSIGNMENT_DELAYED]
    h.enter("b", "B")
    assert h.streams().state_name == "Assigning"
    h.advance(3_000)
    assert (h.streams().epoch, h.streams().assignment_epoch) == (3, 3)
    for member_id in "AB":
        assert h.beat(member_id, member_id, 1).member_epoch == 3
        assert len((h.active(member_id) or {})["0"]) == 2


def test_several_joins_share_one_assignment() -> None:
    """If this fails, a large application that starts is assigned once for each of its threads."""
    h = StreamsHarness(streams=StreamsGroupSettings(initial_rebalance_delay_ms=0))
    h.enter("a", "A")
    assert h.enter("b", "B").member_epoch == 2
    assert list(h.statuses("b")) == [Status.ASSIGNMENT_DELAYED]
    h.advance(1_000)
    h.beat("a 2", "A", 2, owned=ALL)
    assert (h.streams().epoch, h.streams().assignment_epoch) == (3, 3)


def test_a_lost_answer_can_be_asked_for_again(h: StreamsHarness) -> None:
    """If this fails, a member that misses one answer loses its tasks and its state, or never gets its tasks."""
    epoch = two_members(h)
    h.beat("b leaves", "B", -1)
    kept = {"0": list(h.streams().members["A"].assigned.active["0"])}
    assert h.beat("lost", "A", epoch, owned=kept).member_epoch == epoch + 1
    assert h.beat("again", "A", epoch, owned=kept).member_epoch == epoch + 1
    assert h.active("lost") == h.active("again") == ALL
    h.beat("once more", "A", epoch + 1, owned=kept)
    assert h.active("once more") == ALL
    assert h.beat("told", "A", epoch + 1, owned=ALL).active_tasks is None
    assert h.beat("blind", "A", epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("older", "A", epoch - 1, owned={}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("newer", "A", epoch + 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    h.enter("joins", "A")
    assert (h.code("joins"), h.active("joins")) == (ErrorCode.NONE, ALL)


def test_refused_members(h: StreamsHarness) -> None:
    """If this fails, members get errors that they do not expect, and stop."""
    assert h.beat("no group", "A", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.beat("no group to leave", "A", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    h.enter("a", "A")
    assert h.beat("unknown", "B", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.beat("unknown leaves", "B", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    h.join_new("x", group_id="classic")
    assert h.enter("classic", "A", group_id="classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for token, owned in (("subtopology", {"7": [0]}), ("partition", {"0": [4]}), ("negative", {"0": [-1]})):
        assert h.beat(token, "A", 2, owned=owned).error_code == ErrorCode.INVALID_REQUEST


def test_a_full_group_takes_no_more_members() -> None:
    """If this fails, `group.streams.max.size` is ignored, or a full group loses its own members."""
    h = StreamsHarness(streams=AT_ONCE._replace(max_size=1))
    h.enter("a", "A")
    assert h.enter("b", "B").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.enter("a 2", "A").error_code == ErrorCode.NONE


def test_the_first_member_decides_the_topology(h: StreamsHarness) -> None:
    """If this fails, two versions of an application process the same tasks in different ways."""
    before = h.enter("a", "A", topology(Part(["t"]), epoch=1)) and durable(h.machine)
    assert h.enter("b", "B", topology(Part(["t"], sinks=["x"]), epoch=1)).error_code == ErrorCode.INVALID_REQUEST
    assert h.enter("c", "C", topology(Part(["t"]), epoch=2)).error_code == ErrorCode.INVALID_REQUEST
    assert durable(h.machine) == before
    h.enter("d", "D", topology(Part(["other"]), epoch=0))
    assert (h.code("d"), list(h.statuses("d"))) == (ErrorCode.NONE, [Status.STALE_TOPOLOGY])


def test_topologies_that_no_topics_fit(h: StreamsHarness) -> None:
    """If this fails, an application that cannot work waits forever, or a member breaks the coordinator."""
    loop = topology(Part(repartitions=["x"], sinks=["y"]), Part(repartitions=["y"], sinks=["x"]))
    assert h.enter("loop", "A", loop).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert h.enter("unwritten", "A", topology(Part(["t"], repartitions=["x"]))).error_code == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY
    )
    assert h.enter("nothing", "A", topology(Part(sinks=[]))).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    # Kafka fails on these.
    assert h.enter("negative", "A", topology(Part(["t"]), epoch=-1)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    wild = topology(Part(["t"], copartitions=[([3], [])]))
    assert h.enter("index", "A", wild).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert GROUP not in h.machine.groups


def test_topics_that_are_missing_or_do_not_fit(h: StreamsHarness) -> None:
    """If this fails, a member cannot tell its user why it does nothing."""
    answer = h.enter("a", "A", topology(Part(["t", "u"], copartitions=[([0, 1], [])])))
    assert (answer.member_epoch, h.active("a")) == (2, {})
    assert h.statuses("a") == {Status.MISSING_SOURCE_TOPICS: "Source topics u are missing."}
    assert h.streams().state_name == "NotReady"
    assert [group.group_state for group in h.list_groups(["NotReady"])] == ["NotReady"]
    h.change(h.topics.put("u", 2))
    h.beat("a 2", "A", 2)
    assert list(h.statuses("a 2")) == [Status.INCORRECTLY_PARTITIONED_TOPICS]
    h.change(h.topics.put("u", 4))
    h.beat("a 3", "A", 3)
    assert (h.statuses("a 3"), h.active("a 3")) == ({}, ALL)
    assert h.streams().state_name == "Stable"


def test_each_change_of_the_status_is_an_event(h: StreamsHarness) -> None:
    """If this fails, operators do not see why an application does nothing, or its heartbeats fill the log of events."""

    def reported() -> list[dict[str, str]]:
        found = [event for event in h.events if isinstance(event, StreamsStatus)]
        return [{each.status: each.detail for each in event.statuses} for event in found]

    h.enter("a", "A", topology(Part(["t", "u"], copartitions=[([0, 1], [])])))
    h.beat("a 2", "A", 2)
    missing = {"MISSING_SOURCE_TOPICS": "Source topics u are missing."}
    assert reported() == [missing]
    assert [event.topics for event in h.events if isinstance(event, StreamsStatus)] == [["u"]]
    h.change(h.topics.put("u", 2))
    h.beat("a 3", "A", 2)
    assert [list(each) for each in reported()] == [list(missing), ["INCORRECTLY_PARTITIONED_TOPICS"]]
    h.change(h.topics.put("u", 4))
    h.beat("a 4", "A", 3)
    h.beat("a 5", "A", h.answers["a 4"].member_epoch)
    assert reported()[2:] == [{}]


def test_more_partitions_are_processed(h: StreamsHarness) -> None:
    """If this fails, new partitions of a topic are not processed."""
    h.enter("a", "A")
    h.change(h.topics.put("t", 6))
    assert h.beat("a 2", "A", 2, owned=ALL).member_epoch == 3
    assert h.active("a 2") == {"0": {0, 1, 2, 3, 4, 5}}


def test_all_members_shut_down(h: StreamsHarness) -> None:
    """If this fails, an application whose handler asks for a shutdown goes on in its other instances."""
    two_members(h)
    h.beat("a stops", "A", 3, shutdown=True)
    assert list(h.statuses("a stops")) == [Status.SHUTDOWN_APPLICATION]
    h.beat("b stops", "B", 3)
    assert "member A " in h.statuses("b stops")[Status.SHUTDOWN_APPLICATION]
    h.beat("a leaves", "A", -1, shutdown=True)
    h.beat("b leaves", "B", -1)
    h.enter("c", "C")
    assert h.statuses("c") == {}


def test_members_find_each_others_state(h: StreamsHarness) -> None:
    """If this fails, interactive queries go to the wrong instance."""
    answer = h.enter("a", "A", endpoint=("host-a", 1), endpoint_epoch=-1)
    assert answer.endpoint_information_epoch == 1
    found = answer.partitions_by_user_endpoint
    assert [(each.user_endpoint.host, each.user_endpoint.port) for each in found] == [("host-a", 1)]
    assert [(each.topic, each.partitions) for each in found[0].active_partitions] == [("t", [0, 1, 2, 3])]
    assert h.beat("a 2", "A", 2, endpoint_epoch=1).partitions_by_user_endpoint is None
    answer = h.enter("b", "B", endpoint=("host-b", 2))
    assert answer.endpoint_information_epoch == 2
    assert h.beat("a 3", "A", 2, owned=ALL, endpoint_epoch=1).partitions_by_user_endpoint is not None


# ---- leave, sessions and rebalances ----


def test_members_that_leave_or_are_silent_give_their_tasks_on(h: StreamsHarness) -> None:
    """If this fails, no instance processes the tasks of one that ended."""
    epoch = two_members(h)
    answer = h.beat("b leaves", "B", -1)
    assert (answer.member_id, answer.member_epoch, answer.status) == ("B", -1, [])
    h.beat("a 2", "A", epoch)
    assert h.active("a 2") == ALL
    h.advance(SESSION_MS)
    assert h.streams().state_name == "Empty"
    assert not h.streams().active
    assert len(h.machine.timers) == 0


def test_a_member_that_keeps_its_tasks_is_removed(h: StreamsHarness) -> None:
    """If this fails, one member that hangs stops a rebalance forever."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.beat("a 2", "A", 2, owned=ALL)
    h.advance(REBALANCE_MS - 1)
    h.beat("a 3", "A", 2, owned=ALL)
    assert "A" in h.streams().members
    h.advance(1)
    assert list(h.streams().members) == ["B"]


def test_deadlines_begin_again_after_a_load(h: StreamsHarness) -> None:
    """If this fails, members that are gone stay after the coordinator has moved."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.beat("a 2", "A", 2, owned=ALL)
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before
    h.advance(REBALANCE_MS)
    assert list(h.streams().members) == ["B"]
    # The first heartbeat after the load compares the topology with the topics again.
    h.beat("b 2", "B", 3)
    assert h.active("b 2") == ALL
    h.advance(SESSION_MS)
    assert h.streams().state_name == "Empty"


def test_records_that_cannot_be_written_change_nothing(h: StreamsHarness) -> None:
    """If this fails, a full disk splits the members of a group."""
    two_members(h)
    before = durable(h.machine)
    h.hold = True
    h.enter("c", "C")
    h.beat("a 2", "A", 3)
    h.beat("b leaves", "B", -1)
    h.fail()
    assert durable(h.machine) == before
    assert {h.code(token) for token in ("c", "a 2", "b leaves")} == {ErrorCode.NOT_COORDINATOR}
    h.hold = False
    h.advance(SESSION_MS)
    assert h.streams().state_name == "Empty"
