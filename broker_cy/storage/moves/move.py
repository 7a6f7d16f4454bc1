"""One move of a replica to another data directory, and what moves need of the owner of the logs.

States of a move, as in Kafka's assignment of directories (KIP-858):

- COPYING: workers of both disks copy the log (storage.moves.future_replica), one step at a time.
- REPORTED: the copy has nearly caught up, and the controller learns the target directory (`claim`).
- ACCEPTED: the metadata name the target directory (`accepted`). As soon as little is missing and nothing is staged, the
  copy becomes the log, in one turn of the loop: no request finds the partition without a log.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.log import Log
from broker_cy.storage.moves.future_replica import FutureReplica
from broker_cy.storage.moves.step_buffer import StepBuffer


class State(enum.Enum):
    COPYING = "copying"
    REPORTED = "reported"
    ACCEPTED = "accepted"


class Move:
    """One replica on its way, until it is at its goal or cancelled."""

    __slots__ = (
        "buffer",
        "failure",
        "future",
        "is_begun",
        "is_busy",
        "is_made",
        "is_over",
        "is_throttled",
        "key",
        "log",
        "state",
        "target",
        "timer",
        "truncated_to",
        "turns",
    )

    def __init__(self, key: TopicPartition, log: Log, target: DataDirectory, path: str) -> None:
        self.key = key
        self.log = log
        self.target = target
        self.future = FutureReplica(path, log.log_start_offset)
        self.buffer = StepBuffer()
        self.state = State.COPYING
        self.is_begun = False  # the directory of the copy exists, or is being made
        self.is_made = False  # it exists, with its topic id
        self.is_busy = False  # a step is in a worker
        self.is_over = False
        # Between two steps; None while no timer runs.
        self.timer: object | None = None
        # The throttle determines when the next step begins, or that none does.
        self.is_throttled = False
        # The lowest offset to which the log was truncated while a step ran.
        self.truncated_to: int | None = None
        # Turns in which it could not be swapped, see replica_moves.PATIENCE.
        self.turns = 0
        # The error of the last step, if it failed.
        self.failure = ""

    def __repr__(self) -> str:
        return f"Move({self.key[0]}-{self.key[1]} to {self.target.path}, {self.state.value}, {self.future.end_offset})"


class Host(Protocol):
    """The owner of the logs (LogManager)."""

    def may_swap(self, log: Log) -> bool:
        """Whether the log accepts appends: no truncation waits for its checkpoints."""

    def is_free(self, path: str) -> bool:
        """Whether no log that has moved away is still there."""

    def hold(self, key: TopicPartition, *, is_moving: bool) -> None:
        """Let the cleaner leave the log alone, or not any longer."""

    def discard(self, path: str) -> None:
        """Remove the directory of a copy, in the background."""

    def clear(self, path: str) -> None:
        """Give the directory of a partition that is not in use another name. Raises OSError."""

    def suspect(self, path: str | None, error: BaseException) -> None:
        """An access to a disk failed."""

    def arriving(self, key: TopicPartition, root: str) -> Callable[[], None]:
        """Work that writes the log start offset to the checkpoint of the target directory, before the swap."""

    def relocated(self, log: Log, old_path: str) -> None:
        """The log is in its new directory, and the old one still has its name."""

    def on_placed(self, topic: str, partition: int) -> None:
        """The directory that `claim` names has changed."""
