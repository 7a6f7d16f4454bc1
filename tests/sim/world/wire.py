"""A client's connection over the world's network, with the broker's own codec and the client core's framing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.client.exchange import SIZE_BYTES, Exchange
from broker_cy.client.login import AUTHENTICATE_VERSION, HANDSHAKE_VERSION
from broker_cy.coordinator_services.coordinator_service import LOAD_WAIT_S
from broker_cy.core import scram
from broker_cy.core.errors import ErrorCode
from broker_cy.security.sasl.exchange import Login
from broker_cy.security.sasl.plain import PlainClient
from broker_cy.security.sasl.scram import SaltedPasswords, ScramClient
from broker_cy.wire import codec, messages
from tests.sim.world.cluster import CLIENT_USER, PASSWORDS
from tests.sim.world.network import PORT

if TYPE_CHECKING:
    from tests.sim.world.network import Connection
    from tests.sim.world.world import World

TIMEOUT_S = 5.0
TOKEN_MECHANISM = scram.MECHANISMS[-1]
# A coordinator that is being loaded lets these wait, and so long at least: clocks drift.
HELD = (
    messages.JoinGroupRequest,
    messages.SyncGroupRequest,
    messages.LeaveGroupRequest,
    messages.ConsumerGroupHeartbeatRequest,
    messages.OffsetCommitRequest,
    messages.OffsetFetchRequest,
    messages.OffsetDeleteRequest,
    messages.InitProducerIdRequest,
    messages.EndTxnRequest,
)
HELD_LEAST_US = int(LOAD_WAIT_S * 0.99e6)
# An answer to Produce comes so much later than its timeout at most, where the links are not slow.
LATE_US = 300_000


def codes_of(message: Any) -> Iterator[int]:
    """All error codes of an answer."""
    for name in message.__slots__:
        value = getattr(message, name, None)
        if name.endswith("error_code"):
            assert isinstance(value, int)
            yield value
        elif isinstance(value, list) and value and hasattr(value[0], "__slots__"):
            for each in value:
                yield from codes_of(each)


class Sent(NamedTuple):
    """A request that waits for its answer."""

    response: type[Any]
    version: int
    answer: asyncio.Future[Any]
    at_us: int
    # A coordinator that is being loaded may say so from then on.
    held_until_us: int
    # An answer is due by then, from a leader that runs; 0: it may take long.
    due_us: int


class Token:
    """A delegation token as its owner got it."""

    def __init__(self, token_id: str, hmac: bytes) -> None:
        self.token_id = token_id
        self.hmac = hmac
        password = base64.b64encode(hmac).decode()
        self.salted = SaltedPasswords(Login(TOKEN_MECHANISM.name, token_id, password, is_token=True))


class Lost(Exception):
    """No answer: the request may have arrived or not."""


class NotLoggedIn(Lost):
    """The broker refused the login."""


class Channel:
    """One connection of the client `name` to `host`; after Lost it is never used again. In a secured cluster it logs in
    as `user`, unless that is None, or with a delegation token.
    """

    def __init__(
        self,
        world: World,
        name: str,
        host: str,
        user: str | None = CLIENT_USER,
        *,
        password: str | None = None,
        token: Token | None = None,
        port: int = PORT,
    ) -> None:
        self._world = world
        self._name = name
        self._host = host
        self._exchange: Exchange[Sent] = Exchange(name)
        self._inbox = bytearray()
        self._connection: Connection | None = None
        self.is_lost = False
        self._user = user if world.plan.is_secured else None
        self._password = password
        self._token = token
        self._port = port

    async def open(self, timeout_s: float = TIMEOUT_S) -> None:
        """Connect, and log in. Raises Lost."""
        loop = self._world.clients
        opened: asyncio.Future[Connection | None] = loop.create_future()

        def done(connection: Connection | None) -> None:
            if not opened.done():
                opened.set_result(connection)
            elif connection is not None:
                connection.close()

        self._world.network.connect(self._name, self._host, self, done, self._port)
        timer = loop.call_later(timeout_s, done, None)
        self._connection = await opened
        timer.cancel()
        if self._connection is None:
            self.is_lost = True
            raise Lost(f"{self._name}: no connection to {self._host}")
        if self._token is not None:
            await self._log_in_with_token(self._token, timeout_s)
        elif self._user is not None:
            await self._log_in(self._user, timeout_s)

    async def _log_in_with_token(self, token: Token, timeout_s: float) -> None:
        # A drawn nonce is unnecessary: no client listens, or repeats an exchange.
        exchange = ScramClient(TOKEN_MECHANISM, token.salted, "nonce")
        handshake = messages.SaslHandshakeRequest(mechanism=TOKEN_MECHANISM.name)
        answer = await self.send(handshake, HANDSHAKE_VERSION, timeout_s)
        assert not answer.error_code, answer
        sent: bytes | None = exchange.first()
        while sent is not None and not exchange.is_complete:
            request = messages.SaslAuthenticateRequest(auth_bytes=sent)
            answer = await self.send(request, AUTHENTICATE_VERSION, timeout_s)
            if answer.error_code:
                self.close()
                raise NotLoggedIn(f"{self._name}: {answer.error_message}")
            sent = exchange.step(answer.auth_bytes)

    async def _log_in(self, user: str, timeout_s: float) -> None:
        exchange = PlainClient(Login("PLAIN", user, self._password or PASSWORDS[user]))
        answer = await self.send(messages.SaslHandshakeRequest(mechanism="PLAIN"), HANDSHAKE_VERSION, timeout_s)
        assert not answer.error_code, answer
        token = messages.SaslAuthenticateRequest(auth_bytes=exchange.first())
        answer = await self.send(token, AUTHENTICATE_VERSION, timeout_s)
        if answer.error_code:
            self.close()
            raise NotLoggedIn(f"{self._name}: {answer.error_message}")

    def send(self, request: Any, version: int, timeout_s: float = TIMEOUT_S) -> asyncio.Future[Any]:
        """Send a request; the result is its answer, or Lost."""
        loop = self._world.clients
        answer: asyncio.Future[Any] = loop.create_future()
        if self.is_lost or self._connection is None:
            answer.set_exception(Lost(f"{self._name}: the connection is lost"))
            return answer
        response = getattr(messages, type(request).__name__.removesuffix("Request") + "Response")
        body = codec.encode(request, version)
        now_us = self._world.time.now_us
        held_until_us = now_us + HELD_LEAST_US if isinstance(request, HELD) else 0
        due_us = now_us + request.timeout_ms * 1000 + LATE_US if isinstance(request, messages.ProduceRequest) else 0
        sent = Sent(response, version, answer, now_us, held_until_us, due_us)
        head = self._exchange.head(request.API_KEY, version, len(body), sent)
        self._connection.send(head + body)
        timer = loop.call_later(timeout_s, self._give_up, sent)
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def close(self) -> None:
        self.lost("closed by the client")

    # --- what the network calls

    def received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self._inbox += data
        while len(self._inbox) >= SIZE_BYTES:
            end = SIZE_BYTES + self._exchange.answer_bytes(self._inbox)
            if len(self._inbox) < end:
                return
            sent, body = self._exchange.take(memoryview(bytes(self._inbox[SIZE_BYTES:end])))
            del self._inbox[:end]
            found = codec.decode(sent.response, sent.version, body)
            assert self._world.time.now_us >= sent.held_until_us or (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in codes_of(found)
            ), f"{self._name}: {sent.response.__name__} says without a delay that the coordinator is being loaded"
            self._check_due(sent)
            if not sent.answer.done():
                sent.answer.set_result(found)

    def _check_due(self, sent: Sent) -> None:
        """The answer came now, or never. Only the leader's followers may have delayed it."""
        world = self._world
        if not 0 < sent.due_us < world.time.now_us:
            return
        links = [world.network.link(self._name, self._host), world.network.link(self._host, self._name)]
        is_calm = all(each.is_calm_since(sent.at_us) and not each.slow_us for each in links)
        if is_calm and world.machines[self._host].is_calm_since(sent.at_us):
            waited_us = world.time.now_us - sent.at_us
            raise AssertionError(f"{self._name}: {self._host} let {sent.response.__name__} wait for {waited_us} us")

    def _give_up(self, sent: Sent) -> None:
        self._check_due(sent)
        self.lost(f"no answer: {sent.response.__name__}")

    def lost(self, reason: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._connection is not None:
            self._connection.close()
        for sent in self._exchange.abandon():
            answer = sent.answer
            if not answer.done():
                answer.set_exception(Lost(f"{self._name}: {reason}"))
                # Marks the exception as retrieved: a caller that still waits gets it, others have given up the request.
                answer.exception()
