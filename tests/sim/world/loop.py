"""The event loop of one process. It makes a turn when the world lets it, in uvloop's order: callbacks of ready
descriptors in a drawn order, then the `call_soon` callbacks that were scheduled by then, then the timers that are due.

Futures and tasks are asyncio's own. An exception in a callback ends the run: see `failure`.
"""

from __future__ import annotations

import asyncio
import heapq
import select
import sys
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from typing import Any

from tests.sim.world.clock import MachineClock
from tests.sim.world.draws import Draws

READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
WRITABLE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
TASKS_MAX = 100


# How often the `finally` blocks of one task may wait.
WAITS_MAX = 100


def _close(coroutine: Any) -> None:
    """End a coroutine, also if its `finally` blocks wait for something."""
    for _ in range(WAITS_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue
        return
    raise AssertionError(f"{coroutine} does not end")


class SimLoop:
    """The loop calls `wake` if it may have work at the given time of the machine's monotonic clock, and `wake_now` if
    it may have work now. Once `has_ended`, no callback runs.

    With `forgets_tasks_at_once` each task has a done callback, and so one more turn than in other event loops. Only
    clusters do without it, because the seeds that find planted defects in other worlds would change.
    """

    def __init__(
        self,
        clock: MachineClock,
        draw: Draws,
        wake: Callable[[float], None],
        wake_now: Callable[[], None],
        has_ended: Callable[[], bool] = lambda: False,
        *,
        forgets_tasks_at_once: bool = True,
    ) -> None:
        self.clock = clock
        self.failure: BaseException | None = None
        # This object as an event loop; it has the part of the interface that brokers and clients use.
        self.as_loop: Any = self
        self._draw = draw
        self._wake = wake
        self._wake_now = wake_now
        self._has_ended = has_ended
        self._ready: deque[asyncio.Handle] = deque()
        # Callbacks of simulated sockets that have received something.
        self._arrived: list[Callable[[], object]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._closed = False
        self._poll = select.epoll()
        # In the order of registration, because numbers of descriptors differ between two runs.
        self._readers: dict[int, Callable[[], object]] = {}
        self._writers: dict[int, Callable[[], object]] = {}
        # All that are not done; without `forgets_tasks_at_once` also others, until there are more than `_tasks_max`.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._tasks_max = TASKS_MAX
        self._forgets_tasks_at_once = forgets_tasks_at_once

    # --- what the world calls

    def turn(self) -> None:
        """Make one turn."""
        events._set_running_loop(self.as_loop)
        try:
            for callback in self._ready_callbacks():
                self._run(callback)
            for _ in range(len(self._ready)):
                # A callback may end the process.
                if self._ready:
                    self._run_handle(self._ready.popleft())
            now = self.time()
            while self._timers and self._timers[0][0] <= now:
                self._run_handle(heapq.heappop(self._timers)[2])
        finally:
            events._set_running_loop(None)

    def next_s(self) -> float | None:
        """The monotonic time at which the next turn is due; None if nothing is."""
        if self._ready or self._arrived or self._polled():
            return self.time()
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def kill(self) -> None:
        """End the process: no task continues. The `finally` blocks of tasks must have no effect."""
        self._closed = True
        self._ready.clear()
        self._arrived.clear()
        self._timers.clear()
        # `finally` blocks look for the loop.
        before = events._get_running_loop()
        events._set_running_loop(self.as_loop)
        # A coroutine whose `finally` block waits is reported when the one that waits for it goes on without it.
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            with warnings.catch_warnings():
                # Warnings about coroutines that had not begun.
                warnings.simplefilter("ignore", RuntimeWarning)
                closed: set[asyncio.Task[Any]] = set()
                # `finally` blocks may make others, which never begin.
                while pending := [each for each in self._tasks if each not in closed and not each.done()]:
                    for task in pending:
                        closed.add(task)
                        _close(task.get_coro())
                        # Otherwise its end is reported whenever it is collected.
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
        finally:
            sys.unraisablehook = hook
            events._set_running_loop(before)
        self._tasks.clear()
        self._readers.clear()
        self._writers.clear()
        self._poll.close()

    def _polled(self) -> list[tuple[int, int]]:
        return self._poll.poll(0) if self._readers or self._writers else []

    def _ready_callbacks(self) -> list[Callable[[], object]]:
        callbacks: list[Callable[[], object]] = []
        if polled := self._polled():
            found = dict(polled)
            callbacks += [each for fd, each in self._readers.items() if fd in found and found[fd] & READABLE]
            callbacks += [each for fd, each in self._writers.items() if fd in found and found[fd] & WRITABLE]
        callbacks += self._arrived
        self._arrived.clear()
        if len(callbacks) > 1:
            self._draw.shuffle(callbacks)
        return callbacks

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            self._run(handle._context.run, handle._callback, *handle._args)  # type: ignore[attr-defined]

    def _run(self, callback: Callable[..., object], *args: object) -> None:
        if self.failure is None and not self._has_ended():
            try:
                callback(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"exception": error})

    def arrived(self, callback: Callable[[], object]) -> None:
        """Run the callback like that of a descriptor that is ready."""
        if not self._closed:
            self._arrived.append(callback)
            self._wake_now()

    # --- asyncio

    def time(self) -> float:
        return self.clock.monotonic()

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = events.Handle(callback, args, self.as_loop, context)
        if not self._closed:
            self._ready.append(handle)
            self._wake_now()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = events.TimerHandle(when, callback, args, self.as_loop, context)
        if not self._closed:
            self._count += 1
            heapq.heappush(self._timers, (when, self._count, handle))
            self._wake(when)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays in the heap until its time."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.as_loop)

    def create_task(self, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self.as_loop, **kwargs)
        self._tasks[task] = None
        if self._forgets_tasks_at_once:
            task.add_done_callback(lambda done: self._tasks.pop(done, None))
        elif len(self._tasks) > self._tasks_max:
            self._tasks = {each: None for each in self._tasks if not each.done()}
            self._tasks_max = max(TASKS_MAX, 2 * len(self._tasks))
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        assert isinstance(executor, Executor), "work without an executor of the world"
        return asyncio.wrap_future(executor.submit(func, *args), loop=self.as_loop)

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        assert not args
        self._register(fd, self._readers, callback)

    def remove_reader(self, fd: Any) -> bool:
        return self._register(fd, self._readers, None)

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:
        assert not args
        self._register(fd, self._writers, callback)

    def remove_writer(self, fd: Any) -> bool:
        return self._register(fd, self._writers, None)

    def _register(self, fd: int, where: dict[int, Callable[[], object]], callback: Callable[[], object] | None) -> bool:
        if self._closed:
            return False
        was_known = fd in self._readers or fd in self._writers
        was_there = where.pop(fd, None) is not None
        if callback is not None:
            where[fd] = callback
            self._wake_now()
        mask = (select.EPOLLIN if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)
        if not mask:
            if was_known:
                self._poll.unregister(fd)
        elif was_known:
            self._poll.modify(fd, mask)
        else:
            self._poll.register(fd, mask)
        return was_there

    # Always False. Each future asks for it, and a function would take a hundredth of all time.
    get_debug = bool

    def is_closed(self) -> bool:
        return self._closed

    def is_running(self) -> bool:
        return not self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.failure is None and not self._closed:
            self.failure = context.get("exception") or AssertionError(context["message"])
