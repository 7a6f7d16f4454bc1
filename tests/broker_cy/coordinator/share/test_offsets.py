"""AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

from typing import Any

from broker_cy.coordinator.share.state_calls import InitializeState
from broker_cy.coordinator.step import CallFailed
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP, durable
from tests.broker_cy.coordinator.share_harness import ShareHarness

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def altered(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    assert answer.error_code == NONE, answer
    return {
        (topic.topic_name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.responses
        for each in topic.partitions
    }


def deleted(answer: Any) -> dict[str, tuple[ErrorCode, str | None]]:
    assert answer.error_code == NONE, answer
    return {topic.topic_name: (ErrorCode(topic.error_code), topic.error_message) for topic in answer.responses}


def test_start_offsets_are_altered() -> None:
    """If this fails, an administrator cannot make a group read a topic again."""
    h = ShareHarness(Topics(t=2, u=1))
    h.ready()
    h.beat("leave", "m", -1)
    epoch = h.sharers().epoch
    assert h.alter("a", ("t", 1, 70), ("t", 2, 5), ("u", 0, 3), ("missing", 0, 1)) is None
    (request,) = h.serve()
    assert isinstance(request, InitializeState)
    assert (request.state_epoch, request.keeps) == (epoch, False)
    assert altered(h.answers["a"]) == {("t", 1): NONE, ("t", 2): UNKNOWN, ("u", 0): NONE, ("missing", 0): UNKNOWN}
    assert [topic.topic_id for topic in h.answers["a"].responses][:2] == [topic_id("t"), topic_id("u")]
    offsets = {(key.topic_id, key.partition): state[1] for key, state in h.state.states.items()}
    assert offsets == {(topic_id("t"), 0): -1, (topic_id("t"), 1): 70, (topic_id("u"), 0): 3}
    assert (h.initialized(), h.initializing()) == ({("t", 0), ("t", 1), ("u", 0)}, set())


def test_a_group_is_made_for_its_offsets() -> None:
    """If this fails, offsets cannot be set before the first member joins, or the first member resets them."""
    h = ShareHarness(Topics(t=2))
    h.alter("a", ("t", 0, 70))
    h.serve()
    assert altered(h.answers["a"]) == {("t", 0): NONE}
    assert [(group.group_state, group.group_type) for group in h.list_groups()] == [("Empty", "share")]
    h.enter("join", "m")
    assert h.assigned("join") == {("t", 0)}
    (request,) = h.serve()
    assert isinstance(request, InitializeState)
    assert request.start_offsets == {topic_id("t"): {1: -1}}
    assert {key.partition: state[1] for key, state in h.state.states.items()} == {0: 70, 1: -1}


def test_nothing_is_made_without_a_partition_to_alter() -> None:
    """If this fails, a mistyped topic makes a group."""
    h = ShareHarness()
    assert altered(h.alter("a", ("missing", 0, 1), ("t", 4, 1))) == {("missing", 0): UNKNOWN, ("t", 4): UNKNOWN}
    # Kafka fails on a negative partition of a topic that exists.
    assert h.alter("b", ("missing", 0, 1), ("t", -1, 1)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (h.list_groups(), h.calls, h.log) == ([], [], [])


def test_groups_with_members_and_other_groups_are_refused() -> None:
    """If this fails, offsets change under members."""
    h = ShareHarness()
    h.ready()
    h.machine.ensure_simple_group("classic", 0)
    before = durable(h.machine)
    assert h.alter("a", ("t", 0, 1)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert h.alter("b", ("t", 0, 1), group_id="classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.delete_start_offsets("c", "t").error_code == ErrorCode.NON_EMPTY_GROUP
    assert h.delete_start_offsets("d", "t", group_id="classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.delete_start_offsets("e", "t", group_id="missing").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert durable(h.machine) == before


def test_each_partition_has_the_code_of_the_share_coordinator() -> None:
    """If this fails, an administrator believes that an offset is set."""
    h = ShareHarness(Topics(t=2))
    h.state.failing = {1: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    h.alter("a", ("t", 0, 1), ("t", 1, 1))
    h.serve()
    assert altered(h.answers["a"]) == {("t", 0): NONE, ("t", 1): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (h.initialized(), h.initializing()) == ({("t", 0)}, set())
    h.alter("b", ("t", 0, 1))
    (call,) = h.calls
    h.run(call.then, *call.about, CallFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "a defect"))
    assert altered(h.answers["b"]) == {("t", 0): ErrorCode.UNKNOWN_SERVER_ERROR}


def test_an_alteration_and_an_initialization_do_not_overtake_each_other() -> None:
    """If this fails, an altered offset is reset by the request of a member that has left."""
    h = ShareHarness()
    h.enter("join", "m")
    h.beat("leave", "m", -1)
    assert h.alter("early", ("t", 0, 9)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    h.serve()
    h.alter("a", ("t", 0, 9))
    h.enter("again", "m")
    assert len(h.calls) == 1
    h.serve()
    assert {state[1] for state in h.state.states.values()} == {9, -1}
    assert altered(h.answers["a"]) == {("t", 0): NONE}


def test_an_alteration_that_is_not_noted_is_kept() -> None:
    """If this fails, an altered offset is lost when the coordinator moves before it has noted the answer."""
    h = ShareHarness(Topics(t=1))
    h.alter("a", ("t", 0, 9))
    h.hold = True
    h.serve()
    h.fail()
    assert altered(h.answers["a"]) == {("t", 0): NONE}
    h.hold = False
    h.restart()
    h.serve()
    assert h.initialized() == {("t", 0)}
    assert [state[1] for state in h.state.states.values()] == [9]


def test_an_alteration_that_fails_keeps_the_one_before_that_is_not_noted() -> None:
    """If this fails, an altered offset is reset by the first member after two faults: the note of the alteration could
    not be written, and the answer to the next one was lost.
    """
    h = ShareHarness(Topics(t=1))
    h.alter("a", ("t", 0, 9))
    h.hold = True
    h.serve()
    h.fail()
    h.hold = False
    h.state.failing = {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    h.alter("b", ("t", 0, 5))
    h.serve()
    assert altered(h.answers["b"]) == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (h.initialized(), h.initializing()) == (set(), {("t", 0)})
    h.state.failing = {}
    h.advance(30_000)
    h.enter("join", "m")
    h.serve()
    assert h.initialized() == {("t", 0)}
    assert [state[1] for state in h.state.states.values()] == [9]


def test_the_offsets_of_topics_are_deleted() -> None:
    """If this fails, an administrator cannot make a group forget a topic."""
    h = ShareHarness(Topics(t=2, u=1, v=1))
    h.ready("m", "t", "u")
    h.beat("leave", "m", -1)
    assert h.delete_start_offsets("d", "t", "v", "missing") is None
    assert h.sharers().share_partitions.deleting == {topic_id("t")}
    h.serve()
    assert deleted(h.answers["d"]) == {
        "t": (NONE, None),
        "v": (UNKNOWN, "There is no offset information to delete."),
        "missing": (UNKNOWN, "This server does not host this topic-partition."),
    }
    assert (h.initialized(), h.sharers().share_partitions.deleting) == ({("u", 0)}, frozenset())
    assert {key.topic_id for key in h.state.states} == {topic_id("u")}


def test_a_deletion_that_fails_is_repeated() -> None:
    """If this fails, half of a topic's offsets stay, and no request can delete them."""
    h = ShareHarness(Topics(t=2))
    h.ready()
    h.beat("leave", "m", -1)
    h.state.failing = {1: ErrorCode.NOT_COORDINATOR}
    h.delete_start_offsets("d", "t")
    h.serve()
    assert deleted(h.answers["d"])["t"][0] is ErrorCode.NOT_COORDINATOR
    assert len(h.state.states) == 1
    h.state.failing = {}
    h.delete_start_offsets("again", "t")
    h.serve()
    assert deleted(h.answers["again"]) == {"t": (NONE, None)}
    assert h.state.states == {}


def test_a_member_that_joins_gets_new_state_of_a_deleted_topic() -> None:
    """If this fails, a topic is never read again after its offsets were deleted."""
    h = ShareHarness(Topics(t=1))
    h.ready()
    h.beat("leave", "m", -1)
    h.state.failing = {0: ErrorCode.NOT_COORDINATOR}
    h.delete_start_offsets("d", "t")
    h.serve()
    h.state.failing = {}
    epoch = h.ready("n")
    assert h.assigned("n beats") == {("t", 0)}
    assert [state[0] for state in h.state.states.values()] == [epoch]
    assert h.list_groups()[0].group_id == GROUP
