"""How many calls of Kerberos wait for threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from typing import Any

from broker_cy.security.sasl.exchange import Failed
from broker_cy.server.connections.login_calls import CALLS_MAX, THREADS, LoginCalls


class HeldPool(Executor):
    """Begins a call when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append((Future(), fn))
        return self.waiting[-1][0]

    def run_next(self) -> bool:
        """Whether the next one was still wanted."""
        future, call = self.waiting.pop(0)
        if not future.set_running_or_notify_cancel():
            return False
        future.set_result(call())
        return True


def test_calls_have_a_bound() -> None:
    """If this fails, clients that are not logged in fill the memory with tokens while a disk is slow; or nobody logs in
    again after such a time.
    """
    made: list[tuple[str, int]] = []
    pool, ran = HeldPool(), []

    def make_pool(name: str, threads: int) -> Executor:
        made.append((name, threads))
        return pool

    def call(number: int) -> Failed:
        ran.append(number)
        return Failed(str(number))

    async def work() -> None:
        calls = LoginCalls(asyncio.get_running_loop(), make_pool)
        assert made == []
        futures = [calls.begin(lambda number=number: call(number)) for number in range(CALLS_MAX)]  # type: ignore[misc]
        assert calls.begin(lambda: call(-1)) is None
        first, second = futures[:2]
        assert first is not None
        assert second is not None
        # A connection that ends gives its place to another one, and its call is not made.
        first.cancel()
        await asyncio.sleep(0)
        assert calls.begin(lambda: call(-2)) is not None
        assert calls.begin(lambda: call(-3)) is None
        assert not pool.run_next()
        assert pool.run_next()
        assert await second == Failed("1")
        assert calls.begin(lambda: call(-4)) is not None
        for future in futures[2:]:
            assert future is not None
            assert pool.run_next()
            await future
        assert ran == list(range(1, CALLS_MAX))
        while pool.waiting:
            assert pool.run_next()
        calls.stop()

    asyncio.run(work())
    assert made == [("kerberos", THREADS)]
