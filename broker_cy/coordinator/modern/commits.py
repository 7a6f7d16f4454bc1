"""The errors of transactional commits in groups whose members have epochs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from broker_cy.coordinator.group import CommitCheck
from broker_cy.core.errors import ErrorCode, KafkaError


@contextmanager
def stale_for_producers() -> Iterator[None]:
    """A stale epoch is ILLEGAL_GENERATION, which producers know."""
    try:
        yield
    except KafkaError as error:
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
            raise
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error


def for_producers(check: CommitCheck) -> CommitCheck:
    """The check of each partition, with the errors that producers know."""

    def check_partition(topic: str, topic_id: UUID, partition: int) -> None:
        with stale_for_producers():
            check(topic, topic_id, partition)

    return check_partition
