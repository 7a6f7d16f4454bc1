"""ShareGroupHeartbeat: joins, epochs, assignments, sessions, and the ends of memberships."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.settings import ShareGroupSettings
from broker_cy.coordinator.share import validation
from broker_cy.coordinator.share.describe import describe
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import RESOURCE_GROUP
from broker_cy.wire import messages
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP, durable
from tests.broker_cy.coordinator.share_harness import ShareHarness

ALL = {("t", partition) for partition in range(4)}


def test_a_member_gets_its_partitions_with_its_second_heartbeat() -> None:
    """If this fails, share consumers read nothing, or partitions whose state is not there."""
    h = ShareHarness()
    first = h.enter("join", "m")
    assert (first.member_id, first.member_epoch, first.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert h.assigned("join") == set()
    assert h.initializing() == ALL
    assert [int.from_bytes(record.key[:2], "big") for record in h.log] == [10, 11, 13, 12, 14, 15]
    h.serve()
    assert (h.initialized(), h.initializing()) == (ALL, set())
    h.advance(1_000)
    assert h.beat("beat", "m", 2).member_epoch == 3
    assert h.assigned("beat") == ALL
    written = len(h.log)
    h.beat("steady", "m", 3)
    assert (len(h.log), h.assigned("steady")) == (written, None)
    h.beat("full", "m", 3, ["t"])
    assert h.assigned("full") == ALL


def test_members_share_partitions_and_go_to_the_newest_epoch_at_once() -> None:
    """If this fails, a member waits for others that have its partitions, or none has some of them."""
    h = ShareHarness()
    h.ready("a")
    h.advance(1_000)
    h.enter("b joins", "b")
    assert h.answers["b joins"].member_epoch == 4
    assert len(h.assigned("b joins") or ()) == 2
    h.beat("a again", "a", 3)
    assert h.answers["a again"].member_epoch == 4
    assert h.assigned("a again") == ALL - (h.assigned("b joins") or set())
    # More members than partitions: several have the same one.
    for number in range(6):
        h.advance(1_000)
        h.enter(f"{number} joins", f"m{number}")
        assert len(h.assigned(f"{number} joins") or ()) >= 1


def test_several_joins_share_an_assignment() -> None:
    """If this fails, a group of 200 members that starts computes 200 assignments."""
    h = ShareHarness()
    h.ready("a")
    h.advance(1_000)
    h.enter("b", "b")
    epoch = h.sharers().assignment_epoch
    h.enter("c", "c")
    assert (h.sharers().assignment_epoch, h.sharers().epoch) == (epoch, epoch + 1)
    assert (h.assigned("c"), h.answers["c"].member_epoch) == (set(), epoch)
    h.advance(1_000)
    assert h.beat("again", "c", epoch).member_epoch == epoch + 1
    assert h.assigned("again")


@pytest.mark.parametrize(
    ("group_id", "member_id", "epoch", "code"),
    [
        ("missing", "m", 3, ErrorCode.GROUP_ID_NOT_FOUND),
        ("missing", "m", -1, ErrorCode.GROUP_ID_NOT_FOUND),
        (GROUP, "other", 3, ErrorCode.GROUP_MAX_SIZE_REACHED),
        (GROUP, "other", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (GROUP, "other", 0, ErrorCode.GROUP_MAX_SIZE_REACHED),
        (GROUP, "m", 4, ErrorCode.FENCED_MEMBER_EPOCH),
        (GROUP, "m", 1, ErrorCode.FENCED_MEMBER_EPOCH),
        (GROUP, "m", 2, ErrorCode.NONE),
        (GROUP, "m", 0, ErrorCode.NONE),
        ("classic", "m", 0, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_request_gets_kafkas_code(group_id: str, member_id: str, epoch: int, code: ErrorCode) -> None:
    """If this fails, a client that was removed goes on reading, or one that lost an answer cannot go on."""
    h = ShareHarness(share=ShareGroupSettings(max_size=1))
    h.machine.ensure_simple_group("classic", 0)
    assert h.ready() == 3
    before = durable(h.machine)
    h.beat("r", member_id, epoch, None if epoch else ["t"], group_id=group_id)
    assert h.code("r") is code
    if code is not ErrorCode.NONE:
        assert durable(h.machine) == before


def test_other_types_of_members_are_refused() -> None:
    """If this fails, consumers of another kind break a share group."""
    h = ShareHarness()
    h.ready()
    before = durable(h.machine)
    assert h.join("j", version=3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.commit("c", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.commit("c2", 1, member_id="m", generation=3) is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.delete_offsets("d", "t", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.fetch().committed_offset == -1
    assert durable(h.machine) == before
    consumers = ConsumerHarness()
    consumers.machine = h.machine
    consumers.enter("x", "x")
    assert consumers.code("x") is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_members_of_a_group_without_any_are_other_types() -> None:
    """If this fails, a classic consumer takes the id of a share group whose state it leaves behind."""
    h = ShareHarness()
    h.ready()
    h.beat("leave", "m", -1)
    assert h.sharers().state_name == "Empty"
    assert h.join("j", version=3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    h.advance(10 * 24 * 3_600_000)
    assert h.sharers().state_name == "Empty"


def test_a_member_leaves() -> None:
    """If this fails, no member reads the partitions of a member that is gone."""
    h = ShareHarness()
    h.ready("a")
    h.advance(1_000)
    h.enter("b", "b")
    assert h.beat("leave", "a", -1).member_epoch == -1
    assert h.sharers().epoch == 5
    h.advance(1_000)
    assert h.beat("b beats", "b", 4).member_epoch == 5
    assert h.assigned("b beats") == ALL


def test_a_silent_member_is_removed() -> None:
    """If this fails, no member reads the partitions of a member that has crashed."""
    h = ShareHarness()
    epoch = h.ready()
    h.advance(44_999)
    assert h.sharers().members
    h.beat("late", "m", epoch)
    h.advance(44_999)
    assert h.sharers().members
    h.advance(1)
    assert not h.sharers().members
    h.beat("too late", "m", epoch)
    assert h.code("too late") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_removal_is_undone_has_a_session() -> None:
    """If this fails, a member that crashed while a disk was full stays forever."""
    h = ShareHarness()
    h.ready()
    h.hold = True
    h.advance(45_000)
    assert not h.sharers().members
    h.fail()
    assert list(h.sharers().members) == ["m"]
    h.hold = False
    h.advance(45_000)
    assert not h.sharers().members


def test_sessions_begin_again_with_the_next_coordinator() -> None:
    """If this fails, a member that is gone stays after the coordinator has moved."""
    h = ShareHarness()
    epoch = h.ready()
    h.advance(44_000)
    h.restart()
    h.advance(44_000)
    h.beat("on", "m", epoch)
    assert h.code("on") is ErrorCode.NONE
    h.advance(45_000)
    assert not h.sharers().members


def test_settings_of_the_group_reach_members_with_the_next_heartbeat() -> None:
    """If this fails, a changed interval has no effect until members join again."""
    h = ShareHarness()
    epoch = h.ready()
    configs = h.topics.image.configs
    configs.set(RESOURCE_GROUP, GROUP, "share.heartbeat.interval.ms", "7000")
    configs.set(RESOURCE_GROUP, GROUP, "share.session.timeout.ms", "50000")
    assert h.beat("b", "m", epoch).heartbeat_interval_ms == 7_000
    h.advance(49_999)
    assert h.sharers().members
    h.advance(1)
    assert not h.sharers().members


def test_new_partitions_and_topics_are_read() -> None:
    """If this fails, share consumers do not read partitions that a topic got after they had joined."""
    h = ShareHarness(Topics(t=1))
    epoch = h.ready("m", "t", "u")
    h.change(h.topics.put("t", 2))
    h.change(h.topics.put("u", 1))
    h.advance(1_000)
    epoch = h.beat("1", "m", epoch).member_epoch
    h.serve()
    h.advance(1_000)
    h.beat("2", "m", epoch)
    assert h.assigned("2") == {("t", 0), ("t", 1), ("u", 0)}


def test_a_changed_subscription_cuts_the_assignment_at_once() -> None:
    """If this fails, a member reads on in a topic that it has unsubscribed from."""
    h = ShareHarness(Topics(t=2, u=2))
    epoch = h.ready("m", "t", "u")
    epoch = h.beat("u only", "m", epoch, ["u"]).member_epoch
    assert h.assigned("u only") == {("u", 0), ("u", 1)}
    # The next assignment is not due yet.
    h.beat("none", "m", epoch, [])
    assert h.assigned("none") == set()


def test_answers_wait_for_their_records() -> None:
    """If this fails, a member has an epoch that no coordinator knows after a failed write."""
    h = ShareHarness()
    h.hold = True
    assert h.enter("join", "m") is None
    h.fail()
    assert h.code("join") is ErrorCode.NOT_COORDINATOR
    assert GROUP not in h.machine.groups
    h.enter("again", "m")
    assert h.list_groups() == []
    h.write()
    assert h.code("again") is ErrorCode.NONE
    assert [group.group_state for group in h.list_groups()] == ["Stable"]


def test_a_loaded_group_goes_on() -> None:
    """If this fails, a move of the coordinator removes members, or gives them other partitions."""
    h = ShareHarness()
    h.ready("a")
    h.advance(1_000)
    h.enter("b", "b")
    h.beat("a", "a", 3)
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before
    written = len(h.log)
    h.beat("a2", "a", 4)
    h.beat("b2", "b", 4)
    assert len(h.log) == written


def test_describe_shows_what_is_written() -> None:
    """If this fails, kafka-share-groups shows members that are not there, or hides those that are."""
    h = ShareHarness()
    h.ready("m")
    h.hold = True
    h.enter("other", "other", rack_id="r")
    described = describe(h.written().get(GROUP), GROUP, "simple", h.topics.image).whole()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 3, 3)
    assert described.assignor_name == "simple"
    (member,) = described.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("m", 3, "client")
    assert (member.client_host, member.subscribed_topic_names, member.rack_id) == ("/127.0.0.1", ["t"], None)
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", [0, 1, 2, 3])
    h.write()
    assert len(describe(h.written().get(GROUP), GROUP, "simple", h.topics.image).whole().members) == 2
    for missing in (None, h.machine.ensure_simple_group("c", 0) and h.machine.groups["c"]):
        group = describe(missing or None, "c", "simple", h.topics.image).group
        assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId is empty"),
        ({"group_id": ""}, "GroupId is empty"),
        ({"rack_id": ""}, "RackId is empty"),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames is missing"),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames is missing"),
        ({"member_epoch": -2}, "MemberEpoch -2 is less"),
    ],
)
def test_malformed_requests_are_invalid(fields: dict[str, object], message: str) -> None:
    """If this fails, a broken client makes members that cannot be told apart."""
    good = {"group_id": GROUP, "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"]}
    validation.check_request(messages.ShareGroupHeartbeatRequest(**good))  # type: ignore[arg-type]
    with pytest.raises(KafkaError, match=message) as refused:
        validation.check_request(messages.ShareGroupHeartbeatRequest(**{**good, **fields}))  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("member_id", "is_valid"), [("", False), ("m" * 36, True), ("m" * 37, False), ("😀" * 19, False)]
)
def test_member_ids_are_not_longer_than_a_uuid(member_id: str, is_valid: bool) -> None:
    """If this fails, members without an id pass for one member."""
    if is_valid:
        validation.check_member_id(member_id)
    else:
        with pytest.raises(KafkaError, match="Invalid member id"):
            validation.check_member_id(member_id)
