"""A log manager over a temporary directory, with work done immediately."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings

T = TypeVar("T")
CLUSTER_ID = "clusterclusterclustert"
TOPIC_ID = UUID(int=77)


class Manager(LogManager):
    """A LogManager whose jobs run inline; `crash` releases the directory as the end of the process does."""

    jobs: InlineJobs
    # Whether `load` leaves logs to be opened later if possible.
    opens_late = True

    def crash(self) -> None:
        for directory in self.data_directories:
            directory.close()

    def _may_open_late(self, key: TopicPartition, context: LoadContext) -> bool:
        return self.opens_late and super()._may_open_late(key, context)

    def stop(self) -> None:
        self.close(lambda topic, partition: self.logs[topic, partition].written_end_offset)


# The id of the first directory. Kafka reserves the lowest ids.
DIRECTORY_ID = UUID(int=1 << 80)


def open_manager(
    *paths: str | Path,
    config: LogConfig | None = None,
    settings: StorageSettings | None = None,
    now_ms: int = 0,
    load: bool = True,
    late: bool = False,
    jobs: InlineJobs | None = None,
    directory_id_of: Callable[[str, int], UUID | None] = lambda topic, partition: None,
) -> Manager:
    ids = count(DIRECTORY_ID.int)
    directories = open_directories([str(path) for path in paths], 1, lambda: CLUSTER_ID, lambda: UUID(int=next(ids)))
    manager = Manager(directories, settings or StorageSettings(), jobs or InlineJobs())
    if load:
        manager.load(lambda topic: config or LogConfig(), now_ms, late=late, directory_id_of=directory_id_of)
    return manager


def format_directory(path: Path, number: int) -> None:
    """Add an empty data directory to the node of `open_manager`; none has the same `number` (its own: 0, 1, ...)."""
    directory = DataDirectory(str(path))
    directory.lock()
    directory.format(CLUSTER_ID, 1, UUID(int=DIRECTORY_ID.int + number))
    directory.close()


def with_cleaner(manager: Manager) -> LogCleaner:
    """Give the manager a cleaner, whose jobs run inline."""
    manager.cleaner = LogCleaner(
        manager.logs,
        manager.directories,
        CleanerSettings(backoff_ms=0),
        InlineJobs(),
        manager.removal.files,
        MACHINE_CLOCK,
        MACHINE_RANDOMNESS,
    )
    return manager.cleaner


class ClockedJobs(InlineJobs):
    """Does a worker's jobs immediately, and delayed ones when `advance` reaches their time."""

    def __init__(self, now_ms: int = 0) -> None:
        super().__init__()
        self.now_ms = now_ms
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._timers, (self.now_ms + delay_ms, self._count, callback))

    @property
    def pending(self) -> int:
        return len(self._timers)

    def turn(self) -> None:
        """Run the next delayed job."""
        self.now_ms, _, callback = heappop(self._timers)
        callback()

    def advance(self, now_ms: int) -> None:
        """Advance the time to `now_ms`."""
        while self._timers and self._timers[0][0] <= now_ms:
            self.turn()
        self.now_ms = now_ms


class HeldJobs(InlineJobs):
    """Keeps jobs until the test runs them, in the order that it chooses: workers of a pool finish in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self.held.append(lambda: super(HeldJobs, self).run(work, done))
