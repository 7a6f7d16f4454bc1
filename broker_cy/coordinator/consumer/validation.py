"""The checks of a ConsumerGroupHeartbeat that need no group, in Kafka's order."""

from __future__ import annotations

from collections.abc import Collection

from broker_cy.coordinator.consumer.member import NO_REBALANCE_TIMEOUT_MS, STATIC_LEAVE_EPOCH
from broker_cy.coordinator.modern.member import JOIN_EPOCH, LEAVE_EPOCH
from broker_cy.coordinator.modern.validation import check_text, invalid
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import messages

# From this version on, the client makes the member id.
VERSION_CLIENT_MEMBER_ID = 1


def check_request(request: messages.ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raises KafkaError."""
    epoch = request.member_epoch
    if version >= VERSION_CLIENT_MEMBER_ID or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        check_text("MemberId", request.member_id)
    check_text("GroupId", request.group_id)
    check_text("InstanceId", request.instance_id)
    check_text("RackId", request.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise invalid(f"InstanceId is missing, and member epoch {epoch} is for static members")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid(f"MemberEpoch {epoch} is less than {STATIC_LEAVE_EPOCH}")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not one of {', '.join(assignors)}",
        )


def _check_join(request: messages.ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT_MS:
        raise invalid("RebalanceTimeoutMs is missing; a member that joins has to send it")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid("TopicPartitions is not empty; a member that joins owns nothing")
    # An empty subscription makes a member without topics.
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid("SubscribedTopicNames and SubscribedTopicRegex are missing; a member that joins has to send one")
