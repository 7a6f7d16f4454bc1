"""The free and total bytes of a node's directories, measured in workers: a disk that hangs holds no caller.

A directory is measured once at a time, so a disk that hangs keeps one worker, and the workers are as many as the
directories. A caller waits WAIT_MS at most, and not at all if an earlier caller has given up on the measurement that is
under way. It then gets the value that was measured last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from broker_cy.storage import directory_failures
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.placement import SAMPLE_MS, Placement

# The longest wait of a caller.
WAIT_MS: Final = 1_000


class _Caller:
    """One who waits until the directories `paths` are measured."""

    __slots__ = ("done", "paths")

    def __init__(self, paths: set[str], done: Callable[[], None]) -> None:
        self.paths = paths
        self.done = done


class Rooms:
    """All calls are on the loop. `jobs` has a worker for each directory."""

    def __init__(
        self,
        directories: Sequence[DataDirectory],
        metadata_directory: DataDirectory,
        placement: Placement,
        jobs: Jobs,
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        """`on_error` is called with the path of a directory that could not be measured. The directory of the metadata
        log, if it is a separate one, is only looked at.
        """
        self._data = [each.path for each in directories]
        self._directories = list(dict.fromkeys([*directories, metadata_directory]))
        self._placement = placement
        self._jobs = jobs
        self._on_error = on_error
        self._known: dict[str, tuple[int, int]] = {}
        self._unreadable: set[str] = set()
        # Measurements under way, by path, each with its number; and the paths whose callers have given up.
        self._running: dict[str, int] = {}
        self._late: set[str] = set()
        self._number = 0
        self._callers: list[_Caller] = []
        self._sampled_ms = 0

    def of(self, path: str) -> tuple[int, int] | None:
        """The (free bytes, total bytes) of a data directory as last measured; None if that failed, or never ended."""
        return None if path in self._unreadable else self._known.get(path)

    def known(self) -> dict[str, tuple[int, int]]:
        """`of` for the data directories that are online; those without a value are left out."""
        found = {path: self.of(path) for path in self._usable() if path in self._data}
        return {path: sizes for path, sizes in found.items() if sizes is not None}

    def is_unreadable(self, path: str) -> bool:
        """Whether the last measurement of a data directory failed."""
        return path in self._unreadable

    def tick(self, now_ms: int) -> None:
        """Measure the directories from time to time, for the placement of logs, and to notice without clients that one
        of them was removed. A single directory is in use all the time: its errors show that.
        """
        is_due = now_ms >= self._sampled_ms + SAMPLE_MS or now_ms < self._sampled_ms
        if len(self._directories) > 1 and is_due:
            self._sampled_ms = now_ms
            for path in self._usable():
                self._begin(path)

    def measure(self, done: Callable[[], None]) -> None:
        """Measure the data directories, and call `done()`, maybe within this call, when that has ended."""
        paths = [path for path in self._usable() if path in self._data and path not in self._late]
        caller = _Caller(set(paths), done)
        self._callers.append(caller)
        for path in paths:
            self._begin(path)
            if path in self._running:
                self._jobs.later(WAIT_MS, partial(self._give_up, path, self._running[path]))
        if not paths:
            self._settle(())

    def _usable(self) -> list[str]:
        return [each.path for each in self._directories if each.failure is None]

    def _begin(self, path: str) -> None:
        if path in self._running:
            return
        self._number += 1
        self._running[path] = self._number
        if path in self._data:
            self._placement.begin_measure(path)
        self._jobs.run(partial(directory_failures.measure, path), partial(self._measured, path))

    def _measured(self, path: str, found: tuple[int, int] | None, error: BaseException | None) -> None:
        del self._running[path]
        self._late.discard(path)
        self._unreadable.discard(path)
        if found is not None:
            self._known[path] = found
            if path in self._data:
                self._placement.measured(path, *found)
        elif error is not None:
            self._unreadable.add(path)
            self._on_error(path, error)
        self._settle((path,))

    def _give_up(self, path: str, number: int) -> None:
        if self._running.get(path) == number:
            self._late.add(path)
            self._settle((path,))

    def _settle(self, paths: Iterable[str]) -> None:
        for each in self._callers:
            each.paths.difference_update(paths)
        ready = [each for each in self._callers if not each.paths]
        self._callers = [each for each in self._callers if each.paths]
        for each in ready:
            each.done()
