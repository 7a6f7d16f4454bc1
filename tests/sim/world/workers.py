"""The worker threads of one process, without threads: a job runs in one go when its drawn time has passed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tests.sim.world import blocking

Job = tuple[Future[Any], Callable[[], Any]]


class Workers(Executor):
    """A pool of `threads`. Jobs begin in their order; jobs that run at the same time end in any order.

    `start` asks the world to call a function later, in this process, unless the process has ended by then.
    """

    def __init__(self, threads: int, start: Callable[[Callable[[], None]], None]) -> None:
        self._free = threads
        self._start = start
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        self._next()
        return future

    def _next(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            job = self._waiting.popleft()
            if not job[0].set_running_or_notify_cancel():
                self._free += 1
                continue
            self._running.append(job)
            self._start(lambda job=job: self._end(job))  # type: ignore[misc]

    def _end(self, job: Job) -> None:
        if job not in self._running:
            return
        self._running.remove(job)
        self._free += 1
        future, work = job
        try:
            with blocking.worker():
                result = work()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        self._next()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With `wait`, running jobs end now: the waiting thread does nothing else."""
        while cancel_futures and self._waiting:
            self._waiting.popleft()[0].cancel()
        while wait and self._running:
            self._end(self._running[0])
