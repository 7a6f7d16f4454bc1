"""One TCP connection to a broker. Requests are pipelined; answers come in the order of their requests, as Kafka sends
them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

from broker_cy.client.address import Address
from broker_cy.client.answer_frames import CLOSED, AnswerFrames
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import network_reason
from broker_cy.client.exchange import Exchange
from broker_cy.client.login import (
    AGAIN_AFTER,
    AUTHENTICATE_VERSION,
    HANDSHAKE_VERSION,
    TOKENS_MAX,
    TOO_MANY_TOKENS,
    ClientLogin,
    check_handshake,
    read_token,
    token_request,
)
from broker_cy.client.outgoing import Outgoing
from broker_cy.security.sasl.exchange import LoginFailed
from broker_cy.wire.api_keys import ApiKey

# Requests of one connection that have no answer yet; further ones wait for their turn. A broker reads no further
# request of a connection while it processes one, so that more depth gains little, and requests that wait here can still
# be cancelled.
IN_FLIGHT_MAX = 8
# Requests that wait while the connection logs in again.
HELD_MAX = 1_000
LOGIN_AGAIN_S = 30.0
OVERDUE: Final = "an answer did not arrive in time"


class ConnectionFailed(Exception):
    """The connection could not be made or broke; the text says why. `sent`: whether the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent


class ConnectionRefused(ConnectionFailed):
    """No process listens at the address. A name with several addresses may fail as ConnectionFailed instead."""


class LoginRefused(ConnectionFailed):
    """The broker did not accept the login, or is not the one that knows the password."""


