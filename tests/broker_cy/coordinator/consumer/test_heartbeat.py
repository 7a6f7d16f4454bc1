"""ConsumerGroupHeartbeat: joins, epochs, the handover of partitions, leaving, and deadlines."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.assignors.consumer_assignors import CONSUMER_ASSIGNORS
from broker_cy.coordinator.assignors.spec import Assignment, AssignorError, GroupSpec
from broker_cy.coordinator.consumer.describe import describe
from broker_cy.coordinator.consumer.validation import check_request
from broker_cy.coordinator.group_machine import DEADLINES_MAX
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import messages
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP, durable

T = topic_id("t")
ALL = {("t", 0), ("t", 1), ("t", 2), ("t", 3)}
SESSION_MS = 45_000


@pytest.fixture
def h() -> ConsumerHarness:
    return ConsumerHarness(Topics(t=4), consumer=ConsumerGroupSettings(assignment_interval_ms=0))


def two_members(h: ConsumerHarness) -> int:
    """A group whose members A and B have two partitions each; returns its epoch."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.beat("a revokes", "A", 2, owned={T: [0, 1, 2, 3]})
    kept = sorted(partition for _, partition in h.assigned("a revokes") or ())
    epoch: int = h.beat("a has revoked", "A", 2, owned={T: kept}).member_epoch
    assert h.beat("b gets them", "B", epoch).error_code == 0
    assert h.consumers().state_name == "Stable"
    return epoch


def test_the_first_member_gets_all_partitions(h: ConsumerHarness) -> None:
    """If this fails, a consumer that is alone does not read all partitions."""
    answer = h.enter("join", "A")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("A", 2, 5_000)
    assert h.assigned("join") == ALL
    assert h.beat("again", "A", 2).assignment is None
    assert h.consumers().state_name == "Stable"


def test_a_partition_is_given_on_after_it_was_given_up(h: ConsumerHarness) -> None:
    """If this fails, two consumers read one partition."""
    h.enter("a", "A")
    answer = h.enter("b", "B")
    assert (answer.member_epoch, h.assigned("b")) == (3, set())
    # The first one still reads everything, and learns what it may keep.
    assert h.beat("a 2", "A", 2, owned={T: [0, 1, 2, 3]}).member_epoch == 2
    kept = h.assigned("a 2")
    assert kept is not None
    assert len(kept) == 2
    assert h.beat("b 2", "B", 3).assignment is None
    assert h.beat("a 3", "A", 2, owned={T: [partition for _, partition in kept]}).member_epoch == 3
    assert h.beat("b 3", "B", 3).error_code == ErrorCode.NONE
    assert h.assigned("b 3") == ALL - kept


def test_several_joins_share_one_assignment() -> None:
    """If this fails, a group of 1,000 consumers that starts is assigned 1,000 times."""
    h = ConsumerHarness(Topics(t=4))
    h.enter("a", "A")
    assert h.enter("b", "B").member_epoch == 2
    h.enter("c", "C")
    assert (h.consumers().epoch, h.consumers().assignment_epoch) == (4, 2)
    h.advance(1_000)
    h.beat("a 2", "A", 2)
    assert (h.consumers().epoch, h.consumers().assignment_epoch) == (4, 4)


