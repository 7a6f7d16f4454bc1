"""The heartbeat of a share group's member with nothing new, which is answered without an operation."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.share import heartbeat
from broker_cy.coordinator.share.steady import steady_heartbeat
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import RESOURCE_GROUP
from broker_cy.wire import messages
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.share_harness import ShareHarness

SESSION_MS = 45_000
EPOCH = 3
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def h() -> ShareHarness:
    """A member that has all partitions, at epoch 3, and has sent one heartbeat since."""
    h = ShareHarness()
    assert h.ready("m") == EPOCH
    h.beat("again", "m", EPOCH)
    return h


def steady(h: ShareHarness, *, client: str = "client", host: str = "127.0.0.1", **fields: Any) -> Any:
    request = {"group_id": GROUP, "member_id": "m", "member_epoch": EPOCH, **fields}
    found = steady_heartbeat(h.machine, messages.ShareGroupHeartbeatRequest(**request), client, host, h.now)
    return None if found is None else found.answer


def test_it_is_the_answer_of_the_operation(h: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member learns another epoch or interval than with Kafka, or heartbeats are slow."""
    found = steady(h)
    assert found is not None
    monkeypatch.setattr(heartbeat, "steady_heartbeat", lambda *_: None)
    written = len(h.log)
    assert found == h.beat("full", "m", EPOCH)
    assert len(h.log) == written


def test_it_prolongs_the_session(h: ShareHarness) -> None:
    """If this fails, share consumers that work are removed after 45 s."""
    h.advance(SESSION_MS - 1)
    assert steady(h) is not None
    h.advance(SESSION_MS - 1)
    assert "m" in h.sharers().members
    h.advance(1)
    assert h.sharers().members == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"member_epoch": EPOCH - 1},
        {"member_epoch": EPOCH + 1},
        {"member_epoch": 0, "subscribed_topic_names": ["t"]},
        {"member_epoch": -1},
        {"member_id": "other"},
        {"group_id": "other"},
        {"rack_id": "rack"},
        {"subscribed_topic_names": ["t"]},
        {"client": "other"},
        {"host": "10.0.0.1"},
    ],
    ids=lambda fields: f"{min(fields)}={fields[min(fields)]}",
)
def test_a_request_that_may_change_something_is_not_steady(h: ShareHarness, fields: dict[str, Any]) -> None:
    """If this fails, the coordinator ignores what a member says: its subscription, that it leaves."""
    assert steady(h) is not None
    assert steady(h, **fields) is None


def test_a_member_that_has_something_to_learn_is_not_steady(h: ShareHarness) -> None:
    """If this fails, a member keeps partitions that the group has given to another one."""
    h.advance(1_000)
    h.enter("b joins", "b")
    assert steady(h) is None
    epoch = h.beat("m again", "m", EPOCH).member_epoch
    assert epoch == EPOCH + 1
    assert steady(h) is None
    assert steady(h, member_epoch=epoch) is not None


def test_new_partitions_get_state_and_members(h: ShareHarness) -> None:
    """If this fails, records in the new partitions of a topic are never read."""
    h.change(h.topics.put("t", 5))
    assert steady(h) is None
    epoch = h.beat("new partition", "m", EPOCH).member_epoch
    assert h.initializing() == {("t", 4)}
    # The share coordinator has not answered: another heartbeat may have to ask it again.
    assert steady(h, member_epoch=epoch) is None
    h.serve()
    assert steady(h, member_epoch=epoch) is None
    h.advance(1_000)
    epoch = h.beat("assigned", "m", epoch).member_epoch
    assert ("t", 4) in (h.assigned("assigned") or set())
    h.beat("after it", "m", epoch)
    assert steady(h, member_epoch=epoch) is not None


def test_an_initialization_that_failed_is_repeated(h: ShareHarness) -> None:
    """If this fails, a partition whose state could not be made once stays without readers forever."""
    h.state.failing[4] = UNKNOWN
    h.change(h.topics.put("t", 5))
    epoch = h.beat("new partition", "m", EPOCH).member_epoch
    h.serve()
    h.state.failing.clear()
    h.advance(30_001)
    assert steady(h, member_epoch=epoch) is None
    h.beat("after it", "m", epoch)
    h.serve()
    assert ("t", 4) in h.initialized()


def test_a_changed_setting_reaches_a_steady_member(h: ShareHarness) -> None:
    """If this fails, members keep the old interval until their group is rebalanced."""
    assert steady(h) is not None
    changed = h.machine.image.branch()
    changed.configs.set(RESOURCE_GROUP, GROUP, "share.heartbeat.interval.ms", "7000")
    h.machine.image.absorb(changed)
    assert steady(h).heartbeat_interval_ms == 7_000
