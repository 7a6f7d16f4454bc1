"""Calls that may block, of clients that log in: of Kerberos, for a key file and its file of used tickets.

They run in their own threads, so that they block neither the loop nor other work. Bounds: THREADS of them run at a time
on a node, and CALLS_MAX run or wait, each with a token of gssapi.TOKEN_BYTES_MAX (64 MiB altogether). A dropped call is
not made, and keeps its place until its turn, without the token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from broker_cy.security.sasl.exchange import Failed

if TYPE_CHECKING:
    from broker_cy.security.sasl.exchange import ServerStep

THREADS: Final = 2
CALLS_MAX: Final = 500


class LoginCall:
    """One that runs or waits. `done` is called on the loop with the step, unless it was dropped before."""

    def __init__(self, run: Callable[[], ServerStep], done: Callable[[ServerStep], None]) -> None:
        self._run: Callable[[], ServerStep] | None = run
        self._done: Callable[[ServerStep], None] | None = done

    def drop(self) -> None:
        self._run = self._done = None

    def make(self) -> ServerStep | None:
        """In a thread."""
        run = self._run
        return None if run is None else run()

    def made(self, future: asyncio.Future[ServerStep | None]) -> None:
        """On the loop."""
        if self._done is None or future.cancelled():
            return
        error = future.exception()
        # An exception other than Kerberos's own is a defect of this program, or of the library's binding.
        step = future.result() if error is None else Failed(f"{type(error).__name__} in a call of Kerberos")
        assert step is not None  # it was not dropped
        self._done(step)


class LoginCalls:
    """The calls of a node. The first call starts the threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make_pool: Callable[[str, int], Executor]) -> None:
        self._loop = loop
        self._make_pool = make_pool
        self._pool: Executor | None = None
        self._count = 0

    def begin(self, run: Callable[[], ServerStep], done: Callable[[ServerStep], None]) -> LoginCall | None:
        """Start a call; None if too many run or wait."""
        if self._count >= CALLS_MAX:
            return None
        if self._pool is None:
            self._pool = self._make_pool("kerberos", THREADS)
        self._count += 1
        call = LoginCall(run, done)
        future = self._loop.run_in_executor(self._pool, call.make)
        future.add_done_callback(self._ended)
        future.add_done_callback(call.made)
        return call

    def _ended(self, _: asyncio.Future[ServerStep | None]) -> None:
        self._count -= 1

    def stop(self) -> None:
        """Called when the connections have ended."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
