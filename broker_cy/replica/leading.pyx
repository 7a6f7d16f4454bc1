"""A leader's handling of a follower's fetch: the offset that it fetches from acknowledges all records before it."""

from broker_cy.replica.replica cimport LEADER, Replica

from typing import NamedTuple, Protocol

from broker_cy.core.errors import ErrorCode

NO_EPOCH = -1


class FollowerFetch(NamedTuple):
    """One partition of a follower's fetch; -1 for fields that the version of the request does not have."""

    broker_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderLog(Protocol):
    """A log as far as it is needed here (storage.log.Log)."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def written_end_offset(self) -> int: ...
    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...


class Verdict(NamedTuple):
    """`diverging` is (epoch, end offset) of the newest epoch that both logs may share, if the follower's log has other
    records.
    """

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    is_acknowledging: bool = False


ACKNOWLEDGING = Verdict(is_acknowledging=True)


def judge(Replica replica not None, log: LeaderLog, fetch: FollowerFetch, has_mirrored: bool = False) -> Verdict:
    """The decision on a fetch. A fetch acknowledges records only if it is of this leader epoch, of the follower's
    present incarnation, and of a log that does not diverge (KAFKA-13141, KAFKA-15221); the caller then reports it by
    `Replica.fetched`. `has_mirrored`: the partition is a mirror, or was one (replica.mirror).
    """
    error = refusal(replica, fetch)
    if error != ErrorCode.NONE:
        return Verdict(error)
    if fetch.last_fetched_epoch != NO_EPOCH:
        epoch, end_offset = log.end_offset_for_epoch(fetch.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            return Verdict(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < fetch.last_fetched_epoch or end_offset < fetch.offset:
            return Verdict(diverging=(epoch, end_offset))
    elif has_mirrored and fetch.log_start_offset > log.log_start_offset:
        # It has no records. A leader of the mirror, this one or one before, has begun its log again before that start, because the
        # source was truncated. The follower would acknowledge what was appended since.
        return Verdict(diverging=(replica.leader_epoch, log.log_start_offset))
    if not log.log_start_offset <= fetch.offset <= log.written_end_offset:
        return Verdict(ErrorCode.OFFSET_OUT_OF_RANGE)
    return ACKNOWLEDGING


def refusal(Replica replica not None, fetch: FollowerFetch) -> ErrorCode:
    """The error of a fetch that may not be served here, or NONE."""
    if fetch.leader_epoch not in (NO_EPOCH, replica.leader_epoch):
        is_old = fetch.leader_epoch < replica.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.role != LEADER:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.in_sync is None:
        return ErrorCode.UNKNOWN_LEADER_EPOCH if fetch.leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return replica.in_sync.refusal(fetch.broker_id, fetch.broker_epoch, fetch.leader_epoch)
