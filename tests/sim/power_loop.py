"""An event loop and workers that run the next callback or job only when the simulation calls them, in a drawn order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from broker_cy.storage.jobs import InlineJobs

T = TypeVar("T")


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


class Future:
    """As asyncio.Future, over a Loop."""

    # By this attribute asyncio recognizes a future.
    _asyncio_future_blocking = False

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.is_done = False
        self.error: BaseException | None = None
        self.value: Any = None
        self.callbacks: list[Callable[[Any], Any]] = []
        # Called immediately, not in the next turn.
        self.on_error: Callable[[BaseException], Any] = lambda error: None

    def done(self) -> bool:
        return self.is_done

    def cancelled(self) -> bool:
        return isinstance(self.error, asyncio.CancelledError)

    def exception(self) -> BaseException | None:
        return self.error

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def set_result(self, result: Any) -> None:
        self._end(result, None)

    def set_exception(self, error: BaseException) -> None:
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        assert not self.is_done
        self.is_done, self.value, self.error = True, value, error
        if error is not None:
            self.on_error(error)
        for callback in self.callbacks:
            self.loop.call_soon(callback, self)

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        if self.is_done:
            self.loop.call_soon(callback, self)
        else:
            self.callbacks.append(callback)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.is_done:
            yield self
        return self.result()


class Task(Future):
    """A coroutine that runs on the loop."""

    def __init__(self, loop: Loop, coroutine: Coroutine[Any, Any, Any]) -> None:
        super().__init__(loop)
        self.coroutine = coroutine
        loop.call_soon(self._step)

    def cancel(self) -> None:
        if not self.is_done:
            self.coroutine.close()
            self.set_exception(asyncio.CancelledError())

    def _step(self, *_: object) -> None:
        if self.is_done:
            return
        try:
            awaited = self.coroutine.send(None)
        except StopIteration as end:
            self.set_result(end.value)
        except (Exception, asyncio.CancelledError) as error:
            self.set_exception(error)
        else:
            if awaited is None:
                self.loop.call_soon(self._step)
            else:
                awaited.add_done_callback(self._step)


class Timer:
    """The result of call_later. A timer is due when the simulation fires the timers."""

    def __init__(self, callback: Callable[[], Any]) -> None:
        self.callback: Callable[[], Any] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """An event loop whose turns the simulation runs."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.soon: list[Callable[[], Any]] = []
        self.timers: list[Timer] = []
        self.tasks: list[Task] = []

    def call_soon(self, callback: Callable[..., Any], *arguments: Any) -> None:
        self.soon.append(lambda: callback(*arguments))

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        self.timers.append(Timer(callback))
        return self.timers[-1]

    def create_future(self) -> Future:
        return Future(self)

    def create_task(self, coroutine: Coroutine[Any, Any, Any]) -> Task:
        self.tasks.append(Task(self, coroutine))
        return self.tasks[-1]

    def close(self) -> None:
        """End the process: nothing continues."""
        for task in self.tasks:
            task.coroutine.close()

    def run_in_executor(self, executor: None, function: Callable[..., Any], *arguments: Any) -> Future:
        future = self.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if not future.is_done:
                future._end(result, error)

        self.work.run(lambda: function(*arguments), done)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context["exception"]

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()

    def fire_timers(self) -> None:
        """Fire all timers."""
        timers, self.timers = self.timers, []
        for timer in timers:
            if timer.callback is not None:
                timer.callback()

    def settle(self) -> None:
        """Run everything that waits, and everything that results from it, except timers."""
        while self.soon or self.work.waiting:
            self.turn()
            self.work.one()