def test_a_lost_answer_can_be_asked_for_again(h: ConsumerHarness) -> None:
    """If this fails, a consumer that misses one answer starts from the beginning."""
    two_members(h)
    h.beat("b leaves", "B", -1)
    old = h.consumers().members["A"]
    new = h.beat("lost", "A", old.epoch, owned={T: list(old.assigned[T])}).member_epoch
    assert new == old.epoch + 1
    answer = h.beat("again", "A", old.epoch, owned={T: list(old.assigned[T])}, names=["t"], rebalance_ms=REBALANCE_MS)
    assert (answer.member_epoch, h.assigned("again")) == (new, ALL)
    # Without its partitions it might own others; and older epochs are over.
    assert h.beat("blind", "A", old.epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("older", "A", old.epoch - 1, owned={}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("newer", "A", new + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_join_again_at_any_time(h: ConsumerHarness) -> None:
    """If this fails, a consumer that did not receive the answer to its join is fenced (KAFKA-19233)."""
    epoch = two_members(h)
    answer = h.enter("again", "A")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, epoch)
    assert len(h.assigned("again") or ()) == 2


def test_refused_members(h: ConsumerHarness) -> None:
    """If this fails, consumers get errors that they do not expect, and stop."""
    assert h.beat("no group", "A", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.beat("no group to leave", "A", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    h.enter("a", "A")
    assert h.beat("unknown", "B", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.beat("unknown leaves", "B", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    h.join_new("x", group_id="classic")
    assert h.beat("classic", "A", 1, group_id="classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_group_takes_no_more_members() -> None:
    """If this fails, `group.consumer.max.size` is ignored, or a full group loses its own members."""
    h = ConsumerHarness(consumer=ConsumerGroupSettings(max_size=1))
    h.enter("a", "A")
    assert h.enter("b", "B").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.enter("a 2", "A").error_code == ErrorCode.NONE


def test_an_operation_that_fails_changes_nothing(h: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a refused consumer leaves its part of a rebalance behind."""

    def fail(spec: GroupSpec) -> dict[str, Assignment]:
        raise AssignorError("no topic")

    two_members(h)
    before, log = durable(h.machine), list(h.log)
    monkeypatch.setitem(CONSUMER_ASSIGNORS, "uniform", fail)
    assert h.enter("c", "C").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert durable(h.machine) == before
    assert h.log == log


# ---- topics ----


def test_more_partitions_are_read(h: ConsumerHarness) -> None:
    """If this fails, new partitions of a topic have no reader."""
    h.enter("a", "A")
    h.change(h.topics.put("t", 6))
    assert h.consumers().epoch == 2
    assert h.beat("a 2", "A", 2, owned={T: [0, 1, 2, 3]}).member_epoch == 3
    assert h.assigned("a 2") == ALL | {("t", 4), ("t", 5)}


def test_a_topic_that_comes_later_is_read(h: ConsumerHarness) -> None:
    """If this fails, a consumer that starts before its topic exists never reads it."""
    h.enter("a", "A", "later")
    assert h.assigned("a") == set()
    h.change(h.topics.put("later", 1))
    h.beat("a 2", "A", 2, owned={})
    assert h.assigned("a 2") == {("later", 0)}


def test_a_change_of_the_subscription(h: ConsumerHarness) -> None:
    """If this fails, a consumer goes on reading a topic that it has unsubscribed from."""
    h.change(h.topics.put("u", 1))
    h.enter("a", "A")
    answer = h.beat("other", "A", 2, names=["u"], owned={T: [0, 1, 2, 3]})
    assert (answer.member_epoch, h.assigned("other")) == (2, set())
    assert h.beat("done", "A", 2, owned={}).member_epoch == 3
    assert h.assigned("done") == {("u", 0)}
    assert not h.consumers().is_subscribed("t")


# ---- static members ----


def test_a_static_member_comes_back_without_a_rebalance(h: ConsumerHarness) -> None:
    """If this fails, each restart of a static member moves partitions."""
    h.enter("a", "A", instance_id="one")
    epoch = h.consumers().epoch
    assert h.enter("taken", "B", instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert h.beat("fenced", "B", 2, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert h.beat("unknown", "B", 2, instance_id="two").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.beat("leaves", "A", -2, instance_id="one").member_epoch == -2
    assert h.consumers().members["A"].epoch == -2
    answer = h.enter("back", "B", instance_id="one")
    assert (answer.member_epoch, h.assigned("back")) == (epoch, ALL)
    assert (list(h.consumers().members), h.consumers().epoch) == (["B"], epoch)
    assert h.commit("old", 5, member_id="A", generation=epoch, topic_id=T) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_missed_its_answer_joins_again(h: ConsumerHarness) -> None:
    """If this fails, a static member is refused for a session timeout because of its own instance id."""
    h.enter("a", "A", instance_id="one")
    assert h.enter("again", "A", instance_id="one").error_code == ErrorCode.NONE
    assert h.assigned("again") == ALL


def test_a_static_member_that_does_not_come_back_is_removed(h: ConsumerHarness) -> None:
    """If this fails, its partitions are never read again."""
    h.enter("a", "A", instance_id="one")
    h.enter("b", "B")
    h.beat("leaves", "A", -2, instance_id="one")
    for number in range(5):
        h.advance(SESSION_MS // 5)
        h.beat(f"b {number}", "B", h.consumers().members["B"].epoch)
    h.beat("b last", "B", h.consumers().members["B"].epoch, owned={}, names=["t"], rebalance_ms=REBALANCE_MS)
    assert h.assigned("b last") == ALL


# ---- deadlines ----


def test_a_silent_member_is_removed(h: ConsumerHarness) -> None:
    """If this fails, no consumer reads the partitions of one that crashed."""
    epoch = two_members(h)
    h.advance(SESSION_MS - 1)
    h.beat("b still", "B", epoch)
    assert len(h.consumers().members) == 2
    h.advance(1)
    assert list(h.consumers().members) == ["B"]
    h.beat("b 2", "B", epoch, owned={T: list(h.consumers().members["B"].assigned[T])})
    assert h.assigned("b 2") == ALL


def test_a_member_that_gives_nothing_up_is_removed(h: ConsumerHarness) -> None:
    """If this fails, one slow consumer blocks a rebalance forever."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.beat("a 2", "A", 2)
    h.advance(REBALANCE_MS - 1)
    h.beat("a 3", "A", 2)
    h.beat("b 2", "B", 3)
    assert "A" in h.consumers().members
    h.advance(1)
    assert "A" not in h.consumers().members


def test_sessions_begin_again_with_a_load(h: ConsumerHarness) -> None:
    """If this fails, members that died with the old coordinator stay forever."""
    two_members(h)
    h.restart()
    h.advance(SESSION_MS - 1)
    assert len(h.consumers().members) == 2
    h.advance(1)
    assert h.consumers().members == {}
    assert h.consumers().state_name == "Empty"


def test_a_member_whose_removal_failed_has_a_session(h: ConsumerHarness) -> None:
    """If this fails, it stays forever."""
    two_members(h)
    h.hold = True
    h.beat("leaves", "B", -1)
    h.fail()
    h.hold = False
    assert h.code("leaves") is ErrorCode.NOT_COORDINATOR
    assert "B" in h.consumers().members
    h.advance(SESSION_MS)
    assert h.consumers().members == {}


# ---- the request alone ----


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"member_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, 0, ErrorCode.NONE),
        ({"member_id": " "}, 1, ErrorCode.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": 1}, 0, ErrorCode.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": -1}, 0, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"rack_id": "\t"}, 1, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, 1, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, 1, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, 1, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, 1, ErrorCode.NONE),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": ""}, 1, ErrorCode.NONE),
        ({"member_epoch": -2}, 1, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2, "instance_id": "i"}, 1, ErrorCode.NONE),
        ({"member_epoch": -3}, 1, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, 1, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": "range"}, 1, ErrorCode.NONE),
    ],
)
def test_malformed_requests(fields: dict[str, object], version: int, code: ErrorCode) -> None:
    """If this fails, a client with a defect joins, or gets another error than from Kafka."""
    request = messages.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    if code is ErrorCode.NONE:
        check_request(request, version, ("uniform", "range"))
    else:
        with pytest.raises(KafkaError) as error:
            check_request(request, version, ("uniform", "range"))
        assert error.value.code is code


@pytest.mark.parametrize("names", [("uniform", "range"), ("range", "uniform")])
def test_of_two_assignors_that_as_many_want_it_is_one(h: ConsumerHarness, names: tuple[str, str]) -> None:
    """If this fails, a group is assigned by another assignor after its coordinator moved."""
    assert h.enter("a", "A", assignor=names[0]).error_code == ErrorCode.NONE
    assert h.enter("b", "B", assignor=names[1]).error_code == ErrorCode.NONE
    assert h.consumers().preferred_assignor("range") == "uniform"
    h.enter("c", "C", assignor="range")
    assert h.consumers().preferred_assignor("uniform") == "range"


def test_describe(h: ConsumerHarness) -> None:
    """If this fails, tools show groups that do not exist, or not who reads what."""
    two_members(h)
    group = describe(h.machine.groups[GROUP], GROUP, "uniform", h.topics.image).whole()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert group.assignor_name == "uniform"
    read = [(t.topic_name, p) for m in group.members for t in m.assignment.topic_partitions for p in t.partitions]
    assert sorted(read) == sorted(ALL)
    assert describe(None, "x", "uniform", h.topics.image).group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    h.join_new("y", group_id="x")
    refused = describe(h.machine.groups["x"], "x", "uniform", h.topics.image).group
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == "Group x is not a consumer group."


def test_many_sessions_that_end_together_are_ended_in_parts(h: ConsumerHarness) -> None:
    """If this fails, the consumers of a large group that lost its network are never removed: the records for all of
    them do not fit into one batch.
    """
    for number in range(3 * DEADLINES_MAX):
        h.enter(number, f"member-{number}")
    h.mono_ms += SESSION_MS
    assert len(h.take(h.machine.expire(h.now)).records) <= 4 * DEADLINES_MAX
    assert len(h.consumers().members) == 2 * DEADLINES_MAX
    h.advance(0)
    assert h.consumers().members == {}
