"""The heartbeat of a streams group's member with nothing new, which is answered without an operation."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.streams import heartbeat
from broker_cy.coordinator.streams.configure import Status
from broker_cy.coordinator.streams.steady import steady_heartbeat
from broker_cy.metadata.image import RESOURCE_GROUP
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.streams_harness import (
    REBALANCE_MS,
    STATELESS,
    WORD_COUNT,
    Request,
    StreamsHarness,
)

SESSION_MS = 45_000
EPOCH = 2
ALL = {"0": [0, 1, 2, 3]}


@pytest.fixture
def h() -> StreamsHarness:
    """A member A that has all tasks, at epoch 2."""
    h = StreamsHarness()
    assert h.enter("a", "A").member_epoch == EPOCH
    return h


def steady(h: StreamsHarness, *, client: str = "client", host: str = "127.0.0.1", **fields: Any) -> Any:
    request = {"group_id": GROUP, "member_id": "A", "member_epoch": EPOCH, **fields}
    found = steady_heartbeat(h.machine, Request(**request), client, host, h.now)
    return None if found is None else found.answer


def test_it_is_the_answer_of_the_operation(h: StreamsHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member learns another epoch or interval than with Kafka."""
    found = steady(h)
    monkeypatch.setattr(heartbeat, "steady_heartbeat", lambda *_: None)
    written = len(h.log)
    assert found == h.beat("full", "A", EPOCH)
    assert found is not None
    assert len(h.log) == written


def test_it_prolongs_the_session(h: StreamsHarness) -> None:
    """If this fails, instances that work are removed after 45 s."""
    h.advance(SESSION_MS - 1)
    assert steady(h) is not None
    h.advance(SESSION_MS - 1)
    assert "A" in h.streams().members
    h.advance(1)
    assert h.streams().members == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"member_epoch": EPOCH - 1},
        {"member_epoch": EPOCH + 1},
        {"member_epoch": 0, "topology": STATELESS},
        {"member_epoch": -1},
        {"member_id": "B"},
        {"group_id": "other"},
        {"endpoint_information_epoch": 1},
        {"instance_id": "one"},
        {"rack_id": "rack"},
        {"rebalance_timeout_ms": REBALANCE_MS},
        {"topology": STATELESS},
        {"active_tasks": []},
        {"standby_tasks": []},
        {"warmup_tasks": []},
        {"process_id": "process-A"},
        {"user_endpoint": Request.Endpoint(host="h", port=1)},
        {"client_tags": []},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"shutdown_application": True},
        {"client": "other"},
        {"host": "10.0.0.1"},
    ],
    ids=lambda fields: f"{min(fields)}={str(fields[min(fields)])[:20]}",
)
def test_a_request_that_may_change_something_is_not_steady(h: StreamsHarness, fields: dict[str, Any]) -> None:
    """If this fails, the coordinator ignores what a member says: its tasks, its topology, that it leaves."""
    assert steady(h) is not None
    assert steady(h, **fields) is None


def test_a_member_that_has_something_to_learn_is_not_steady(h: StreamsHarness) -> None:
    """If this fails, a rebalance never reaches the members."""
    assert steady(h) is not None
    h.enter("b", "B")
    # A has to give up tasks, and B waits for them.
    assert steady(h) is None
    h.beat("a revokes", "A", EPOCH, owned=ALL)
    assert steady(h) is None
    assert steady(h, member_id="B", member_epoch=EPOCH + 1) is None


def test_members_learn_the_endpoints_of_others() -> None:
    """If this fails, interactive queries go to an instance that has given the task away."""
    h = StreamsHarness()
    h.enter("a", "A", endpoint=("host-a", 1))
    h.enter("b", "B", endpoint=("host-b", 2))
    h.beat("a 2", "A", EPOCH, owned=ALL)
    tasks = h.active("a 2")
    assert tasks is not None
    epoch = h.beat("a 3", "A", EPOCH, owned=tasks).member_epoch
    seen = h.streams().endpoint_epoch
    assert steady(h, member_epoch=epoch, endpoint_information_epoch=seen).endpoint_information_epoch == seen
    h.beat("b 2", "B", epoch, endpoint_epoch=seen)
    assert h.streams().endpoint_epoch == seen + 1
    assert steady(h, member_epoch=epoch, endpoint_information_epoch=seen) is None
    found = steady(h, member_epoch=epoch, endpoint_information_epoch=seen + 1)
    assert found.endpoint_information_epoch == seen + 1


def test_a_shutdown_reaches_steady_members(h: StreamsHarness) -> None:
    """If this fails, an application whose instance has asked for a shutdown goes on."""
    assert steady(h) is not None
    h.beat("a stops", "A", EPOCH, shutdown=True)
    assert steady(h) is None
    assert Status.SHUTDOWN_APPLICATION in h.statuses("a stops")


def test_a_member_with_a_status_is_not_steady() -> None:
    """If this fails, an application does not learn that its topics are missing, or that its topology is old."""
    h = StreamsHarness(Topics(other=1))
    epoch = h.enter("a", "A").member_epoch
    assert Status.MISSING_SOURCE_TOPICS in h.statuses("a")
    assert steady(h, member_epoch=epoch) is None


def test_missing_internal_topics_are_not_steady() -> None:
    """If this fails, internal topics that could not be created once are never created."""
    h = StreamsHarness()
    epoch = h.enter("a", "A", WORD_COUNT).member_epoch
    h.lose_calls()
    assert steady(h, member_epoch=epoch) is None
    h.advance(60_000)
    epoch = h.enter("a again", "A", WORD_COUNT).member_epoch
    assert sorted(h.create()) == ["counts", "words"]
    epoch = h.beat("a 2", "A", epoch).member_epoch
    assert steady(h, member_epoch=epoch) is not None


def test_changed_topics_are_not_steady(h: StreamsHarness) -> None:
    """If this fails, the new partitions of a topic are not processed."""
    h.change(h.topics.put("t", 5))
    assert steady(h) is None
    epoch = h.beat("a 2", "A", EPOCH).member_epoch
    assert h.active("a 2") == {"0": {0, 1, 2, 3, 4}}
    assert steady(h, member_epoch=epoch) is not None


def test_a_changed_setting_reaches_a_steady_member(h: StreamsHarness) -> None:
    """If this fails, standby tasks that an operator asks for are not placed, or the interval stays."""
    assert steady(h) is not None
    changed = h.machine.image.branch()
    changed.configs.set(RESOURCE_GROUP, GROUP, "streams.heartbeat.interval.ms", "7000")
    h.machine.image.absorb(changed)
    assert steady(h).heartbeat_interval_ms == 7_000
    changed = h.machine.image.branch()
    changed.configs.set(RESOURCE_GROUP, GROUP, "streams.num.standby.replicas", "1")
    h.machine.image.absorb(changed)
    assert steady(h) is None
    h.beat("a 2", "A", EPOCH)
    assert h.streams().epoch == EPOCH + 1
