"""Calls that may block, of clients that log in: of Kerberos, for a key file and its file of used tickets.

They run in threads of their own, so that they hold up neither the loop nor other work. Bounds: THREADS of them run at a
time on a node, and CALLS_MAX run or wait, each with a token of gssapi.TOKEN_BYTES_MAX (64 MiB altogether).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker_cy.security.sasl.exchange import ServerStep

THREADS: Final = 2
CALLS_MAX: Final = 500


class LoginCalls:
    """Those of a node. The threads are made for the first one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make_pool: Callable[[str, int], Executor]) -> None:
        self._loop = loop
        self._make_pool = make_pool
        self._pool: Executor | None = None
        self._count = 0

    def begin(self, call: Callable[[], ServerStep]) -> asyncio.Future[ServerStep] | None:
        """What it returns; None if too many wait. Cancelled, a call that waits is dropped."""
        if self._count >= CALLS_MAX:
            return None
        if self._pool is None:
            self._pool = self._make_pool("kerberos", THREADS)
        self._count += 1
        found = self._loop.run_in_executor(self._pool, call)
        found.add_done_callback(self._ended)
        return found

    def _ended(self, _: asyncio.Future[ServerStep]) -> None:
        self._count -= 1

    def stop(self) -> None:
        """Called when the connections have ended."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
