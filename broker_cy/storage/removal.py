"""Removing unused files: in a worker, a limited number at a time.

A topic of 10,000 segments is 40,000 files. Removing them in one job would occupy a worker for seconds, and delay
flushes and checkpoints; so a limited number is removed at a time, and other jobs run in between.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count, islice
from uuid import UUID, uuid5

from broker_cy.core.logs import facts
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.jobs import Jobs

logger = logging.getLogger(__name__)

# Most files that one job removes.
FILES_PER_JOB = 512

# Removes a part, and returns whether there is more. Raises OSError.
Part = Callable[[], bool]


class Removal:
    """A queue of files to remove for each disk, in order; its workers run one of these jobs at a time. All methods are
    called on the loop.
    """

    def __init__(self, workers: DiskWorkers) -> None:
        self._workers = workers
        self._waiting: dict[Jobs, deque[tuple[str, Part]]] = {}
        self._running: set[Jobs] = set()

    def directory(self, path: str, delay_ms: int) -> None:
        """Remove a directory with its content after a delay. If the broker stops before, all or a part of it stays."""
        self._workers.of(path).later(delay_ms, lambda: self._enqueue(path, lambda: remove_some(path)))

    def files(self, paths: list[str], delay_ms: int) -> None:
        """Remove files of one log after a delay. A file that cannot be removed does not prevent removing the others."""
        if not paths:
            return
        left = deque(paths)
        is_first = True
        problem: OSError | None = None

        def part() -> bool:
            nonlocal is_first, problem
            if is_first:
                # The segments after them have to be on disk first, or a power loss could reset the log to offset 0.
                with suppress(FileNotFoundError):
                    sync_directory(os.path.dirname(paths[0]))
                is_first = False
            for _ in range(min(FILES_PER_JOB, len(left))):
                try:
                    os.unlink(left.popleft())
                except FileNotFoundError:
                    continue
                except OSError as error:
                    problem = error
            if problem is not None and not left:
                raise problem
            return bool(left)

        self._workers.of(paths[0]).later(delay_ms, lambda: self._enqueue(paths[0], part))

    def _enqueue(self, path: str, part: Part) -> None:
        jobs = self._workers.of(path)
        self._waiting.setdefault(jobs, deque()).append((path, part))
        self._next(jobs)

    def _next(self, jobs: Jobs) -> None:
        waiting = self._waiting[jobs]
        if jobs in self._running or not waiting:
            return
        self._running.add(jobs)
        path, part = waiting[0]

        def done(more: bool | None, error: BaseException | None) -> None:
            self._running.discard(jobs)
            if error is not None and not isinstance(error, FileNotFoundError):
                logger.warning("background work failed", extra=facts(path=path, reason=error))
            if not more:
                waiting.popleft()
            self._next(jobs)

        jobs.run(part, done)


def rename_away(path: str, mark: str, topic_id: UUID) -> str:
    """Rename a partition's directory to `<name>.<uuid>-<mark>`; return its new path. Raises OSError."""
    for number in count():
        # One name per topic id and path; a directory that was deleted earlier without a topic id may still have it.
        unique = uuid5(topic_id, f"{path}{number or ''}").hex
        # As in Kafka, such a name is kept within 255 bytes by truncating the topic.
        name = os.path.basename(path)[: 255 - len(f".{unique}-{mark}")]
        target = f"{os.path.dirname(path)}/{name}.{unique}-{mark}"
        if not os.path.lexists(target):
            break
    os.rename(path, target)
    return target


def remove_some(path: str) -> bool:
    """Remove a part of a directory, and the directory itself once it is empty; return whether files are left. A
    symbolic link is removed without its target. Blocks. Raises OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        if not os.path.islink(path):
            raise
        os.unlink(path)
        return False
    try:
        with os.scandir(fd) as entries:
            for entry in islice(entries, FILES_PER_JOB):
                if entry.is_dir(follow_symlinks=False):
                    # Imported here: neither Kafka nor broker-cy creates such a directory, and it loads two libraries.
                    import shutil

                    shutil.rmtree(entry.name, dir_fd=fd)
                else:
                    os.unlink(entry.name, dir_fd=fd)
    finally:
        os.close(fd)
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            return True
        raise
    return False
