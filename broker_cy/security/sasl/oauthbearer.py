"""OAUTHBEARER (RFC 7628, KIP-255): the client's token is a JSON Web Token, which a validator checks.

    client: n,[a=authzid],^A auth=Bearer TOKEN ^A [NAME=VALUE ^A ...] ^A     (^A is the byte 1; without the blanks)
    server: nothing, or {"status":"invalid_token"}
    client: ^A; the server answers with the failure

Extensions are accepted and have no effect, as in Kafka without a custom callback handler.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from broker_cy.core import fetch
from broker_cy.core.classes import NamedTuple
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, LoginFailed, ServerStep, shown

# The limit of the client's first message, and of a token in a file.
MESSAGE_BYTES_MAX: Final = 65_536
_END: Final = "\x01"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_BEARER: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_AUTH: Final = "auth"
_INVALID: Final = '{"status":"invalid_token"}'


class TokenEndpoint(NamedTuple):
    """The source of a client's token (sasl.oauthbearer.token.endpoint.url): a file, or a provider that knows the client
    and its secret. The secret is not in the `repr`.
    """

    url: str
    client_id: str = ""
    secret: str = ""
    scope: str = ""

    def __repr__(self) -> str:
        return f"TokenEndpoint({self.url})"

    @property
    def is_file(self) -> bool:
        return fetch.is_file(self.url)


class Accepted(NamedTuple):
    """Whose a token is, and until when it counts, in wall time."""

    user: str
    expires_ms: int


class Rejected(NamedTuple):
    """Why a token does not count, for the log."""

    reason: str


# Judges a token.
Validator = Callable[[str], Accepted | Rejected]


class OAuthBearerServer:
    """One login."""

    def __init__(self, validate: Validator) -> None:
        self._validate = validate
        self._reason = ""
        self._is_over = False

    def __repr__(self) -> str:
        return "OAuthBearerServer()"

    def step(self, token: bytes) -> ServerStep:
        if self._is_over:
            return Failed("a token after the end of the exchange")
        if self._reason:
            self._is_over = True
            return Failed(self._reason, "", _INVALID if token == _END.encode() else None)
        found = self._first(token)
        self._is_over = not isinstance(found, Challenge)
        return found

    def _first(self, token: bytes) -> ServerStep:
        first = _FIRST.fullmatch(token.decode("latin-1")) if len(token) <= MESSAGE_BYTES_MAX else None
        if first is None:
            return Failed("an invalid first message of OAUTHBEARER")
        pairs = [pair.partition("=")[::2] for pair in first[2].split(_END)[:-1]]
        names = [name for name, _ in pairs]
        bearer = _BEARER.fullmatch(dict(pairs).get(_AUTH, ""))
        if len(set(names)) < len(names) or bearer is None or bearer[1].lower() != "bearer":
            return Failed("an invalid first message of OAUTHBEARER")
        judged = self._validate(bearer[2])
        if isinstance(judged, Rejected):
            # The client learns that only, and answers with an empty message.
            self._reason = judged.reason
            return Challenge(_INVALID.encode())
        if first[1] and first[1].replace("=2C", ",").replace("=3D", "=") != judged.user:
            return Failed(
                "another authorization id",
                judged.user,
                f"Authentication failed: Client requested an authorization id ({shown(first[1])}) that is different "
                f"from the token's principal name ({shown(judged.user)})",
            )
        return Done(b"", judged.user, judged.expires_ms)


class OAuthBearerClient:
    """The half of the client."""

    blocks: Final = False

    def __init__(self, token: str) -> None:
        if not _BEARER.fullmatch(f"Bearer {token}"):
            raise LoginFailed("what is to be the token of OAUTHBEARER is none")
        self._token = token
        self.is_complete = False

    def __repr__(self) -> str:
        return "OAuthBearerClient()"

    def first(self) -> bytes:
        return f"n,,{_END}auth=Bearer {self._token}{_END}{_END}".encode()

    def step(self, token: bytes) -> bytes | None:
        if self.is_complete:
            raise LoginFailed("the server sent a token that OAUTHBEARER does not have")
        if token:
            # The server's answer to this has its reason.
            return _END.encode()
        self.is_complete = True
        return None
