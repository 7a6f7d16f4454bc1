from collections.abc import Sequence
from typing import NamedTuple, Protocol

from broker_cy.replica.replica import Replica

NONE: int

class Epochs(Protocol):
    """The leader epochs of a log (storage.epochs.LeaderEpochs)."""

    @property
    def latest_epoch(self) -> int: ...
    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...

class Ask(NamedTuple):
    """A follower's fetch of one partition. `offset` acknowledges everything before it."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int

class BatchSpan(NamedTuple):
    """The header of a fetched batch, as far as it is judged."""

    base_offset: int
    end_offset: int
    leader_epoch: int

class Answer(NamedTuple):
    """A leader's answer without an error. `diverging` is (epoch, end offset)."""

    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None = None
    batches: Sequence[BatchSpan] = ()

class Step(NamedTuple):
    """The steps of a follower, in this order; -1 leaves one out. `restart_at` replaces the whole log by an empty one
    that begins there. The high watermark moves when what was appended is written: `Replica.learn` limits it to that.
    Each time it has moved, and before a client can read, the log start moves as far as `log_start` says.
    """

    truncate_to: int = NONE
    restart_at: int = NONE
    append: int = 0  # the number of batches that are part of the log
    high_watermark: int = NONE
    log_start_offset: int = NONE
    is_ignored: bool = False

def ask(replica: Replica, epochs: Epochs) -> Ask | None: ...
def acknowledged_end(replica: Replica) -> int: ...
def take(replica: Replica, asked: Ask, answer: Answer, epochs: Epochs) -> Step: ...
def decide(asked: Ask, answer: Answer, epochs: Epochs) -> Step: ...
def has_all(replica: Replica, high_watermark: int) -> bool: ...
def opening_high_watermark(checkpointed: int, log_start: int) -> int: ...
def is_expected(replica: Replica, asked: Ask, epochs: Epochs) -> bool: ...
def belongs(base_offset: int, epoch: int, end: int, newest_epoch: int, leader_epoch: int) -> bool: ...
def log_start(leader_start: int, high_watermark: int) -> int: ...
def truncation(epochs: Epochs, log_end: int, diverging: tuple[int, int]) -> int: ...
def out_of_range(log_end: int, leader_start: int, leader_end: int) -> Step: ...
def begin_again(step: Step, log_start: int, leader_start: int = ...) -> Step: ...
