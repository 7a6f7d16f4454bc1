"""A log of a broker with two data directories, which moves step by step."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.moves.move import Move, State
from tests.broker_cy.storage.batches import batch
from tests.broker_cy.storage.managing import TOPIC_ID, Manager, open_manager
from tests.broker_cy.storage.moves.test_moved_log_model import StepJobs

KEY = ("t", 0)
SMALL = LogConfig(segment_bytes=900, index_interval_bytes=0, file_delete_delay_ms=0)
STEPS_MAX = 200


class Disks:
    """A log manager over the directories `a` and `b` of `path`, with the log of t-0; `recorded` is in the metadata."""

    def __init__(self, path: Path, config: LogConfig = SMALL) -> None:
        self.path = path
        self.config = config
        self.recorded: UUID | None = None
        self.open()
        self.manager.create(*KEY, TOPIC_ID, config, 0)
        self.here = os.path.dirname(self.log.directory)
        self.appended: list[bytes] = []

    def open(self) -> None:
        self.manager: Manager = open_manager(
            self.path / "a",
            self.path / "b",
            config=self.config,
            jobs=StepJobs(),
            directory_id_of=lambda topic, partition: self.recorded,
        )

    def reopen(self) -> None:
        """The process is killed, and starts again."""
        self.manager.crash()
        self.open()
        assert self.manager.offline == {}

    @property
    def log(self) -> Log:
        return self.manager.logs[KEY]

    @property
    def jobs(self) -> StepJobs:
        assert isinstance(self.manager.jobs, StepJobs)
        return self.manager.jobs

    @property
    def move(self) -> Move | None:
        return self.manager.moves.moves.get(KEY)

    @property
    def other(self) -> str:
        (found,) = (each.path for each in self.manager.data_directories if each.path != self.here)
        return found

    def append(self, count: int, *, epoch: int = 0, size: int = 100) -> None:
        for _ in range(count):
            data = batch(self.log.log_end_offset, 1, size=size, timestamp=1_000, leader_epoch=epoch)
            self.appended.append(data)
            self.log.append(data, 1_000)

    def start(self) -> None:
        (target,) = (each for each in self.manager.data_directories if each.path != self.here)
        self.manager.moves.start(KEY, self.log, target)

    def step(self) -> bool:
        """One turn of the loop, or one job of a worker; False if the move is over."""
        if self.move is None:
            return False
        if self.jobs.held:
            self.jobs.held.pop(0)()
        else:
            self.jobs.run_due()
        if self.move is not None and self.move.state is State.REPORTED:
            self.recorded = self.move.target.directory_id
            self.manager.moves.accepted(KEY, self.recorded)
        return self.move is not None

    def finish(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.step():
                break
        assert self.move is None
        assert os.path.dirname(self.log.directory) == self.other

    def records(self) -> bytes:
        """All records from the log start."""
        found, offset = b"", self.log.log_start_offset
        while offset < self.log.log_end_offset:
            part = self.log.read_slice(offset, max_bytes=1 << 20)
            assert part is not None
            found += part.read()
            offset = offset + len(part.read()) // len(self.appended[0])
        return found

    def copies(self) -> list[str]:
        """The directories of partitions, of copies, and of deleted ones."""
        return [
            f"{root}/{name}"
            for root in ("a", "b")
            for name in sorted(os.listdir(self.path / root))
            if name.startswith("t-0")
        ]
