"""The interface that lets storage run work off the loop; the server provides the implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Jobs(Protocol):
    """Worker threads and timers."""

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Call `work` in a worker thread, then `done(result, None)` or `done(None, error)` on the loop."""

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop after a delay; not at all once the broker has stopped."""


class RunAll(Protocol):
    """Runs the jobs of a start, which waits for them, in threads: `threads` at a time for each group."""

    def __call__(self, jobs: Sequence[tuple[str, Callable[[], T]]], threads: int) -> Iterator[T | Exception]:
        """Run the jobs, each with the name of its group. Yields their results, or exceptions, in the order of jobs."""


def run_inline(jobs: Sequence[tuple[str, Callable[[], T]]], threads: int) -> Iterator[T | Exception]:
    """RunAll without threads: for tools and tests."""
    for _, job in jobs:
        try:
            yield job()
        except Exception as error:
            yield error


class InlineJobs:
    """Runs everything immediately in the caller's thread, and keeps delayed callbacks: for tools and tests."""

    def __init__(self) -> None:
        self.due: list[tuple[int, Callable[[], None]]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Call `work` now and `done` with its result."""
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Keep the callback in `due`."""
        self.due.append((delay_ms, callback))

    def run_due(self) -> None:
        """Call all kept callbacks."""
        while self.due:
            self.due.pop(0)[1]()
