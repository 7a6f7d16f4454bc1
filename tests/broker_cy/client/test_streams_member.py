"""A member of a streams group (KIP-1071) without a broker."""

from __future__ import annotations

import math
from typing import Any

import pytest

from broker_cy.client.group_member import RETRY_S, MemberSettings, Revoke, Send, State
from broker_cy.client.streams_member import Endpoint, Role, Status, StreamsMember, StreamsSettings, Task
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

Request = messages.StreamsGroupHeartbeatRequest
Response = messages.StreamsGroupHeartbeatResponse
INTERVAL_S = 5.0
TOPOLOGY = Request.Topology(epoch=0, subtopologies=[Request.Subtopology(subtopology_id="0", source_topics=["in"])])


def new(instance: str | None = None) -> StreamsMember:
    settings = StreamsSettings(TOPOLOGY, "process", "rack-1", Endpoint("host", 80), {"zone": "a"})
    return StreamsMember(MemberSettings("app", instance_id=instance), settings, lambda: "made")


def due(of: StreamsMember, now_s: float = 0.0) -> Any:
    """The request of the next action."""
    action = of.next(now_s)
    assert isinstance(action, Send), f"a heartbeat expected, not {action}"
    of.sent = action  # type: ignore[attr-defined]
    return action.request


def answer(of: StreamsMember, told: Any, now_s: float = 0.0) -> str:
    return of.take(of.sent, told, now_s)  # type: ignore[attr-defined]


def told(epoch: int, active: str | None = None, standby: str = "", **fields: Any) -> Any:
    """An answer; tasks are written as `0_1 0_2`."""
    return Response(
        member_id="made",
        member_epoch=epoch,
        heartbeat_interval_ms=int(INTERVAL_S * 1000),
        active_tasks=None if active is None else ids(active),
        standby_tasks=None if active is None else ids(standby),
        warmup_tasks=None if active is None else [],
        **{"status": None, "partitions_by_user_endpoint": None, **fields},
    )


def ids(text: str) -> list[Any]:
    parts = [each.split("_") for each in text.split()]
    return [Response.TaskIds(subtopology_id=name, partitions=[int(number)]) for name, number in parts]


def active(*numbers: int) -> frozenset[Task]:
    return frozenset(Task(Role.ACTIVE, "0", number) for number in numbers)


def reported(request: Any) -> tuple[list[int], list[int]] | None:
    if request.active_tasks is None:
        return None
    of = (request.active_tasks, request.standby_tasks)
    first, second = ([number for each in tasks for number in each.partitions] for tasks in of)
    return first, second


def joined(tasks: str = "0_0 0_1", standby: str = "") -> StreamsMember:
    """A member with these tasks, which it has reported."""
    of = new()
    due(of)
    assert answer(of, told(2, tasks, standby)) == ""
    if tasks or standby:
        due(of)
        assert answer(of, told(2)) == ""
    return of


def test_a_member_introduces_itself_and_reports_its_tasks() -> None:
    """If this fails, the coordinator refuses the member, or waits for its report for ever."""
    of = new()
    first = due(of)
    assert (first.member_id, first.member_epoch, first.process_id, first.rack_id) == ("made", 0, "process", "rack-1")
    assert (first.topology, first.rebalance_timeout_ms) == (TOPOLOGY, 300_000)
    assert (first.user_endpoint.host, first.user_endpoint.port) == ("host", 80)
    assert [(each.key, each.value) for each in first.client_tags] == [("zone", "a")]
    assert reported(first) == ([], [])
    answer(of, told(3, "0_1 0_0", "0_2"))
    report = due(of)
    assert (of.owned, reported(report)) == (active(0, 1) | {Task(Role.STANDBY, "0", 2)}, ([0, 1], [2]))
    assert (report.topology, report.process_id, report.member_epoch) == (None, None, 3)
    answer(of, told(3))
    assert of.next(INTERVAL_S - 1) is None
    assert of.wait_s(1.0) == INTERVAL_S - 1
    assert reported(due(of, INTERVAL_S)) is None


def test_a_task_is_given_up_before_it_is_reported_as_free() -> None:
    """If this fails, two members process one task, and records twice."""
    of = joined()
    due(of, INTERVAL_S)
    answer(of, told(2, "0_0 0_5"), INTERVAL_S)
    # The host is busy: heartbeats go on, and tell nothing.
    assert of.next(INTERVAL_S, may_join=False) is None
    beat = of.next(2 * INTERVAL_S, may_join=False)
    assert isinstance(beat, Send)
    assert reported(beat.request) is None
    action = of.next(2 * INTERVAL_S)
    assert action == Revoke(active(1))
    assert of.owned == active(0, 1)
    of.revoked(action.parts)
    assert reported(due(of, 2 * INTERVAL_S)) == ([0, 5], [])
    assert of.owned == active(0, 5)


def test_a_standby_that_becomes_active_changes_its_role() -> None:
    """If this fails, a task has no member after the one that processed it has gone."""
    of = joined("0_0", "0_1")
    due(of, INTERVAL_S)
    answer(of, told(3, "0_0 0_1"), INTERVAL_S)
    action = of.next(INTERVAL_S)
    assert action == Revoke(frozenset({Task(Role.STANDBY, "0", 1)}))
    of.revoked(action.parts)
    assert reported(due(of, INTERVAL_S)) == ([0, 1], [])


