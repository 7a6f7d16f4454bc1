"""PLAIN (RFC 4616): the client's only token is `[authzid] NUL authcid NUL passwd`, in UTF-8.

The texts for clients are those of Kafka's PlainSaslServer. An unknown user and a wrong password get the same text, and
cost the same work.
"""

from __future__ import annotations

from typing import Final

from broker_cy.security.passwords import PASSWORD_BYTES_MAX, is_equal
from broker_cy.security.sasl.exchange import Done, Failed, Login, LoginFailed, Passwords, ServerStep

# The limit of the whole token: RFC 4616 has three texts of 255 characters.
TOKEN_BYTES_MAX: Final = PASSWORD_BYTES_MAX


class PlainServer:
    """One login. `key` keys its digests: any bytes that clients do not know."""

    def __init__(self, users: Passwords, key: bytes) -> None:
        self._users = users.by_user
        self._key = key

    def __repr__(self) -> str:
        return "PlainServer()"

    def step(self, token: bytes) -> ServerStep:
        if len(token) > TOKEN_BYTES_MAX:
            return _failed(f"a token of {len(token)} bytes", "", "Invalid SASL/PLAIN response: it is too long")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            return _failed("a token that is not UTF-8", "", "Invalid SASL/PLAIN response: it is not UTF-8")
        if len(parts) != 3:
            # Kafka reads no more than four.
            return _failed(
                f"a token of {len(parts)} parts",
                "",
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}",
            )
        authorization_id, user, password = parts
        if not user:
            return _failed("no user name", "", "Authentication failed: username not specified")
        if not password:
            return _failed("no password", user, "Authentication failed: password not specified")
        if not is_equal(password, self._users.get(user), self._key):
            return _failed(
                "unknown user or wrong password", user, "Authentication failed: Invalid username or password"
            )
        if authorization_id not in ("", user):
            return _failed(
                "another authorization id",
                user,
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        return Done(b"", user)


class PlainClient:
    """The half of the client."""

    blocks: Final = False

    def __init__(self, login: Login) -> None:
        self._login = login
        self.is_complete = False

    def first(self) -> bytes:
        return f"\0{self._login.user}\0{self._login.password}".encode()

    def step(self, token: bytes) -> bytes | None:
        if token or self.is_complete:
            raise LoginFailed("the server sent a token that PLAIN does not have")
        self.is_complete = True
        return None


def _failed(reason: str, user: str, text: str) -> Failed:
    return Failed(reason, user, text)