class TimedOut(Exception):
    """No answer before the deadline. `sent`: whether the request may have arrived."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__()
        self.sent = sent


def reason_of(error: OSError) -> str:
    """Return why a connection to a broker failed, in a few words."""
    if isinstance(error, ConnectionResetError) and not error.strerror:
        return CLOSED  # during the handshake of TLS
    return network_reason(error)


class Ticket(Protocol):
    """A waiter for an answer; a future is one."""

    def done(self) -> bool: ...
    def set_result(self, body: memoryview, /) -> None: ...
    def set_exception(self, error: ConnectionFailed, /) -> None: ...


class Connection(AnswerFrames):
    """Created by `open_connection`; used by any number of tasks of one loop. It is never reopened."""

    def __init__(self, client_id: str) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self._exchange: Exchange[Ticket] = Exchange(client_id)
        self._turns: deque[asyncio.Future[None]] = deque()
        self._writable = asyncio.Event()
        self._writable.set()
        self.closed: str | None = None
        self._transport: asyncio.Transport
        # Requests that wait while the connection logs in again; else None.
        self._held: list[tuple[int, int, bytes, Ticket | None]] | None = None
        self._again: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._ended = loop.create_future()
        self._lost = loop.create_future()

    async def exchange(self, api_key: int, version: int, body: bytes, deadline: Deadline) -> memoryview:
        """Send a request and wait for the body of its answer, which follows the header.

        Raises ConnectionFailed and TimedOut. A connection with an overdue answer is closed: the next requests would
        wait behind it. Cancelling a task that waits does not affect the connection.
        """
        sent = False
        try:
            async with asyncio.timeout_at(deadline.at):
                await self._turn()
                answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
                self.ask(api_key, version, body, answer)
                sent = True
                try:
                    await self._writable.wait()
                    return await answer
                finally:
                    # No other task waits for it: an error that it got later would be reported as one that was ignored.
                    answer.cancel()
        except TimeoutError:
            if sent:
                self.close(OVERDUE)
            raise TimedOut(sent=sent) from None

    async def _turn(self) -> None:
        """Wait until fewer than IN_FLIGHT_MAX requests have no answer."""
        while len(self._exchange.waiting) >= IN_FLIGHT_MAX:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_turn()
                raise

    def _pass_turn(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def ask(self, api_key: int, version: int, body: bytes, ticket: Ticket) -> None:
        """Send a request without waiting for earlier answers; its ticket gets the body of the answer, or
        ConnectionFailed.

        Raises ConnectionFailed.
        """
        self._write(api_key, version, body, ticket)

    def ask_parts(self, api_key: int, version: int, parts: Sequence[bytes | memoryview], ticket: Ticket) -> None:
        """`ask` with a body in parts. uvloop sends them without joining them; they must not change until the answer.

        Raises ConnectionFailed.
        """
        if self._held is not None:
            self._write(api_key, version, b"".join(parts), ticket)
        else:
            self._write_now(api_key, version, parts, ticket)

    async def send_only(self, api_key: int, version: int, body: bytes, deadline: Deadline) -> None:
        """Send a request that has no answer (Produce with acks=0). Raises as `exchange`."""
        try:
            async with asyncio.timeout_at(deadline.at):
                self._write(api_key, version, body)
                await self._writable.wait()
        except TimeoutError:
            raise TimedOut(sent=True) from None
        if self.closed is not None:
            raise ConnectionFailed(self.closed, sent=True)

    # --- the login

    async def log_in(self, login: ClientLogin, host: str, deadline: Deadline) -> None:
        """Log in at the server on the host, and again before the session ends (KIP-368). Raises LoginRefused,
        ConnectionFailed, TimedOut.
        """
        try:
            async with asyncio.timeout_at(deadline.at):
                lifetime_ms = await self._exchange_tokens(login, host)
        except TimeoutError:
            raise TimedOut(sent=True) from None
        except LoginFailed as error:
            raise LoginRefused(str(error)) from None
        if lifetime_ms:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(lifetime_ms / 1000 * AGAIN_AFTER, self._begin_again, login, host)

    async def _exchange_tokens(self, login: ClientLogin, host: str) -> int:
        """How long the session lasts in ms. Raises LoginFailed, ConnectionFailed."""
        exchange = await login.begin_async(host)
        answer = await self._ask_alone(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, login.handshake)
        check_handshake(answer, login.mechanism)
        token: bytes | None = await login.call(exchange, exchange.first)
        for _ in range(TOKENS_MAX):
            assert token is not None
            answer = await self._ask_alone(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, token_request(token))
            from_server, lifetime_ms = read_token(answer)
            token = await login.call(exchange, exchange.step, from_server)
            if exchange.is_complete:
                return lifetime_ms
        raise LoginFailed(TOO_MANY_TOKENS)

    async def _ask_alone(self, api_key: int, version: int, body: bytes) -> memoryview:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._write_now(api_key, version, (body,), answer)
        try:
            return await answer
        finally:
            answer.cancel()

    def _begin_again(self, login: ClientLogin, host: str) -> None:
        self._again = asyncio.get_running_loop().create_task(self._log_in_again(login, host))

    async def _log_in_again(self, login: ClientLogin, host: str) -> None:
        """Requests wait meanwhile: the broker takes none before the login."""
        self._held = []
        try:
            await self.log_in(login, host, Deadline(LOGIN_AGAIN_S))
        except (ConnectionFailed, TimedOut) as error:
            self.close(str(error) or OVERDUE)
            return
        held, self._held = self._held, None
        for api_key, version, body, ticket in held:
            try:
                self._write_now(api_key, version, (body,), ticket)
            except ConnectionFailed as error:
                if ticket is not None and not ticket.done():
                    ticket.set_exception(error)

    # --- requests

    def _write(self, api_key: int, version: int, body: bytes, ticket: Ticket | None = None) -> None:
        if self._held is not None and self.closed is None:
            if len(self._held) >= HELD_MAX:
                raise ConnectionFailed("too many requests wait while the connection logs in again")
            self._held.append((api_key, version, body, ticket))
            return
        self._write_now(api_key, version, (body,), ticket)

    def _write_now(
        self, api_key: int, version: int, parts: Sequence[bytes | memoryview], ticket: Ticket | None
    ) -> None:
        if self.closed is not None:
            raise ConnectionFailed(self.closed)
        if self._transport.is_closing():
            raise ConnectionFailed("the connection broke")
        # Several writes for a large body: joining head and body would copy it.
        self._transport.writelines((self._exchange.head(api_key, version, sum(map(len, parts)), ticket), *parts))

    # --- reports of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has the methods of asyncio.Transport, but not its type.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(reason_of(exc) if isinstance(exc, OSError) else str(exc or "the connection broke"))
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def answered(self, answer: memoryview) -> None:
        ticket, body = self._exchange.take(answer)
        self._pass_turn()
        if not ticket.done():
            ticket.set_result(body)

    def broke(self, reason: str) -> None:
        self.close(reason)

    # --- the end

    def close(self, reason: str = "closed by the client") -> None:
        """Drop the connection; waiting requests fail with ConnectionFailed and `reason`."""
        if self.closed is not None:
            return
        self.closed = reason
        if self._again is not None:
            # The task itself may close it.
            self._again.cancel()
        held, self._held = self._held or [], None
        for _, _, _, waiting in held:
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionFailed(reason))
        self._transport.abort()
        self._writable.set()
        for turn in self._turns:
            if not turn.done():
                turn.set_result(None)
        for ticket in self._exchange.abandon():
            if not ticket.done():
                ticket.set_exception(ConnectionFailed(reason, sent=True))
        if not self._ended.done():
            self._ended.set_result(None)

    async def ended(self, timeout_s: float | None = None) -> None:
        """Wait until the connection is closed by either side, `timeout_s` at most."""
        await asyncio.wait((self._ended,), timeout=timeout_s)

    @property
    def is_local(self) -> bool:
        """Whether this host is at both ends."""
        own, other = (self._transport.get_extra_info(name) for name in ("sockname", "peername"))
        return bool(own and other and own[0] == other[0])

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, after `close`."""
        await asyncio.wait((self._lost,))


async def open_connection(address: Address, client_id: str, deadline: Deadline, outgoing: Outgoing) -> Connection:
    """Open a connection to `address`, and log in if `outgoing` has a login. Raises ConnectionFailed and TimedOut."""
    connection = Connection(client_id)
    try:
        async with asyncio.timeout_at(deadline.at):
            await outgoing.open(connection, address.host, address.port)
    except TimeoutError:
        raise TimedOut(sent=False) from None
    except OSError as error:
        # One name can have several addresses: asyncio joins their errors.
        kind = ConnectionRefused if isinstance(error, ConnectionRefusedError) else ConnectionFailed
        raise kind(reason_of(error)) from None
    if outgoing.login is not None:
        try:
            await connection.log_in(outgoing.login, address.host, deadline)
        except BaseException:
            connection.close()
            raise
    return connection
