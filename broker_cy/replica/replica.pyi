from enum import IntEnum
from typing import Final, Literal, TypedDict

from broker_cy.replica.in_sync import Altered, Assigned, InSync, Proposal

class Mark(TypedDict):
    offset: int
    bytes: int

class Output(TypedDict):
    high_watermark: int
    readable_bytes: int
    moved: bool
    wants_round: bool
    wants_alter: bool

class Role(IntEnum):
    OFFLINE = 0
    FOLLOWER = 1
    LEADER = 2
    CLOSED = 3

PREDECESSORS: Final[dict[Role, tuple[Role, ...]]]

class Replica:
    """The state of one replica of a partition: see replica.pxd."""

    role: Role
    leader_epoch: int
    staged: Mark
    written: Mark
    high: Mark
    synced_end: int
    round_from: Mark
    round_end: int
    next_from: Mark
    error: int
    sync_lost: bool
    in_sync: InSync | None
    under_min: bool
    local_end_offset: int

    def __init__(self, leader_epoch: int) -> None: ...
    def open(self, end: int, synced_end: int, high_watermark: int = -1) -> Output: ...
    def report_staged(self, end: int, size: int) -> None: ...
    def fate_of(self, offset: int, committed: bool) -> Literal["PENDING", "DONE", "LOST", "MOVED", "TOO_FEW"]: ...
    def become(self, role: Role, leader_epoch: int) -> int: ...
    def wrote(self, end: int, synced_end: int, flush_messages: int) -> Output: ...
    def undo(self, error: int) -> Output: ...
    def begin_round(self) -> Output: ...
    def synced(self, synced_end: int) -> Output: ...
    def lose(self, error: int) -> Output: ...
    def lead(self, in_sync: InSync, image: Assigned, now_ms: int) -> Output: ...
    def fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start: int, now_ms: int) -> Output: ...
    def answered(self, proposal: Proposal, answer: Altered) -> Output: ...
    def tick(self, now_ms: int) -> Output: ...
    def follow(self, leader_epoch: int) -> Output: ...
    def learn(self, high_watermark: int) -> Output: ...
    def truncated(self, end: int) -> Output: ...
    def restarted(self, offset: int) -> Output: ...
