"""The state of share partitions: it is requested once, kept, requested again, and forgotten with its topic."""

from __future__ import annotations

from broker_cy.coordinator.share.state_calls import DeleteState, InitializeState
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import CallFailed
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.share_harness import ShareHarness

ALL = {("t", partition) for partition in range(4)}
RETRY_MS = 30_000


def starts(request: object) -> set[tuple[int, int]]:
    assert isinstance(request, InitializeState)
    return {each for offsets in request.start_offsets.values() for each in offsets.items()}


def test_state_is_requested_once_and_after_its_record() -> None:
    """If this fails, the state of consumed records is reset (KAFKA-19204), or state without a group is left."""
    h = ShareHarness()
    h.hold = True
    h.enter("join", "m")
    assert h.calls == []
    h.write()
    for number in range(3):
        h.beat(number, "m", 2)
    h.write()
    (request,) = h.serve()
    assert isinstance(request, InitializeState)
    assert (request.group_id, request.state_epoch, request.keeps) == (GROUP, 2, False)
    assert starts(request) == {(partition, -1) for partition in range(4)}
    h.write()
    h.beat("after", "m", 2)
    assert h.calls == []


def test_state_of_a_lost_record_is_not_requested() -> None:
    """If this fails, a deleted group leaves state behind that a later group of its id stumbles over."""
    h = ShareHarness()
    h.hold = True
    h.enter("join", "m")
    h.fail()
    assert h.calls == []
    h.hold = False
    h.enter("again", "m")
    assert len(h.serve()) == 1
    assert h.initialized() == ALL


def test_partitions_that_fail_are_requested_again_by_the_next_heartbeat() -> None:
    """If this fails, members never get a partition whose share coordinator was away for a while (KAFKA-19204)."""
    h = ShareHarness()
    h.enter("join", "m")
    h.state.failing = {1: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    h.serve()
    assert (h.initialized(), h.initializing()) == (ALL - {("t", 1)}, set())
    h.state.failing = {}
    h.advance(1_000)
    h.beat("again", "m", 2)
    assert h.assigned("again") == ALL - {("t", 1)}
    (request,) = h.serve()
    assert starts(request) == {(1, -1)}
    h.advance(1_000)
    h.beat("all", "m", 3)
    assert h.assigned("all") == ALL


def test_a_request_that_fails_whole_is_made_again() -> None:
    """If this fails, members get no partitions after a defect of the service."""
    h = ShareHarness()
    h.enter("join", "m")
    (call,) = h.calls
    h.calls = []
    h.run(call.then, *call.about, CallFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "a defect"))
    assert (h.initialized(), h.initializing()) == (set(), set())
    h.beat("again", "m", 2)
    assert len(h.serve()) == 1
    assert h.initialized() == ALL


def test_an_answer_that_is_not_noted_is_asked_for_again_and_keeps_the_state() -> None:
    """If this fails, a partition is stuck in initialization, or what was consumed of it is delivered again."""
    h = ShareHarness()
    h.enter("join", "m")
    h.hold = True
    h.serve()
    h.fail()
    h.hold = False
    assert h.initializing() == ALL
    for key in h.state.states:
        h.state.states[key] = (2, 100)
    h.advance(RETRY_MS - 1)
    h.beat("early", "m", 2)
    assert h.calls == []
    h.advance(1)
    h.beat("due", "m", 2)
    (request,) = h.serve()
    assert isinstance(request, InitializeState)
    assert request.keeps
    assert h.initialized() == ALL
    assert set(h.state.states.values()) == {(2, 100)}


def test_state_of_an_earlier_group_is_deleted() -> None:
    """If this fails, a group never reads a partition whose state a deleted group of its id has left behind."""
    h = ShareHarness(Topics(t=2))
    h.enter("join", "m")
    stale = SharePartitionKey(GROUP, topic_id("t"), 1)
    h.state.states[stale] = (9, 70)
    h.serve()
    (request,) = h.serve()
    assert isinstance(request, DeleteState)
    assert request.groups == {GROUP: {topic_id("t"): frozenset({1})}}
    h.beat("again", "m", 2)
    h.serve()
    assert h.initialized() == {("t", 0), ("t", 1)}
    assert h.state.states[stale] == (3, -1)


def test_a_coordinator_that_is_replaced_deletes_no_newer_state() -> None:
    """If this fails, the coordinator of before deletes what members of the current one have consumed."""
    h = ShareHarness(Topics(t=2))
    h.enter("join", "m")
    h.state.states[SharePartitionKey(GROUP, topic_id("t"), 1)] = (9, 70)
    h.hold = True
    h.serve()
    h.fail()
    assert h.calls == []
    assert not h.sharers().under_way


