"""GSSAPI (RFC 4752): Kerberos makes a security context, then both sides agree that it protects no later data.

    client: tokens of the context, which the server answers with tokens of the context, until it is complete
    client: nothing, if the last token of the context was that of the server
    server: wrapped, the security layers that it offers (only "none"), and a size of 0
    client: wrapped, the layer that it wants, a size, and an authorization id
    server: nothing

As in Kafka, TLS protects records, or they are not protected. As in Kafka, an authorization id has no effect: the user
is the principal of the ticket, or the result of the rules (security.kerberos). Some send the service's name there.

Calls of Kerberos may block, for files and, at the client, for the key distribution center: the server's half returns
them as Work, and the client's half has the flag `blocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final, Protocol

from broker_cy.security.kerberos import RuleError
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, LoginFailed, ServerStep, Work, shown

# The limit of each token of the peer. Tickets of Active Directory have up to 64 KiB.
TOKEN_BYTES_MAX: Final = 131_072
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))


class GssError(Exception):
    """Kerberos refused; the text is for the log, and has no key."""


class Context(Protocol):
    """A security context of Kerberos (RFC 2743). Each method may block, and raises GssError."""

    is_complete: bool

    def step(self, token: bytes) -> bytes:
        """The next token for the peer, empty without one. The client begins with an empty one of the peer."""
        ...

    def initiator(self) -> str:
        """The principal of the client, once the context is complete."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """The message with a proof of its integrity."""
        ...

    def unwrap(self, token: bytes) -> bytes: ...


class Stage(Enum):
    CONTEXT = "context"
    CONFIRMATION = "confirmation"  # the client has the last token of the context
    LAYER = "layer"
    ANSWER = "answer"  # at the client: of the server
    OVER = "over"


class GssapiServer:
    """One login. `begin` makes its context, `user_of` the user of a principal (or raises RuleError)."""

    def __init__(self, begin: Callable[[], Context], user_of: Callable[[str], str]) -> None:
        self._begin = begin
        self._user_of = user_of
        self._context: Context | None = None
        self._stage = Stage.CONTEXT

    def __repr__(self) -> str:
        return f"GssapiServer({self._stage.value})"

    def step(self, token: bytes) -> ServerStep:
        if self._stage is Stage.OVER:
            return Failed("a token after the end of the exchange")
        if len(token) > TOKEN_BYTES_MAX:
            self._stage = Stage.OVER
            return Failed(f"a token of {len(token)} bytes")
        return Work(partial(self._run, token))

    def _run(self, token: bytes) -> ServerStep:
        try:
            found = self._next(token)
        except GssError as error:
            found = Failed(f"Kerberos: {error}")
        if not isinstance(found, Challenge):
            self._stage = Stage.OVER
        return found

    def _next(self, token: bytes) -> ServerStep:
        if self._context is None:
            self._context = self._begin()
        if self._stage is Stage.CONTEXT:
            return self._establish(self._context, token)
        if self._stage is Stage.CONFIRMATION:
            if token:
                return Failed("a token of the client after the last one of the context")
            return self._offer(self._context)
        return self._finish(self._context, token)

    def _establish(self, context: Context, token: bytes) -> ServerStep:
        answer = context.step(token)
        if not context.is_complete:
            return Challenge(answer) if answer else Failed("a context that does not go on")
        if not answer:
            return self._offer(context)
        self._stage = Stage.CONFIRMATION
        return Challenge(answer)

    def _offer(self, context: Context) -> ServerStep:
        self._stage = Stage.LAYER
        return Challenge(context.wrap(_OFFER))

    def _finish(self, context: Context, token: bytes) -> ServerStep:
        wanted = context.unwrap(token)
        principal = context.initiator()
        if len(wanted) < len(_OFFER) or wanted[0] != _NO_LAYER:
            return Failed("a security layer that was not offered", principal)
        try:
            return Done(b"", self._user_of(principal))
        except RuleError as error:
            return Failed(shown(str(error)), principal)


class GssapiClient:
    """The half of the client. The context demands that the server proves its identity."""

    blocks: Final = True

    def __init__(self, begin: Callable[[], Context]) -> None:
        self._begin = begin
        self._context: Context | None = None
        self._stage = Stage.CONTEXT
        self.is_complete = False

    def __repr__(self) -> str:
        return f"GssapiClient({self._stage.value})"

    def first(self) -> bytes:
        try:
            self._context = self._begin()
            return self._context.step(b"")
        except GssError as error:
            raise LoginFailed(f"Kerberos: {error}") from None

    def step(self, token: bytes) -> bytes | None:
        if self._context is None or self._stage is Stage.OVER or len(token) > TOKEN_BYTES_MAX:
            raise LoginFailed("the server sent a token that GSSAPI does not have")
        try:
            return self._next(self._context, token)
        except GssError as error:
            raise LoginFailed(f"Kerberos: {error}") from None

    def _next(self, context: Context, token: bytes) -> bytes | None:
        if self._stage is Stage.CONTEXT:
            answer = context.step(token)
            if context.is_complete:
                self._stage = Stage.LAYER
            elif not answer:
                raise LoginFailed("the server sent a token that GSSAPI does not have")
            return answer
        if self._stage is Stage.LAYER:
            offered = context.unwrap(token)
            if len(offered) != len(_OFFER) or not offered[0] & _NO_LAYER:
                raise LoginFailed("the server demands a security layer of GSSAPI, which is not supported: use TLS")
            self._stage = Stage.ANSWER
            return context.wrap(_OFFER)
        if token:
            raise LoginFailed("the server sent a token that GSSAPI does not have")
        self._stage = Stage.OVER
        self.is_complete = True
        return None
