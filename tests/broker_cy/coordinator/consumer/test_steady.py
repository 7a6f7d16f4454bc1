"""The heartbeat of a member with nothing new, which is answered without an operation."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.consumer import heartbeat
from broker_cy.coordinator.consumer.member import ClassicMembership
from broker_cy.coordinator.consumer.steady import steady_heartbeat
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.coordinator.step import ClientFacts
from broker_cy.metadata.image import RESOURCE_GROUP
from broker_cy.wire import messages
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP

SESSION_MS = 45_000
CLIENT = ClientFacts("client", "/127.0.0.1", 1)
Request = messages.ConsumerGroupHeartbeatRequest
OWNED = [Request.TopicPartitions(topic_id=topic_id("t"), partitions=[0])]


@pytest.fixture
def h() -> ConsumerHarness:
    """A static member A that has all partitions, at epoch 2."""
    h = ConsumerHarness(Topics(t=2), consumer=ConsumerGroupSettings(assignment_interval_ms=0))
    assert h.enter("a", "A", instance_id="one").member_epoch == 2
    return h


def steady(
    h: ConsumerHarness, client: ClientFacts = CLIENT, **fields: Any
) -> messages.ConsumerGroupHeartbeatResponse | None:
    request = Request(**{"group_id": GROUP, "member_id": "A", "member_epoch": 2, "instance_id": "one", **fields})
    found = steady_heartbeat(h.machine, request, client.client_id, client.host.removeprefix("/"), h.now)
    return None if found is None else found.answer


def test_it_is_the_answer_of_the_operation(h: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member learns another epoch or interval than with Kafka."""
    found = steady(h)
    monkeypatch.setattr(heartbeat, "steady_heartbeat", lambda *_: None)
    assert found == h.beat("full", "A", 2, instance_id="one")
    assert found is not None


def test_it_prolongs_the_session(h: ConsumerHarness) -> None:
    """If this fails, consumers that work are removed after 45 s."""
    h.advance(SESSION_MS - 1)
    assert steady(h) is not None
    h.advance(SESSION_MS - 1)
    assert "A" in h.consumers().members
    h.advance(1)
    assert h.consumers().members == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"member_epoch": 1},
        {"member_epoch": 3},
        {"member_epoch": 0, "subscribed_topic_names": ["t"], "topic_partitions": [], "rebalance_timeout_ms": 1},
        {"member_epoch": -1},
        {"member_epoch": -2},
        {"member_id": "B"},
        {"group_id": "other"},
        {"instance_id": "two"},
        {"rack_id": "rack"},
        {"rebalance_timeout_ms": REBALANCE_MS},
        {"subscribed_topic_names": ["t"]},
        {"subscribed_topic_regex": "t.*"},
        {"server_assignor": "range"},
        {"topic_partitions": OWNED},
        {"client": CLIENT._replace(client_id="other")},
        {"client": CLIENT._replace(host="/10.0.0.1")},
    ],
    ids=lambda fields: f"{min(fields)}={fields[min(fields)]}",
)
def test_a_request_that_may_change_something_is_not_steady(h: ConsumerHarness, fields: dict[str, Any]) -> None:
    """If this fails, the coordinator ignores what a member says: its subscription, its partitions, that it leaves."""
    assert steady(h, **fields) is None


def test_a_member_that_has_something_to_learn_is_not_steady(h: ConsumerHarness) -> None:
    """If this fails, a rebalance never reaches the members."""
    h.enter("b", "B")
    # A has to give up a partition.
    assert steady(h) is None
    h.beat("a revokes", "A", 2, instance_id="one", owned={topic_id("t"): [0, 1]})
    assert h.consumers().members["A"].state is MemberState.UNREVOKED_PARTITIONS
    assert steady(h) is None
    # B waits for the partition.
    assert steady(h, member_id="B", member_epoch=3, instance_id=None) is None


def test_a_changed_setting_reaches_a_steady_member(h: ConsumerHarness) -> None:
    """If this fails, members keep the old interval until their group is rebalanced."""
    assert steady(h) is not None
    changed = h.machine.image.branch()
    changed.configs.set(RESOURCE_GROUP, GROUP, "consumer.heartbeat.interval.ms", "7000")
    h.machine.image.absorb(changed)
    found = steady(h)
    assert isinstance(found, messages.ConsumerGroupHeartbeatResponse)
    assert found.heartbeat_interval_ms == 7_000


def test_changed_topics_are_not_steady(h: ConsumerHarness) -> None:
    """If this fails, the new partitions of a topic are not read."""
    h.change(h.topics.put("t", 3))
    assert steady(h) is None
    assert h.beat("a 2", "A", 2, instance_id="one").member_epoch == 3
    assert steady(h, member_epoch=3) is not None


def test_members_that_come_together_are_not_steady() -> None:
    """If this fails, members that share the next assignment never get it."""
    h = ConsumerHarness(Topics(t=2))
    h.enter("a", "A")
    h.enter("b", "B")
    assert (h.consumers().epoch, h.consumers().assignment_epoch) == (3, 2)
    h.advance(1_000)
    assert steady(h, instance_id=None) is None


def test_new_topics_of_an_expression_are_not_steady() -> None:
    """If this fails, a consumer of ^orders.* never reads the topics that are created later."""
    h = ConsumerHarness(Topics(orders=1), consumer=ConsumerGroupSettings(assignment_interval_ms=0))
    first = h.beat("a", "A", 0, names=[], regex="orders.*", owned={}, rebalance_ms=REBALANCE_MS).member_epoch
    h.work()
    epoch = h.beat("a 2", "A", first).member_epoch
    assert steady(h, instance_id=None, member_epoch=epoch) is not None
    h.change(h.topics.put("orders.eu", 1))
    h.advance(10_001)
    assert steady(h, instance_id=None, member_epoch=epoch) is None


def test_the_first_expression_of_a_group_is_looked_up_by_all(h: ConsumerHarness) -> None:
    """If this fails, new topics of an expression are only found by the member that sent it."""
    assert steady(h) is not None
    before = h.consumers().steady["A"]
    regex = h.consumers().members["A"]._replace(member_id="R", instance_id=None, regex="t.*", assigned={})
    h.consumers().put_member("R", regex)
    assert "A" not in h.consumers().steady
    assert not before.prolong(h.machine, *h.now)


def test_a_member_of_the_classic_protocol_is_not_steady(h: ConsumerHarness) -> None:
    """If this fails, a member that comes back with the consumer protocol keeps the deadlines of the classic one."""
    member = h.consumers().members["A"]
    assert steady(h) is not None
    h.consumers().put_member("A", member._replace(classic=ClassicMembership(SESSION_MS, (("range", b""),))))
    assert steady(h) is None
