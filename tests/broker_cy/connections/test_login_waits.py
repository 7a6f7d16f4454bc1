"""A login whose mechanism makes calls that may block: its connection in the meantime, and events that end it."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from broker_cy.access.login_calls import CALLS_MAX, LoginCalls
from broker_cy.connections.connection import Connection
from broker_cy.connections.login import Login, Logins
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.security.authenticator import Mechanisms
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, ServerStep, Work
from tests.broker_cy.access.test_login_calls import HeldPool
from tests.broker_cy.security.test_authenticator import handshake, token

DELAY_S = 0.0


class FakeConnection:
    """Notes what the login does with it."""

    client_host, client_port, listener, connection_id = "192.0.2.1", 1, "L", "c"
    logging_in = True

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.closed = False
        self.login: Login | None = None

    def pause_login(self) -> None:
        self.acts.append("pause")

    def resume_login(self) -> None:
        self.acts.append("resume")

    def answer_login(self, key: int, payload: bytes) -> None:
        self.acts.append("answer")

    def admit(self, principal: str, by_token: bool) -> None:
        self.acts.append(f"admit {principal}")

    def end_refused(self, key: int, payload: bytes) -> None:
        self.acts.append("refused")
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.acts.append("close")
            assert self.login is not None
            self.login.closed()


class Parts:
    """A login, its connection and the calls that it has begun; `steps` are what the calls return."""

    def __init__(self, *steps: Callable[[], ServerStep], timeout_s: float = 60.0) -> None:
        self.pool = HeldPool()
        self.reasons: list[str] = []
        loop = asyncio.get_running_loop()
        self.calls = LoginCalls(loop, lambda name, threads: self.pool)
        broker = SimpleNamespace(
            loop=loop,
            clock=MACHINE_CLOCK,
            login_calls=self.calls,
            log_events=SimpleNamespace(login_failed=lambda *what, again: self.reasons.append(what[-1])),
            denials=SimpleNamespace(login_failed=lambda *what, again: None),
        )
        left = list(steps)
        exchange = SimpleNamespace(step=lambda token: Work(left.pop(0)))
        logins = SimpleNamespace(
            broker=broker,
            name="L",
            counts=SimpleNamespace(successes=Counter(), failures=Counter(), expired=Counter()),
            mechanisms=Mechanisms({"GSSAPI": lambda: exchange}, {}),
            timeout_s=timeout_s,
            delay_s=DELAY_S,
            receive_bytes_max=1_000,
        )
        self.connection = FakeConnection()
        self.login = Login(cast(Logins, logins), cast(Connection, self.connection))
        self.connection.login = self.login
        self.login.take(handshake("GSSAPI"))
        self.connection.acts.clear()

    async def run_next(self) -> None:
        self.pool.run_next()
        await settled()


async def settled() -> None:
    """Let the loop report finished work."""
    for _ in range(5):
        await asyncio.sleep(0)


@contextmanager
def no_loop_errors() -> Iterator[None]:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    yield
    assert errors == []


def play(work: Coroutine[Any, Any, None]) -> None:
    async def checked() -> None:
        with no_loop_errors():
            await work
            await settled()

    asyncio.run(checked())


def test_a_login_in_two_calls() -> None:
    """If this fails, a connection is read while another thread works on its token, or never again afterwards."""

    async def work() -> None:
        parts = Parts(lambda: Challenge(b"c"), lambda: Done(b"", "alice"))
        for expected in (["answer"], ["admit User:alice", "answer"]):
            parts.connection.acts.clear()
            parts.login.take(token(b"x"))
            assert parts.connection.acts == ["pause"]
            await parts.run_next()
            assert parts.connection.acts == ["pause", "resume", *expected]
        assert parts.reasons == []
        parts.connection.close()

    play(work())


def test_a_client_that_leaves_meanwhile() -> None:
    """If this fails, calls are made for clients that have left, or a login ends on a closed connection."""

    async def work() -> None:
        made: list[str] = []

        def call() -> ServerStep:
            made.append("a call")
            return Done(b"", "alice")

        waiting = Parts(call)
        waiting.login.take(token(b"x"))
        waiting.connection.close()
        await waiting.run_next()
        assert made == []
        running = Parts(lambda: Done(b"", "alice"))
        running.login.take(token(b"x"))
        future, run = running.pool.waiting.pop()
        assert future.set_running_or_notify_cancel()
        running.connection.close()
        future.set_result(run())
        await settled()
        for parts in (waiting, running):
            assert parts.connection.acts == ["pause", "close"]
            # Its place is free.
            assert parts.calls._count == 0

    play(work())


def test_a_call_that_takes_too_long() -> None:
    """If this fails, a connection is kept as long as a disk or another machine hangs, however long that is."""

    async def work() -> None:
        parts = Parts(lambda: Done(b"", "alice"), timeout_s=0.01)
        parts.login.take(token(b"x"))
        future, call = parts.pool.waiting.pop()
        assert future.set_running_or_notify_cancel()
        async with asyncio.timeout(20.0):
            while not parts.connection.closed:
                await asyncio.sleep(0.001)
        assert parts.reasons == ["no login in time"]
        future.set_result(call())
        await settled()
        assert parts.connection.acts == ["pause", "close"]

    play(work())


def test_calls_that_fail() -> None:
    """If this fails, a client whose token Kerberos refuses stays connected; or a defect of its library lets it in."""

    def broken() -> ServerStep:
        raise struct.error("a defect with a secret")

    async def work() -> None:
        for step, reason in (
            (lambda: Failed("Kerberos: a replay"), "Kerberos: a replay"),
            (broken, "error in a call of Kerberos"),
        ):
            parts = Parts(step)
            parts.login.take(token(b"x"))
            await parts.run_next()
            async with asyncio.timeout(20.0):
                while not parts.connection.closed:
                    await asyncio.sleep(0.001)
            assert parts.connection.acts == ["pause", "resume", "pause", "refused", "close"]
            assert parts.reasons == [reason]

    play(work())


def test_too_many_calls() -> None:
    """If this fails, a client beyond the bound waits without an end."""

    async def work() -> None:
        parts = Parts(lambda: Done(b"", "alice"))
        for _ in range(CALLS_MAX):
            assert parts.calls.begin(lambda: Failed("another one"), lambda step: None) is not None
        parts.login.take(token(b"x"))
        assert parts.reasons == ["too many logins wait for calls of Kerberos"]
        parts.connection.close()
        while parts.pool.waiting:
            await parts.run_next()

    play(work())
