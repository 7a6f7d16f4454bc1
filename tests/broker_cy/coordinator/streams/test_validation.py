"""Requests of streams groups that are refused before any group is looked up."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.streams.validation import check_request
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import messages
from tests.broker_cy.coordinator.streams_harness import STATELESS, Part, topology

Request = messages.StreamsGroupHeartbeatRequest


def _valid(**how: object) -> Request:
    fields: dict[str, object] = {
        "group_id": "g",
        "member_id": "A",
        "rebalance_timeout_ms": 1,
        "topology": STATELESS,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    return Request(**{**fields, **how})  # type: ignore[arg-type]


CHANGELOG = topology(Part(["t"], changelogs=["c"]))
CHANGELOG.subtopologies[0].state_changelog_topics[0].partitions = 3
REGEX = topology(Part(["t"]))
REGEX.subtopologies[0].source_topic_regex = ["t.*"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (_valid(), None),
        (_valid(member_epoch=3, topology=None), None),
        (_valid(member_epoch=-1, topology=None), None),
        (_valid(instance_id="i"), ErrorCode.INVALID_REQUEST),
        (_valid(task_offsets=[]), ErrorCode.INVALID_REQUEST),
        (_valid(task_end_offsets=[]), ErrorCode.INVALID_REQUEST),
        (_valid(member_epoch=3, topology=None, warmup_tasks=[Request.TaskIds()]), ErrorCode.INVALID_REQUEST),
        (_valid(topology=REGEX), ErrorCode.INVALID_REQUEST),
        (_valid(member_id=" "), ErrorCode.INVALID_REQUEST),
        (_valid(group_id=""), ErrorCode.INVALID_REQUEST),
        (_valid(rack_id="\t"), ErrorCode.INVALID_REQUEST),
        (_valid(rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (_valid(active_tasks=None), ErrorCode.INVALID_REQUEST),
        (_valid(standby_tasks=[Request.TaskIds()]), ErrorCode.INVALID_REQUEST),
        (_valid(topology=None), ErrorCode.INVALID_REQUEST),
        (_valid(topology=CHANGELOG), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (_valid(member_epoch=-2, topology=None), ErrorCode.INVALID_REQUEST),
        (_valid(member_epoch=-3, topology=None), ErrorCode.INVALID_REQUEST),
        (_valid(member_epoch=3, topology=None, standby_tasks=None), ErrorCode.INVALID_REQUEST),
        (_valid(member_epoch=3), ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_that_no_group_is_needed_to_refuse(request_: Request, code: ErrorCode | None) -> None:
    """If this fails, clients get other errors than from Kafka, or break a group."""
    if code is None:
        check_request(request_)
        return
    with pytest.raises(KafkaError) as error:
        check_request(request_)
    assert error.value.code is code
