"""The checks of a ShareGroupHeartbeat that need no group, in Kafka's order."""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.modern.member import JOIN_EPOCH, LEAVE_EPOCH
from broker_cy.coordinator.modern.validation import check_text, invalid
from broker_cy.wire import messages

# The length of a UUID as text, which clients make.
MEMBER_ID_MAX: Final = 36


def check_member_id(member_id: str) -> None:
    """Raises KafkaError(INVALID_REQUEST). Kafka counts UTF-16 units."""
    if not 1 <= len(member_id.encode("utf-16-le", "surrogatepass")) // 2 <= MEMBER_ID_MAX:
        raise invalid("Invalid member id in the request.")


def check_request(request: messages.ShareGroupHeartbeatRequest) -> None:
    """Raises KafkaError(INVALID_REQUEST)."""
    check_text("MemberId", request.member_id)
    check_text("GroupId", request.group_id)
    check_text("RackId", request.rack_id)
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise invalid("SubscribedTopicNames is missing; a member that joins has to send it")
    if epoch < LEAVE_EPOCH:
        raise invalid(f"MemberEpoch {epoch} is less than {LEAVE_EPOCH}")
