"""An event loop and workers that run the next callback or job only when the simulation calls them, in a drawn order."""

from __future__ import annotations

import asyncio
import random
import warnings
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from broker_cy.storage.jobs import InlineJobs
from tests.support.power import PowerCut

T = TypeVar("T")

# Twice as long as a start waits for its registration (initial.broker.registration.timeout.ms).
COMPLETE_MAX_S = 120


class Work(InlineJobs):
    """Workers that run their jobs only when `one` is called, in any order."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.draw = draw
        self.held: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self.held.append(lambda: super(Work, self).run(work, done))

    def one(self) -> None:
        """Run one of the waiting jobs, if there are any."""
        if self.held:
            self.held.pop(self.draw.randrange(len(self.held)))()
        elif self.due:
            self.due.pop(0)[1]()

    @property
    def waiting(self) -> bool:
        return bool(self.held or self.due)


class Future(asyncio.Future[Any]):
    """A future whose `on_error` is called immediately, not in the next turn."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop=loop.as_loop)
        self.on_error: Callable[[BaseException], Any] = lambda error: None

    def set_exception(self, exception: Any) -> None:
        self.on_error(exception)
        super().set_exception(exception)
        # It is no defect if no caller looks at it.
        self._log_traceback = False


class Timer:
    """The result of call_later. A timer is due when the simulation fires the timers."""

    def __init__(self, when: float, callback: Callable[[], Any]) -> None:
        self.when_s = when
        self.callback: Callable[[], Any] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """An event loop whose turns the simulation runs. Futures and tasks are asyncio's own. Its time passes only when
    timers fire.
    """

    def __init__(self, work: Work) -> None:
        # This object as an event loop; it has the part of the interface that the tested parts use.
        self.as_loop: Any = self
        self.work = work
        self.soon: list[Callable[[], Any]] = []
        self.timers: list[Timer] = []
        self.tasks: dict[asyncio.Task[Any], Coroutine[Any, Any, Any]] = {}
        self._now_s = 0.0
        # The power was cut within a task.
        self._cut: PowerCut | None = None

    # --- what the simulation calls

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        events._set_running_loop(self.as_loop)
        try:
            for callback in callbacks:
                callback()
                if self._cut is not None:
                    raise self._cut
        finally:
            events._set_running_loop(None)

    def fire_timers(self) -> None:
        """Fire all timers."""
        timers, self.timers = self.timers, []
        self._fire(timers)

    def advance(self, seconds: float) -> None:
        """Let time pass: the timers that are due fire in their order, and the next turn has their effects."""
        end_s = self._now_s + seconds
        while due := [each for each in self.timers if each.callback is not None and each.when_s <= end_s]:
            first = min(due, key=lambda each: each.when_s)
            self.timers.remove(first)
            self._fire([first])
        self.timers = [each for each in self.timers if each.callback is not None]
        self._now_s = end_s

    def settle(self) -> None:
        """Run everything that waits, and everything that results from it, except timers."""
        while self.soon or self.work.waiting:
            self.turn()
            self.work.one()

    def complete(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end; timers fire in their order when nothing else is left. Raises TimeoutError if it
        needs more than COMPLETE_MAX_S of the loop's time: a start retries for as long as the disk is full.
        """
        task = self.create_task(coroutine)
        end_s = self._now_s + COMPLETE_MAX_S
        self.settle()
        while not task.done():
            self.timers = [each for each in self.timers if each.callback is not None]
            assert self.timers, "it waits for something that will not happen"
            first = min(self.timers, key=lambda each: each.when_s)
            if first.when_s > end_s:
                raise TimeoutError(f"it has not ended after {COMPLETE_MAX_S} s")
            self.timers.remove(first)
            self._fire([first])
            self.settle()
        return task.result()

    def close(self) -> None:
        """End the process: nothing continues."""
        before = events._get_running_loop()
        # `finally` blocks look for the loop.
        events._set_running_loop(self.as_loop)
        try:
            with warnings.catch_warnings():
                # Warnings about coroutines that had not begun.
                warnings.simplefilter("ignore", RuntimeWarning)
                for task, coroutine in self.tasks.items():
                    if not task.done():
                        task.get_coro().close()
                        coroutine.close()
                        # Otherwise its end is reported whenever it is collected.
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
                self.tasks.clear()
        finally:
            events._set_running_loop(before)
        self.soon.clear()
        self.timers.clear()

    def _fire(self, timers: list[Timer]) -> None:
        events._set_running_loop(self.as_loop)
        try:
            for timer in timers:
                self._now_s = max(self._now_s, timer.when_s)
                if timer.callback is not None:
                    timer.callback()
        finally:
            events._set_running_loop(None)

    # --- asyncio

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[..., Any], *arguments: Any, context: Context | None = None) -> None:
        self.soon.append(lambda: callback(*arguments))

    def call_later(
        self, delay_s: float, callback: Callable[..., Any], *arguments: Any, context: Context | None = None
    ) -> Timer:
        return self.call_at(self._now_s + delay_s, callback, *arguments)

    def call_at(
        self, when_s: float, callback: Callable[..., Any], *arguments: Any, context: Context | None = None
    ) -> Timer:
        self.timers.append(Timer(when_s, lambda: callback(*arguments)))
        return self.timers[-1]

    def create_future(self) -> Future:
        return Future(self)

    def create_task(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        task = asyncio.Task(self._until_cut(coroutine), loop=self.as_loop, name=name)
        self.tasks[task] = coroutine
        return task

    async def _until_cut(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """A task keeps exceptions to itself: the loop must learn that the power was cut."""
        try:
            return await coroutine
        except PowerCut as cut:
            self._cut = cut
            raise asyncio.CancelledError from cut

    def run_in_executor(self, executor: None, function: Callable[..., Any], *arguments: Any) -> Future:
        future = self.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.work.run(lambda: function(*arguments), done)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context.get("exception") or AssertionError(context["message"])

    # Always False.
    get_debug = bool
