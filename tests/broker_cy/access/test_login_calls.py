"""How many calls of Kerberos wait for threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from typing import Any

from broker_cy.access.login_calls import CALLS_MAX, THREADS, LoginCall, LoginCalls
from broker_cy.security.sasl.exchange import Failed, ServerStep


class HeldPool(Executor):
    """Begins a call when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append((Future(), fn))
        return self.waiting[-1][0]

    def run_next(self) -> None:
        future, call = self.waiting.pop(0)
        assert future.set_running_or_notify_cancel()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)


def test_calls_have_a_bound() -> None:
    """If this fails, clients that are not logged in fill the memory with tokens while a disk is slow, or no client can
    log in afterwards.
    """
    made: list[tuple[str, int]] = []
    pool = HeldPool()
    ran: list[int] = []
    done: list[ServerStep] = []

    def make_pool(name: str, threads: int) -> Executor:
        made.append((name, threads))
        return pool

    def call(number: int) -> Failed:
        ran.append(number)
        return Failed(str(number))

    async def run_next() -> None:
        pool.run_next()
        for _ in range(3):
            await asyncio.sleep(0)

    async def work() -> None:
        calls = LoginCalls(asyncio.get_running_loop(), make_pool)

        def begin(number: int) -> LoginCall | None:
            return calls.begin(lambda: call(number), done.append)

        assert made == []
        begun = [begin(number) for number in range(CALLS_MAX)]
        assert begin(-1) is None
        first = begun[0]
        assert first is not None
        # A run that was only cancelled would keep a reference to its token.
        first.drop()
        assert first._run is None
        # It is still in the queue. Otherwise clients that connect and leave again and again could fill the queue.
        assert begin(-2) is None
        await run_next()
        assert (ran, done) == ([], [])
        assert begin(-3) is not None
        assert begin(-4) is None
        while pool.waiting:
            await run_next()
        assert ran == [*range(1, CALLS_MAX), -3]
        assert done == [Failed(str(number)) for number in ran]
        assert calls._count == 0
        calls.stop()

    asyncio.run(work())
    assert made == [("kerberos", THREADS)]
