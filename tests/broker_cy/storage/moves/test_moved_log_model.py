"""The log against a list of batches while it moves between two data directories, with crashes at any step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.moves import replica_moves
from broker_cy.storage.moves.move import Move, State
from tests.broker_cy.storage.managing import Manager, open_manager
from tests.broker_cy.storage.test_log_model import LogMachine

T = TypeVar("T")
KEY = ("t", 0)


class StepJobs(InlineJobs):
    """Steps of a copy wait in `held`; with `keeps` the work after a swap waits in `kept`. Other jobs run inline.
    `run_due` calls the timers that exist, each once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []
        self.kept: list[Callable[[], None]] = []
        self.keeps = False

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        # The check of a disk has no name.
        name = getattr(work, "__qualname__", "")
        if self.keeps and name.startswith("LogMoves."):
            self.kept.append(lambda: super(StepJobs, self).run(work, done))
        elif name.startswith("ReplicaMoves."):
            self.held.append(lambda: super(StepJobs, self).run(work, done))
        else:
            super().run(work, done)

    def answer(self) -> None:
        """Let the workers do all steps."""
        while self.held or self.due:
            self.run_due()
            if not self.held:
                return
            self.held.pop(0)()

    def run_due(self) -> None:
        for _ in range(3):
            due, self.due = self.due, []
            for _, callback in due:
                callback()


class MovedLogMachine(LogMachine):
    """`recorded`: the directory that the metadata name for the partition, if any."""

    recorded: UUID | None = None

    def opened_manager(self) -> Manager:
        return open_manager(
            f"{self.root}/a",
            f"{self.root}/b",
            config=self.config,
            jobs=StepJobs(),
            directory_id_of=lambda topic, partition: self.recorded,
        )

    @property
    def jobs(self) -> StepJobs:
        assert isinstance(self.manager.jobs, StepJobs)
        return self.manager.jobs

    @property
    def move(self) -> Move | None:
        return self.manager.moves.moves.get(KEY)

    @rule()
    def begin_move(self) -> None:
        here = os.path.dirname(self.log.directory)
        (target,) = (each for each in self.manager.data_directories if each.path != here)
        self.manager.moves.start(KEY, self.log, target)

    @precondition(lambda self: self.move is not None)
    @rule(times=st.integers(1, 8))
    def work(self, times: int) -> None:
        for _ in range(times):
            self.jobs.run_due()
            if self.jobs.held:
                self.jobs.held.pop(0)()

    @precondition(lambda self: self.move is not None and self.move.state is State.REPORTED)
    @rule()
    def accept(self) -> None:
        assert self.move is not None
        assert self.manager.place_of(*KEY) == self.move.target.directory_id
        self.recorded = self.move.target.directory_id
        self.manager.moves.accepted(KEY, self.recorded)

    @precondition(lambda self: self.move is not None)
    @rule()
    def arrive(self) -> None:
        """Everything that is left, without any other act in between."""
        while self.move is not None:
            self.work(1)
            if self.move is not None and self.move.state is State.REPORTED:
                self.accept()
        assert self.manager.place_of(*KEY) == self.recorded

    @precondition(lambda self: self.move is not None)
    @rule(is_reported=st.booleans())
    def cancel(self, is_reported: bool) -> None:
        self.manager.moves.cancel(KEY)
        if is_reported:
            self.recorded = self.manager.place_of(*KEY)

    def agrees(self) -> None:
        super().agrees()
        if not self.opened:
            return
        found = [path for path in ("a", "b") if os.path.isdir(f"{self.root}/{path}/t-0")]
        assert os.path.basename(os.path.dirname(self.log.directory)) in found
        if self.move is not None:
            assert self.move.future.end_offset <= self.end


class SmallSteps(MovedLogMachine):
    """With steps and a swap of few bytes, so that a log of some batches takes many."""

    def opened_manager(self) -> Manager:
        replica_moves.STEP_BYTES, replica_moves.CAUGHT_UP_BYTES = 500, 300
        return super().opened_manager()

    def teardown(self) -> None:
        super().teardown()
        replica_moves.STEP_BYTES, replica_moves.CAUGHT_UP_BYTES = 8 << 20, 256 << 10


TestMovedLog = SmallSteps.TestCase
TestMovedLog.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
