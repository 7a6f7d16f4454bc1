"""How clients log in with SASL: with SaslHandshake and SaslAuthenticate in version 1, which Kafka has since 2.2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from broker_cy.client.oauth import TokenSource
from broker_cy.core import scram as scram_keys
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness
from broker_cy.security.jaas import GSSAPI, OAUTHBEARER
from broker_cy.security.sasl.exchange import ClientExchange, KerberosLogin, Login, LoginFailed
from broker_cy.security.sasl.oauthbearer import OAuthBearerClient
from broker_cy.security.sasl.plain import PlainClient
from broker_cy.security.sasl.scram import NONCE_BYTES, SaltedPasswords, ScramClient, nonce_of
from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from broker_cy.client.kerberos import Initiator

P = ParamSpec("P")
R = TypeVar("R")

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
# Tokens of one login; SCRAM has two, and GSSAPI with Kerberos three.
TOKENS_MAX: Final = 4
TOO_MANY_TOKENS: Final = "the login has too many tokens"
# A client logs in again when this part of its session has passed (KIP-368).
AGAIN_AFTER: Final = 0.85
WITHOUT_KERBEROS: Final = (
    "GSSAPI needs Kerberos's library and its headers (Debian: apt-get install libkrb5-dev) and the extra gssapi: "
    "pip install 'broker-cy[gssapi]'"
)


class KerberosMissing(Exception):
    """The library of Kerberos is not installed; the text says what to do."""


class ClientLogin:
    """The login of a client, shared by its connections: only the first one computes SCRAM's iterations."""

    def __init__(self, login: Login | TokenSource | KerberosLogin, randomness: Randomness = MACHINE_RANDOMNESS) -> None:
        """Raises KerberosMissing."""
        self._login = login
        self._randomness = randomness
        self._salted = SaltedPasswords(login) if isinstance(login, Login) else None
        self._initiator = _initiator(login) if isinstance(login, KerberosLogin) else None
        if isinstance(login, Login):
            self.mechanism = login.mechanism
        else:
            self.mechanism = OAUTHBEARER if isinstance(login, TokenSource) else GSSAPI

    def __repr__(self) -> str:
        return f"ClientLogin({self._login!r})"

    def user_and_password(self) -> tuple[str, str] | None:
        """The user and password for other clients; None without a password, and with a delegation token, which other
        clients do not support.
        """
        if not isinstance(self._login, Login) or self._login.is_token:
            return None
        return self._login.user, self._login.password

    async def begin_async(self, host: str) -> ClientExchange:
        """As `begin`, without blocking the loop."""
        if not isinstance(self._login, TokenSource):
            return self.begin(host)
        token = self._login.fresh()
        if token is None:
            token = await asyncio.get_running_loop().run_in_executor(None, self._login.token)
        return OAuthBearerClient(token)

    async def call(self, exchange: ClientExchange, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of the exchange, without blocking the loop."""
        if not exchange.blocks:
            return step(*args, **kwargs)
        assert self._initiator is not None  # no other exchange blocks
        run = partial(step, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._initiator.workers, run)

    def begin(self, host: str) -> ClientExchange:
        """One login at the server on the host; blocks if it needs a new token of OAUTHBEARER. Raises LoginFailed."""
        if isinstance(self._login, TokenSource):
            return OAuthBearerClient(self._login.token())
        if self._initiator is not None:
            # Imported here, because most clients need none of it, and start sooner.
            from broker_cy.security.sasl.gssapi import GssapiClient

            return GssapiClient(partial(self._initiator.begin, host))
        assert isinstance(self._login, Login)
        assert self._salted is not None
        if self.mechanism == "PLAIN":
            return PlainClient(self._login)
        mechanism = scram_keys.of_name(self.mechanism)
        if mechanism is None:
            raise LoginFailed(f"the mechanism {self.mechanism} is not supported")
        return ScramClient(mechanism, self._salted, nonce_of(self._randomness.take_bytes(NONCE_BYTES)))

    @property
    def handshake(self) -> bytes:
        return codec.encode(messages.SaslHandshakeRequest(mechanism=self.mechanism), HANDSHAKE_VERSION)


def apply(function: Callable[..., R], args: tuple[Any, ...] = ()) -> R:
    """As gevent's ThreadPool.apply, without a thread."""
    return function(*args)


def exchange_tokens(
    login: ClientLogin,
    exchange: ClientExchange,
    ask: Callable[[ApiKey, int, bytes], memoryview],
    call: Callable[..., Any] = apply,
) -> int:
    """Log in; returns how long the session lasts in ms (0: no limit). `ask` sends a request and returns the body of its
    answer; `call` makes the calls of the exchange, as `apply` does. Raises LoginFailed.
    """
    check_handshake(ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, login.handshake), login.mechanism)
    token: bytes | None = call(exchange.first)
    for _ in range(TOKENS_MAX):
        assert token is not None
        answer = ask(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, token_request(token))
        from_server, lifetime_ms = read_token(answer)
        token = call(exchange.step, (from_server,))
        if exchange.is_complete:
            return lifetime_ms
    raise LoginFailed(TOO_MANY_TOKENS)


def _initiator(login: KerberosLogin) -> Initiator:
    try:
        from broker_cy.client.kerberos import Initiator
    except ImportError as error:
        raise KerberosMissing(f"{WITHOUT_KERBEROS} ({error})") from None
    return Initiator(login)


def check_handshake(answer: memoryview, mechanism: str) -> None:
    """Raises LoginFailed."""
    try:
        found = codec.decode(messages.SaslHandshakeResponse, HANDSHAKE_VERSION, answer)
    except WireError as error:
        raise LoginFailed(f"the answer to SaslHandshake is malformed: {error}") from None
    if found.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginFailed("the listener has no SASL: use the security protocol PLAINTEXT")
    if found.error_code:
        offered = ", ".join(found.mechanisms) or "none"
        raise LoginFailed(f"the broker does not accept the mechanism {mechanism}; it accepts {offered}")


def token_request(token: bytes) -> bytes:
    return codec.encode(messages.SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)


def read_token(answer: memoryview) -> tuple[bytes, int]:
    """The server's token, and how long the session lasts in ms (0: no limit). Raises LoginFailed."""
    try:
        found = codec.decode(messages.SaslAuthenticateResponse, AUTHENTICATE_VERSION, answer)
    except WireError as error:
        raise LoginFailed(f"the answer to SaslAuthenticate is malformed: {error}") from None
    if found.error_code:
        raise LoginFailed(found.error_message or "the broker refused the login")
    return found.auth_bytes, max(0, found.session_lifetime_ms)
