"""The steps that the heartbeats of consumer, share and streams groups have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup, EpochMember
from broker_cy.coordinator.modern.journal import abandoned
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Token

# The response of one of these APIs.
R = TypeVar("R")


def answer(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    token: Token,
    heartbeat: Callable[[], R],
    error_response: Callable[[ErrorCode, str | None], R],
) -> None:
    """Answer when the records of the heartbeat are written. A heartbeat that is refused leaves none."""
    try:
        response = heartbeat()
    except KafkaError as error:
        abandoned(machine, step, group_id)
        machine.abandon(step)
        step.reply(token, error_response(error.code, error.message))
        return
    step.reply_when_written(token, response, error_response)


def check_size(group: EpochGroup[Any, Any], member_id: str, size_max: int) -> None:
    """Raises KafkaError(GROUP_MAX_SIZE_REACHED) if the group has no place for the member. A member that joins again has
    its place; Kafka 4.3 refuses it in a full streams group.
    """
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group {group.group_id} has {size_max} members, and no more may join"
        )


def fenced(member: EpochMember, epoch: int) -> KafkaError:
    """The error for an epoch that is not the member's."""
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member epoch {epoch} is not the epoch {member.epoch} of the member; it has to give up what it was assigned "
        "and join again",
    )
