"""The checks of a StreamsGroupHeartbeat that need no group, in Kafka's order."""

from __future__ import annotations

from broker_cy.coordinator.modern.member import JOIN_EPOCH
from broker_cy.coordinator.modern.validation import check_text, invalid
from broker_cy.coordinator.streams.member import NO_REBALANCE_TIMEOUT_MS, STATIC_LEAVE_EPOCH
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import messages

Request = messages.StreamsGroupHeartbeatRequest


def check_request(request: Request) -> None:
    """Raises KafkaError."""
    _check_features(request)
    check_text("MemberId", request.member_id)
    check_text("GroupId", request.group_id)
    check_text("RackId", request.rack_id)
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        raise invalid(f"InstanceId is missing, and member epoch {epoch} is for static members")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid(f"MemberEpoch {epoch} is less than {STATIC_LEAVE_EPOCH}")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(each is None for each in tasks) and any(each is not None for each in tasks):
        raise invalid("ActiveTasks, StandbyTasks and WarmupTasks must be sent together")
    if epoch != JOIN_EPOCH and request.topology is not None:
        raise invalid("Topology can be sent only by a member that joins")


def _check_features(request: Request) -> None:
    """As in Kafka 4.3, static members, task offsets, warm-up tasks and regular expressions are refused."""
    if request.instance_id is not None:
        raise invalid("Static membership is not supported yet")
    if request.task_offsets is not None:
        raise invalid("TaskOffsets are not supported yet")
    if request.task_end_offsets is not None:
        raise invalid("TaskEndOffsets are not supported yet")
    if request.warmup_tasks:
        raise invalid("WarmupTasks are not supported yet")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise invalid("Regular expressions of source topics are not supported yet")


def _check_join(request: Request) -> None:
    if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT_MS:
        raise invalid("RebalanceTimeoutMs is missing; a member that joins has to send it")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise invalid(f"{name} is not empty; a member that joins has no tasks")
    if request.topology is None:
        raise invalid("Topology is missing; a member that joins has to send it")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"the changelog topic {topic.name} has {topic.partitions} partitions in the topology; their number "
                    "must be left open",
                )