def test_a_report_without_an_answer_is_repeated() -> None:
    """If this fails, the coordinator waits for ever for a task that is free."""
    of = joined()
    due(of, INTERVAL_S)
    answer(of, told(2, "0_0"), INTERVAL_S)
    action = of.next(INTERVAL_S)
    assert isinstance(action, Revoke)
    of.revoked(action.parts)
    assert reported(due(of, INTERVAL_S)) == ([0], [])
    of.no_answer(of.sent, INTERVAL_S)  # type: ignore[attr-defined]
    assert of.is_coordinator_lost
    assert of.next(INTERVAL_S) is None
    assert reported(due(of, INTERVAL_S + RETRY_S)) == ([0], [])


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_all_tasks_and_joins_again(code: ErrorCode) -> None:
    """If this fails, a member goes on with tasks that another one has."""
    of = joined()
    due(of, INTERVAL_S)
    assert answer(of, Response(error_code=code), INTERVAL_S) == code.name
    assert (of.state, of.owned, of.fenced) == (State.UNJOINED, frozenset(), 1)
    again = due(of, INTERVAL_S + RETRY_S)
    assert (again.member_epoch, again.topology, reported(again)) == (0, TOPOLOGY, ([], []))


@pytest.mark.parametrize(
    ("code", "state", "lost"),
    [
        (ErrorCode.NOT_COORDINATOR, State.STABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, State.STABLE, False),
        (ErrorCode.STREAMS_INVALID_TOPOLOGY, State.FAILED, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, State.FAILED, False),
    ],
)
def test_other_errors(code: ErrorCode, state: State, lost: bool) -> None:
    """If this fails, a member gives up for a failure that passes, or repeats a request that cannot succeed."""
    of = joined()
    due(of, INTERVAL_S)
    answer(of, Response(error_code=code, error_message="the reason"), INTERVAL_S)
    assert (of.state, of.is_coordinator_lost) == (state, lost)
    assert (of.failure_text == "the reason") is (state is State.FAILED)


def test_statuses_and_endpoints_are_kept() -> None:
    """If this fails, an application waits without a reason, or asks the wrong instance for a key."""
    of = joined()
    due(of, INTERVAL_S)
    part = Response.TopicPartition(topic="in", partitions=[0, 1])
    there = Response.EndpointToPartitions(
        user_endpoint=Response.Endpoint(host="b", port=81), active_partitions=[part], standby_partitions=[]
    )
    fields: dict[str, Any] = {
        "status": [Response.Status(status_code=1, status_detail="in is missing")],
        "endpoint_information_epoch": 7,
    }
    answer(of, told(2, **fields, partitions_by_user_endpoint=[there]), INTERVAL_S)
    assert list(of.statuses) == [Status(1, "in is missing")]
    assert of.endpoints == {Endpoint("b", 81): (frozenset({("in", 0), ("in", 1)}), frozenset())}
    assert due(of, 2 * INTERVAL_S).endpoint_information_epoch == 7
    answer(of, told(2), 2 * INTERVAL_S)
    assert list(of.statuses) == []
    assert len(of.endpoints) == 1


def test_offsets_are_told_once() -> None:
    """If this fails, no warm-up becomes active, or each heartbeat repeats old offsets."""
    of = joined()
    assert of.offset_interval_s == math.inf
    of.tell_offsets({("0", 1): 5}, {("0", 1): 9})
    request = due(of, INTERVAL_S)
    assert [(each.partition, each.offset) for each in request.task_offsets] == [(1, 5)]
    assert [(each.partition, each.offset) for each in request.task_end_offsets] == [(1, 9)]
    answer(of, told(2, task_offset_interval_ms=60_000), INTERVAL_S)
    assert of.offset_interval_s == 60.0
    assert due(of, 2 * INTERVAL_S).task_offsets is None


def test_the_application_is_shut_down_at_once() -> None:
    """If this fails, other instances go on with a failure that stops this one."""
    of = joined()
    of.shut_down_application()
    assert due(of, 0.5).shutdown_application


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_leaving_is_a_heartbeat(instance: str | None, epoch: int) -> None:
    """If this fails, the group waits for the session of a member that has left, or moves the tasks of one that only
    starts again.
    """
    of = new(instance)
    assert of.leave() is None
    due(of)
    answer(of, told(2, "0_0"))
    send = of.stop()
    assert send is not None
    assert (send.request.member_epoch, send.request.topology, of.state) == (epoch, None, State.UNJOINED)
    assert of.take(send, Response(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 0.0) == "UNKNOWN_MEMBER_ID"
    assert of.fenced == 0


@pytest.mark.parametrize("code", [3, 5])
def test_a_member_looks_again_soon_while_the_group_waits_for_the_coordinator(code: int) -> None:
    """If this fails, an application starts an interval of heartbeats late, or asks without end."""
    member = new()
    due(member)
    missing = [Response.Status(status_code=code, status_detail="app-changelog")]
    now_s, pauses = 0.0, []
    answer(member, told(1, "", status=missing), now_s)
    for _ in range(8):
        wait_s = member.wait_s(now_s)
        pauses.append(round(wait_s, 3))
        now_s += wait_s
        due(member, now_s)
        answer(member, told(1, "", status=missing), now_s)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, INTERVAL_S]
    now_s += member.wait_s(now_s)
    due(member, now_s)
    answer(member, told(1, "", status=[]), now_s)
    assert member.wait_s(now_s) == INTERVAL_S
