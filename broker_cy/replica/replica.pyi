from enum import IntEnum
from typing import Final, TypedDict

class Mark(TypedDict):
    offset: int
    bytes: int

class Output(TypedDict):
    high_watermark: int
    readable_bytes: int
    moved: bool
    wants_round: bool

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

    def __init__(self, leader_epoch: int) -> None: ...
    def open(self, end: int, synced_end: int) -> Output: ...
    def become(self, role: Role, leader_epoch: int) -> int: ...
    def wrote(self, end: int, synced_end: int, flush_messages: int) -> Output: ...
    def undo(self, error: int) -> Output: ...
    def begin_round(self) -> Output: ...
    def synced(self, synced_end: int) -> Output: ...
    def lose(self, error: int) -> Output: ...
