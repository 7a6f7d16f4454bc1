"""The login of a connection before its requests are served: the states of Kafka's SaslServerAuthenticator.

    INITIAL -> HANDSHAKE_OR_VERSIONS -> (HANDSHAKE ->) AUTHENTICATE (<-> BUSY) -> COMPLETE

The client may ask for ApiVersions once, then it chooses a mechanism with SaslHandshake. After version 0 of that its
tokens are frames of their own, after version 1 they are SaslAuthenticate requests. No other request is read before
COMPLETE. Later the client may log in again (KIP-368), with the same mechanism and as the same user, at least a second
after its last login.

`take` is called with one frame after the other, and returns the connection's action: send an answer, admit the client,
or refuse it. The client learns of a refusal after a delay (connection.failed.authentication.delay.ms), so that guessing
takes time. If a mechanism makes calls that may block, `take` returns Busy, and `finish` is called with their result
before the next frame.

Bounds: the frames (sasl.server.max.receive.size, which the connection checks), ELEMENTS_MAX of each request, TOKENS_MAX
of an exchange, and one exchange at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeVar

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, ServerExchange, ServerStep, Work, shown
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message

M = TypeVar("M", bound=Message)

# Arrays and tagged fields of a request before the login.
ELEMENTS_MAX: Final = 1_000
# Tokens of one exchange; SCRAM needs two.
TOKENS_MAX: Final = 16
# ApiVersions requests in a version that is not served, which may be tried again.
RETRIES_MAX: Final = 8
# The least time between two logins of a client.
AGAIN_NS_MIN: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
_HEADER_BYTES_MIN: Final = 10
USER: Final = "User"


class State(Enum):
    INITIAL = "initial"
    HANDSHAKE_OR_VERSIONS = "handshake or versions"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    BUSY = "busy"  # the mechanism works on a token
    OTHER_MECHANISM = "other mechanism"  # chosen when logging in again: the next frame is refused
    COMPLETE = "complete"
    FAILED = "failed"


# The possible predecessors of each state.
PREDECESSORS: Final = {
    State.INITIAL: frozenset[State](),
    State.HANDSHAKE_OR_VERSIONS: frozenset({State.INITIAL}),
    State.HANDSHAKE: frozenset({State.INITIAL, State.HANDSHAKE_OR_VERSIONS}),
    State.AUTHENTICATE: frozenset(
        {State.INITIAL, State.HANDSHAKE_OR_VERSIONS, State.HANDSHAKE, State.COMPLETE, State.BUSY}
    ),
    State.BUSY: frozenset({State.AUTHENTICATE}),
    State.OTHER_MECHANISM: frozenset({State.COMPLETE}),
    State.COMPLETE: frozenset({State.AUTHENTICATE}),
    State.FAILED: frozenset(State),
}


class Session(NamedTuple):
    """A client that is logged in. `lifetime_ms`: after it the client must have logged in again; 0: never. `token_id`:
    that of the delegation token that it has logged in with, if it has.
    """

    mechanism: str
    user: str
    lifetime_ms: int
    token_id: str = ""

    @property
    def principal(self) -> str:
        return f"{USER}:{self.user}"


class Answer(NamedTuple):
    """Send this frame, with its size; empty: nothing. `key` is the API, -1 for tokens without a header."""

    key: int
    payload: bytes


class Admitted(NamedTuple):
    """As Answer; and the client is logged in."""

    key: int
    payload: bytes
    session: Session
    again: bool


class Refused(NamedTuple):
    """End the connection. `payload` is sent after the delay, if it is not empty; without `is_delayed` the connection
    ends immediately, because no client sends such a frame. `reason` is for the log.
    """

    key: int
    payload: bytes
    reason: str
    mechanism: str = ""
    user: str = ""
    is_delayed: bool = True
    again: bool = False


class Busy(NamedTuple):
    """Stop reading, make these calls, which may block, and `finish` with their result. No answer is sent yet."""

    key: int
    payload: bytes
    run: Callable[[], ServerStep]


Outcome = Answer | Admitted | Refused | Busy


class Mechanisms(NamedTuple):
    """The mechanisms of a listener: how an exchange of each begins, in the order that clients see, and the longest
    session of each in ms (connections.max.reauth.ms; 0: no limit).
    """

    begin: Mapping[str, Callable[[], ServerExchange]]
    lifetime_ms: Mapping[str, int]


class Header(NamedTuple):
    key: int
    version: int
    correlation_id: int
    body: memoryview


# The answer to ApiVersions in a version; the request is None if its version is not served.
Versions = Callable[[int, messages.ApiVersionsRequest | None], messages.ApiVersionsResponse]


class Authenticator:
    """One connection. Invariants: `session` is set from the first COMPLETE on; `_exchange` is set in AUTHENTICATE and
    BUSY, and only there.
    """

    def __init__(self, mechanisms: Mechanisms, versions: Versions) -> None:
        self.state = State.INITIAL
        self.session: Session | None = None
        self._mechanisms = mechanisms
        self._versions = versions
        self._exchange: ServerExchange | None = None
        self._mechanism = ""
        self._has_headers = False  # tokens are SaslAuthenticate requests
        self._tokens = self._retries = 0
        # SaslAuthenticate of version 1 tells clients how long the session lasts: those may log in again.
        self._knows_lifetime = False
        self._last_again_ns: int | None = None
        self._wall_ms = 0
        # In BUSY: the request that has the token; None if that has no header.
        self._waiting: Header | None = None

    def may_begin_again(self, now_ns: int) -> bool:
        """Whether a SaslHandshake of a client that is logged in begins another login; else it is answered as any
        request.
        """
        return (
            self.state is State.COMPLETE
            and self._knows_lifetime
            and (self._last_again_ns is None or now_ns - self._last_again_ns >= AGAIN_NS_MIN)
        )

    def take(self, data: bytes, now_ns: int, wall_ms: int = 0) -> Outcome:
        """One frame of the client, without its size. After COMPLETE only where `may_begin_again`. `wall_ms` is the time
        that credentials expire by.
        """
        self._wall_ms = wall_ms
        if self.state is State.FAILED:
            return Refused(-1, b"", "a frame after the login failed", is_delayed=False)
        if self.state is State.COMPLETE:
            self._last_again_ns = now_ns
        try:
            if self.state is State.BUSY:
                return self._refused(-1, b"", "a frame before the answer to a token", is_delayed=False)
            if self.state is State.OTHER_MECHANISM:
                return self._refused(-1, b"", "another mechanism than that of the first login")
            if self.state is State.AUTHENTICATE:
                return self._token(data) if self._has_headers else self._raw_token(data)
            return self._request(data)
        except WireError as error:
            return self._refused(-1, b"", f"a malformed request: {error}", is_delayed=False)

    def finish(self, step: ServerStep, wall_ms: int = 0) -> Outcome:
        """Take the result of the calls of Busy."""
        self._wall_ms = wall_ms
        header, self._waiting = self._waiting, None
        self._go(State.AUTHENTICATE)
        return self._stepped(header, self._judged(step))

    # --- before tokens

    def _request(self, data: bytes) -> Outcome:
        header = self._header(data)
        if header is None:
            return self._refused(-1, b"", "no Kafka request", is_delayed=False)
        if header.key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            return self._refused(-1, b"", f"{_api(header.key)} before the login", is_delayed=False)
        if header.key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header)
        if self.state not in (State.INITIAL, State.HANDSHAKE_OR_VERSIONS):
            return self._refused(-1, b"", "ApiVersions a second time", is_delayed=False)
        return self._api_versions(header)

    def _api_versions(self, header: Header) -> Outcome:
        request = None
        if _is_served(header):
            request = _decoded(messages.ApiVersionsRequest, header)
        response = self._versions(header.version, request)
        if response.error_code == 0:
            self._go(State.HANDSHAKE)
        else:
            self._retries += 1
            if self._retries > RETRIES_MAX:
                return self._refused(
                    -1, b"", "too many ApiVersions requests that could not be answered", is_delayed=False
                )
            if self.state is State.INITIAL:
                self._go(State.HANDSHAKE_OR_VERSIONS)
        return Answer(header.key, _framed(header, response, header.version if request is not None else 0))

    def _handshake(self, header: Header) -> Outcome:
        if not _is_served(header):
            return self._refused(-1, b"", f"SaslHandshake in version {header.version}", is_delayed=False)
        mechanism = _decoded(messages.SaslHandshakeRequest, header).mechanism
        offered = list(self._mechanisms.begin)
        if mechanism not in self._mechanisms.begin:
            refusal = messages.SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            payload = _framed(header, refusal, header.version)
            return self._refused(header.key, payload, f"the mechanism {shown(mechanism)} is not enabled")
        answer = Answer(header.key, _framed(header, messages.SaslHandshakeResponse(mechanisms=offered), header.version))
        if self.session is not None and mechanism != self.session.mechanism:
            self._go(State.OTHER_MECHANISM)
            return answer
        self._mechanism = mechanism
        self._has_headers = header.version >= 1
        self._tokens = 0
        self._exchange = self._mechanisms.begin[mechanism]()
        self._go(State.AUTHENTICATE)
        return answer

    # --- tokens

    def _raw_token(self, data: bytes) -> Outcome:
        return self._stepped(None, self._step(data))

    def _stepped(self, header: Header | None, step: ServerStep) -> Outcome:
        """The answer to a token, which is in a request with this header, or without one."""
        if isinstance(step, Work):
            # Without the body of the request, which may be large.
            self._waiting = header and header._replace(body=memoryview(b""))
            self._go(State.BUSY)
            return Busy(-1, b"", step.run)
        if header is not None:
            return self._answered(header, step)
        if isinstance(step, Failed):
            return self._refused(-1, b"", step.reason, step.user)
        payload = len(step.token).to_bytes(4, "big") + step.token
        if isinstance(step, Challenge):
            return Answer(-1, payload)
        return self._admitted(-1, payload, step)

    def _token(self, data: bytes) -> Outcome:
        header = self._header(data)
        if header is None:
            return self._refused(-1, b"", "no Kafka request in place of SaslAuthenticate", is_delayed=False)
        if header.key != ApiKey.SASL_AUTHENTICATE:
            payload = b""
            if header.key == ApiKey.SASL_HANDSHAKE and _is_served(header):
                refusal = messages.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
                payload = _framed(header, refusal, header.version)
            return self._refused(
                header.key if payload else -1, payload, f"{_api(header.key)} in place of SaslAuthenticate"
            )
        if not _is_served(header):
            return self._refused(-1, b"", f"SaslAuthenticate in version {header.version}", is_delayed=False)
        self._knows_lifetime = self._knows_lifetime or header.version >= 1
        return self._stepped(header, self._step(_decoded(messages.SaslAuthenticateRequest, header).auth_bytes))

    def _answered(self, header: Header, step: Challenge | Done | Failed) -> Outcome:
        if isinstance(step, Failed):
            return self._failed(header, step)
        if isinstance(step, Challenge):
            response = messages.SaslAuthenticateResponse(auth_bytes=step.token)
            return Answer(header.key, _framed(header, response, header.version))
        response = messages.SaslAuthenticateResponse(
            auth_bytes=step.token, session_lifetime_ms=self._lifetime_ms(step.expires_ms)
        )
        return self._admitted(header.key, _framed(header, response, header.version), step)

    def _step(self, token: bytes) -> ServerStep:
        assert self._exchange is not None
        self._tokens += 1
        if self._tokens > TOKENS_MAX:
            return Failed("too many tokens")
        return self._judged(self._exchange.step(token))

    def _judged(self, step: ServerStep) -> ServerStep:
        """The step, if the session may begin with it."""
        if isinstance(step, Done) and step.expires_ms is not None and step.expires_ms <= self._wall_ms:
            # Kafka admits it until the next sweep of its controller.
            return Failed("the credential has expired", step.user)
        if isinstance(step, Done) and self.session is not None and step.user != self.session.user:
            before = self.session.user
            return Failed(
                f"another user than {shown(before)} when logging in again",
                step.user,
                f"Cannot change principals during re-authentication from {USER}.{before}: {USER}.{step.user}",
            )
        return step

    def _lifetime_ms(self, expires_ms: int | None) -> int:
        """The lifetime of a session: it ends when its credential expires, or sooner by the settings. 0: no limit."""
        lifetime_ms = self._mechanisms.lifetime_ms.get(self._mechanism, 0)
        if expires_ms is None:
            return lifetime_ms
        left_ms = expires_ms - self._wall_ms
        return min(left_ms, lifetime_ms) if lifetime_ms else left_ms

    def _failed(self, header: Header, step: Failed) -> Outcome:
        text = step.text
        if text is None:
            # It is the same for each reason.
            during = "re-authentication" if self.session is not None else "authentication"
            text = (
                f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            )
        response = messages.SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text
        )
        return self._refused(header.key, _framed(header, response, header.version), step.reason, step.user)

    # --- the end

    def _admitted(self, key: int, payload: bytes, done: Done) -> Admitted:
        again = self.session is not None
        session = Session(self._mechanism, done.user, self._lifetime_ms(done.expires_ms), done.token_id)
        self.session = session
        self._exchange = None
        self._go(State.COMPLETE)
        return Admitted(key, payload, session, again)

    def _refused(self, key: int, payload: bytes, reason: str, user: str = "", *, is_delayed: bool = True) -> Refused:
        self._exchange = None
        self._go(State.FAILED)
        return Refused(
            key, payload, reason, self._mechanism, shown(user), is_delayed=is_delayed, again=self.session is not None
        )

    def _go(self, state: State) -> None:
        assert self.state in PREDECESSORS[state], f"from {self.state} to {state}"
        self.state = state

    def _header(self, data: bytes) -> Header | None:
        """The header of a request; None for an unknown API key. Raises WireError."""
        if len(data) < _HEADER_BYTES_MIN:
            return None
        key = int.from_bytes(data[:2], "big", signed=True)
        if key not in _APIS:
            return None
        if key not in _SERVED:
            return Header(key, 0, 0, memoryview(b""))
        _, version, correlation_id, _, at = frame.parse_request_header(data)
        return Header(key, version, correlation_id, memoryview(data)[at:])


_APIS: Final = frozenset(map(int, ApiKey))
_SERVED: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)


def _is_served(header: Header) -> bool:
    low, high = frame.api_versions(header.key)
    return low <= header.version <= high


def _decoded(cls: type[M], header: Header) -> M:
    return codec.decode_request(cls, header.version, header.body, ELEMENTS_MAX)


def _framed(header: Header, response: Message, version: int) -> bytes:
    tags = b"\0" if frame.response_header_version(header.key, version) >= 1 else b""
    body = header.correlation_id.to_bytes(4, "big", signed=True) + tags + codec.encode(response, version)
    return len(body).to_bytes(4, "big") + body


def _api(key: int) -> str:
    return ApiKey(key).name