def test_a_repeated_request_that_fails_is_repeated_and_keeps_the_state() -> None:
    """If this fails, an altered offset is reset because the share coordinator was away after the coordinator moved."""
    h = ShareHarness(Topics(t=1))
    h.alter("a", ("t", 0, 70))
    h.state.serve(h.calls[0].request)
    h.restart()
    h.state.failing = {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    h.serve()
    assert h.initializing() == {("t", 0)}
    h.state.failing = {}
    h.enter("join", "m")
    h.advance(RETRY_MS)
    h.beat("b", "m", h.answers["join"].member_epoch)
    (request,) = h.serve()
    assert isinstance(request, InitializeState)
    assert request.keeps
    assert [state[1] for state in h.state.states.values()] == [70]
    assert h.initialized() == {("t", 0)}


def test_a_request_that_takes_long_is_not_repeated() -> None:
    """If this fails, a second initialization arrives after members have begun to consume, and resets what they did."""
    h = ShareHarness()
    h.enter("join", "m")
    h.advance(RETRY_MS + 1)
    h.beat("b", "m", 2)
    assert len(h.calls) == 1
    h.serve()
    assert h.initialized() == ALL


def test_the_next_coordinator_asks_again_and_keeps_the_state() -> None:
    """If this fails, partitions are stuck after a move of the coordinator, or altered offsets are lost."""
    h = ShareHarness()
    h.enter("join", "m")
    h.state.serve(h.calls[0].request)
    for key in h.state.states:
        h.state.states[key] = (2, 7)
    before = len(h.log)
    h.restart()
    (request,) = h.serve()
    assert isinstance(request, InitializeState)
    assert request.keeps
    assert (h.initialized(), set(h.state.states.values())) == (ALL, {(2, 7)})
    assert len(h.log) == before + 1


def test_new_partitions_do_not_reset_the_others() -> None:
    """If this fails, a topic that grows is consumed from its start again."""
    h = ShareHarness(Topics(t=1))
    epoch = h.ready()
    h.change(h.topics.put("t", 3))
    h.beat("b", "m", epoch)
    (request,) = h.serve()
    assert starts(request) == {(1, -1), (2, -1)}
    assert h.initialized() == {("t", 0), ("t", 1), ("t", 2)}


def test_times_of_requests_are_forgotten_with_their_topics() -> None:
    """If this fails, the memory of a group grows with each topic that is created and deleted."""
    h = ShareHarness(Topics(t=1))
    epoch = h.ready()
    for _ in range(5):
        h.change(h.topics.delete("t"))
        h.change(h.topics.put("t", 1))
        h.advance(1_000)
        epoch = h.beat(f"b{h.mono_ms}", "m", epoch).member_epoch
        h.serve()
    assert len(h.sharers().asked_at_ms) == 1


def test_deleted_topics_are_forgotten() -> None:
    """If this fails, the record of a group grows with each topic that it has ever read."""
    h = ShareHarness(Topics(t=2, u=1))
    epoch = h.ready("m", "t", "u")
    h.change(h.topics.delete("t"))
    assert h.initialized() == {("u", 0)}
    h.change(h.topics.put("t", 1))
    h.advance(1_000)
    epoch = h.beat("b", "m", epoch).member_epoch
    h.serve()
    h.advance(1_000)
    h.beat("b2", "m", epoch)
    assert h.assigned("b2") == {("t", 0), ("u", 0)}


def test_a_topic_that_is_deleted_while_its_state_is_requested_stays_forgotten() -> None:
    """If this fails, a partition that does not exist is assigned."""
    h = ShareHarness()
    h.enter("join", "m")
    h.change(h.topics.delete("t"))
    h.serve()
    assert (h.initialized(), h.initializing()) == (set(), set())
    written = len(h.log)
    h.advance(1_000)
    epoch = h.beat("b", "m", 2).member_epoch
    written = len(h.log)
    h.beat("b2", "m", epoch)
    assert len(h.log) == written


def test_topics_that_no_coordinator_saw_deleted_are_forgotten_after_a_start() -> None:
    """If this fails, a group keeps partitions of topics that were deleted while its coordinator was down, and begins
    another epoch with each heartbeat.
    """
    h = ShareHarness(Topics(t=2, u=1))
    epoch = h.ready("m", "t", "u")
    h.topics.delete("t")
    h.restart()
    assert h.initialized() == {("u", 0)}
    h.advance(1_000)
    epoch = h.beat("b", "m", epoch).member_epoch
    written = len(h.log)
    h.beat("b2", "m", epoch)
    assert len(h.log) == written


def test_initialized_topics_that_do_not_exist_begin_no_epochs() -> None:
    """If this fails, each heartbeat writes records, because of a topic whose deletion could not be noted."""
    h = ShareHarness(Topics(t=2, u=1))
    epoch = h.ready("m", "t", "u")
    h.hold = True
    h.change(h.topics.delete("t"))
    h.fail()
    h.hold = False
    h.advance(1_000)
    epoch = h.beat("b", "m", epoch).member_epoch
    assert len(h.sharers().share_partitions.initialized) == 2
    written = len(h.log)
    h.beat("b2", "m", epoch)
    assert len(h.log) == written
