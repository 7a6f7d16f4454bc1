from typing import NamedTuple, Protocol

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.replica import Replica

NO_EPOCH: int

class FollowerFetch(NamedTuple):
    """One partition of a follower's fetch; -1 for what the version of the request does not have."""

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
    """`diverging` is (epoch, end offset) of the newest epoch that both logs may share, where the follower's has other
    records.
    """

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    is_acknowledging: bool = False

def judge(replica: Replica, log: LeaderLog, fetch: FollowerFetch, has_mirrored: bool = False) -> Verdict: ...
def refusal(replica: Replica, fetch: FollowerFetch) -> ErrorCode: ...
