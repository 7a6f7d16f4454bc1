"""Opening logs after the start: those that were asked for first, the others in the background.

A start that loads thousands of logs before it answers keeps every client waiting for partitions that nobody asks for.
So it leaves the loading of a log to a worker where that is safe (LogManager.load), and answers at once. Loading reads
and repairs the files of one partition, as during a start, and touches nothing that other logs share; the loop then
adopts the log. What the checkpoints say of a log that is not open yet stays in them (OffsetCheckpoints.unopened).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from broker_cy.storage import maintenance
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.errors import StorageError
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log

# Logs that are being opened at the same time: while one of them is recovered, the others do not wait for it.
OPENING_MAX = 2


class Unopened:
    """A partition whose log is not open yet. `prepare` is called on the loop, and returns what loads it in a worker."""

    __slots__ = ("begun", "dropped", "key", "lock", "path", "prepare", "was_clean")

    def __init__(
        self, key: TopicPartition, path: str, was_clean: bool, prepare: Callable[[], Callable[[], Log]]
    ) -> None:
        self.key = key
        self.path = path
        self.prepare = prepare
        # The last stop was clean: as long as nothing has begun to open the log, all of it is on the disk.
        self.was_clean = was_clean
        self.begun = False
        # The partition was deleted: its directory is no longer there, or is another topic's.
        self.dropped = False
        # Held by the worker that uses the directory.
        self.lock = threading.Lock()

    def open(self, load: Callable[[], Log]) -> Log | None:
        """In a worker: the log; None where the partition was deleted. Raises what `load` raises."""
        with self.lock:
            return None if self.dropped else load()


class LogOpener:
    """Opens the logs in `unopened`. `opened(partition, log, error)` is called on the loop for each, with the log or the
    reason why there is none; by then it is no longer in `unopened`.
    """

    def __init__(
        self,
        jobs: Jobs,
        opened: Callable[[Unopened, Log | None, Exception | None], None],
    ) -> None:
        self._jobs = jobs
        self._opened = opened
        self._unopened: dict[TopicPartition, Unopened] = {}
        # What was asked for, and all that nothing has begun to open, in order.
        self._asked: dict[TopicPartition, None] = {}
        self._waiting: dict[TopicPartition, None] = {}
        self._in_background = False
        self._stopped = False
        self.running = 0

    @property
    def unopened(self) -> Mapping[TopicPartition, Unopened]:
        """The partitions whose logs are not open yet."""
        return self._unopened

    def add(self, partition: Unopened) -> None:
        """Have a log opened later."""
        self._unopened[partition.key] = partition
        self._waiting[partition.key] = None

    def ask(self, key: TopicPartition) -> None:
        """Open this log next, after those that were asked for before. Does nothing where it is open already."""
        if key in self._waiting:
            self._asked[key] = None
            self._next()

    def start(self) -> None:
        """Open the others, too, as far as nobody asks for another one."""
        self._in_background = True
        self._next()

    def stop(self) -> None:
        """Begin nothing more; what is being opened (`running`) is still adopted."""
        self._stopped = True

    def drop(self, key: TopicPartition) -> Unopened | None:
        """The partition is deleted: forget it. If a worker is opening it, waits until that is done, since it uses
        the directory by its name. None where it was not waiting to be opened.
        """
        partition = self._unopened.pop(key, None)
        if partition is not None:
            self._waiting.pop(key, None)
            self._asked.pop(key, None)
            partition.dropped = True
            with partition.lock:
                pass
        return partition

    def _next(self) -> None:
        while self.running < OPENING_MAX and not self._stopped:
            key = next(iter(self._asked), None)
            if key is None and self._in_background:
                key = next(iter(self._waiting), None)
            if key is None:
                return
            self._asked.pop(key, None)
            del self._waiting[key]
            self._begin(self._unopened[key])

    def _begin(self, partition: Unopened) -> None:
        partition.begun = True
        self.running += 1

        def done(log: Log | None, error: BaseException | None) -> None:
            self.running -= 1
            if partition.dropped:
                if log is not None:
                    maintenance.mark_closed(log)
            else:
                del self._unopened[partition.key]
                # Whatever it was, the partition is offline, and the others are opened.
                failure = error if error is None or isinstance(error, Exception) else StorageError(str(error))
                self._opened(partition, log, failure)
            self._next()

        self._jobs.run(partial(partition.open, partition.prepare()), done)
