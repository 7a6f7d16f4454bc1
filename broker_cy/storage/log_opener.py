"""Opening logs after the start: requested ones first, the others in the background.

If a start loaded thousands of logs before the broker served requests, every client would wait for partitions that no
client uses. So the start leaves the loading of a log to a worker if that is safe (LogManager.load), and the broker
serves requests immediately. Loading reads and repairs the files of one partition, as during a start, and changes no
state that logs share; the loop then adopts the log. The checkpoints keep their entries of a log that is not open yet
(OffsetCheckpoints.unopened).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from broker_cy.storage import log_flush
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.errors import StorageError
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log

# Kafka's default of num.recovery.threads.per.data.dir: while one log is recovered, others do not have to wait for it.
THREADS_PER_DIRECTORY = 2


class Unopened:
    """A partition whose log is not open yet. `prepare` is called on the loop, and returns a function that loads the log
    in a worker.
    """

    __slots__ = ("begun", "dropped", "key", "lock", "path", "prepare", "root", "was_clean")

    def __init__(
        self, key: TopicPartition, root: str, path: str, was_clean: bool, prepare: Callable[[], Callable[[], Log]]
    ) -> None:
        self.key = key
        # The data directory.
        self.root = root
        self.path = path
        self.prepare = prepare
        # The last stop was clean: until a worker begins to open the log, all of it is on disk.
        self.was_clean = was_clean
        self.begun = False
        # The partition was deleted: its directory no longer exists, or belongs to another topic.
        self.dropped = False
        # Held by the worker that uses the directory.
        self.lock = threading.Lock()

    def open(self, load: Callable[[], Log]) -> Log | None:
        """Load the log, in a worker; None if the partition was deleted. Raises what `load` raises."""
        with self.lock:
            return None if self.dropped else load()


class _Directory:
    """The logs of one data directory: the requested ones, and all whose opening has not begun, in order; and how many
    are being opened.
    """

    __slots__ = ("asked", "running", "waiting")

    def __init__(self) -> None:
        self.asked: dict[TopicPartition, None] = {}
        self.waiting: dict[TopicPartition, None] = {}
        self.running = 0


class LogOpener:
    """Opens the logs in `unopened`. `opened(partition, log, error)` is called on the loop for each, with the log, or
    with the reason why it cannot be opened. The partition is no longer in `unopened` then.

    `threads` logs of each data directory are opened at the same time, because disks do not have to wait for each other.
    """

    def __init__(
        self,
        jobs: Jobs,
        opened: Callable[[Unopened, Log | None, Exception | None], None],
        threads: int = THREADS_PER_DIRECTORY,
    ) -> None:
        self.threads = threads
        self._jobs = jobs
        self._opened = opened
        self._unopened: dict[TopicPartition, Unopened] = {}
        self._directories: dict[str, _Directory] = {}
        self._in_background = False
        self._stopped = False

    @property
    def running(self) -> int:
        """How many logs are being opened."""
        return sum(each.running for each in self._directories.values())

    @property
    def unopened(self) -> Mapping[TopicPartition, Unopened]:
        """The partitions whose logs are not open yet."""
        return self._unopened

    def add(self, partition: Unopened) -> None:
        """Add a log that is to be opened later."""
        self._unopened[partition.key] = partition
        directory = self._directories.get(partition.root)
        if directory is None:
            directory = self._directories[partition.root] = _Directory()
        directory.waiting[partition.key] = None

    def ask(self, key: TopicPartition) -> None:
        """Open this log next, after those requested before. Does nothing if it is open already."""
        partition = self._unopened.get(key)
        if partition is not None and not partition.begun:
            directory = self._directories[partition.root]
            directory.asked[key] = None
            self._next(directory)

    def start(self) -> None:
        """Open the other logs, too, whenever no requested one waits."""
        self._in_background = True
        for directory in self._directories.values():
            self._next(directory)

    def stop(self) -> None:
        """Do not begin to open further logs; those that are being opened (`running`) are still adopted."""
        self._stopped = True

    def drop(self, key: TopicPartition) -> Unopened | None:
        """Forget a partition that is being deleted, and return it; None if it was not in `unopened`. If a worker is
        opening it, waits until that is done, since the worker uses the directory by its name.
        """
        partition = self._unopened.pop(key, None)
        if partition is not None:
            self._directories[partition.root].waiting.pop(key, None)
            self._directories[partition.root].asked.pop(key, None)
            partition.dropped = True
            with partition.lock:
                pass
        return partition

    def fail(self, root: str) -> list[TopicPartition]:
        """The disk of the data directory `root` has failed. Returns the partitions there that will not be opened. Those
        whose opening has begun are still reported.
        """
        directory = self._directories.get(root, _Directory())
        found = list(directory.waiting)
        directory.waiting.clear()
        directory.asked.clear()
        for key in found:
            del self._unopened[key]
        return found

    def _next(self, directory: _Directory) -> None:
        while directory.running < self.threads and not self._stopped:
            key = next(iter(directory.asked), None)
            if key is None and self._in_background:
                key = next(iter(directory.waiting), None)
            if key is None:
                return
            directory.asked.pop(key, None)
            del directory.waiting[key]
            self._begin(directory, self._unopened[key])

    def _begin(self, directory: _Directory, partition: Unopened) -> None:
        partition.begun = True
        directory.running += 1

        def done(log: Log | None, error: BaseException | None) -> None:
            directory.running -= 1
            if partition.dropped:
                if log is not None:
                    log_flush.mark_closed(log)
            else:
                del self._unopened[partition.key]
                # With any error, the partition goes offline, and the others are still opened.
                failure = error if error is None or isinstance(error, Exception) else StorageError(str(error))
                self._opened(partition, log, failure)
            self._next(directory)

        self._jobs.run(partial(partition.open, partition.prepare()), done)
