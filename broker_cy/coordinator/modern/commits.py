"""Groups whose members commit offsets with their epoch: consumer and streams groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from broker_cy.coordinator.group import CommitCheck, GroupTable, names_member
from broker_cy.coordinator.modern.group import E, EpochGroup, T
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.wire import messages

# From this version on, OffsetCommit has the member epoch.
VERSION_MEMBER_EPOCH: Final = 9


class CommittingGroup(EpochGroup[E, T]):
    """It is deleted with its last offset, once it has no members."""

    __slots__ = ()

    # ---- what any group has ----

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.is_stable else "Reconciling"

    @property
    def is_unused(self) -> bool:
        return not self.members

    def check_deletion(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_offset_deletion(self) -> None:
        """Offsets of topics that the members do not read may be deleted at any time."""

    def retention_begin(self) -> Callable[[CommittedOffset], int] | None:
        return lambda offset: offset.commit_timestamp_ms

    # ---- commit and fetch ----

    def check_commit(
        self, machine: GroupTable, request: messages.OffsetCommitRequest, version: int, now: Now
    ) -> CommitCheck | None:
        """As in any group. A commit does not prolong the session."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return None
        member = self.member(request.member_id)
        if version < VERSION_MEMBER_EPOCH and self.sends_epochs(member):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {version} has no member epoch; use version {VERSION_MEMBER_EPOCH} or later",
            )
        return self._commit_check(member, epoch)

    def check_transactional_commit(self, request: messages.TxnOffsetCommitRequest) -> CommitCheck | None:
        """As in any group; a stale epoch is ILLEGAL_GENERATION, which the producer knows."""
        if not names_member(request) or (request.generation_id < 0 and not self.members):
            return None
        with _stale_for_producers():
            check = self._commit_check(self.member(request.member_id), request.generation_id)
        return None if check is None else _for_producers(check)

    def shows_offsets(self, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
        if request.member_id is None and request.member_epoch < 0:
            return True
        member = self.member(request.member_id or "")
        if request.member_epoch != member.epoch:
            raise KafkaError(
                self._stale(member),
                f"member epoch {request.member_epoch} is not the epoch {member.epoch} of the member",
            )
        return True

    # ---- what the types do differently ----

    def sends_epochs(self, member: E) -> bool:
        """Whether the member knows its epoch; otherwise, it has the generation of the classic protocol."""
        return True

    @abstractmethod
    def assigned_since(self, member: E, topic: str, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which the member reads the partition, also if it has to give it up; None if it does not."""

    def _stale(self, member: E) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if self.sends_epochs(member) else ErrorCode.ILLEGAL_GENERATION

    def _commit_check(self, member: E, epoch: int) -> CommitCheck | None:
        """Return the check of each partition for an epoch that is older than the member's; None if none is needed.
        Raises KafkaError for a newer one.
        """
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise KafkaError(
                self._stale(member), f"member epoch {epoch} is newer than the epoch {member.epoch} of the member"
            )

        def check(topic: str, topic_id: UUID, partition: int) -> None:
            since = self.assigned_since(member, topic, topic_id, partition)
            if since is None or epoch < since:
                raise KafkaError(
                    self._stale(member),
                    f"the member does not have partition {partition} of topic {topic or topic_id} since its epoch "
                    f"{epoch}",
                )

        return check


@contextmanager
def _stale_for_producers() -> Iterator[None]:
    """A stale epoch is ILLEGAL_GENERATION, which producers know."""
    try:
        yield
    except KafkaError as error:
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
            raise
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error


def _for_producers(check: CommitCheck) -> CommitCheck:
    """The check of each partition, with the errors that producers know."""

    def check_partition(topic: str, topic_id: UUID, partition: int) -> None:
        with _stale_for_producers():
            check(topic, topic_id, partition)

    return check_partition
