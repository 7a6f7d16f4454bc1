"""A SASL exchange: the peers send each other tokens, until the server knows the user or refuses.

No class here has a password in its `repr`; log lines show texts of a peer only through `shown`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from broker_cy.core.classes import NamedTuple

# The number of characters that logs show of a name that a client sent.
NAME_SHOWN_MAX: Final = 100


class Challenge(NamedTuple):
    """The next token for the peer."""

    token: bytes


class Done(NamedTuple):
    """The user is authenticated. `token` is the last one for the client, which may be empty; `expires_ms` is the wall
    time at which its credential expires, None for never; `token_id` is that of its delegation token, if that is its
    credential.
    """

    token: bytes
    user: str
    expires_ms: int | None = None
    token_id: str = ""


class Failed(NamedTuple):
    """The login failed. `reason` is for the log and names no secret; `text` is for the client, None for the text
    that is the same for each wrong credential.
    """

    reason: str
    user: str = ""
    text: str | None = None


class Work(NamedTuple):
    """The step takes calls that may block: `run` makes them, in any thread, and returns the step. No other method of
    the exchange is called meanwhile.
    """

    run: Callable[[], ServerStep]


ServerStep = Challenge | Done | Failed | Work


class ServerExchange(Protocol):
    """One login at the server: `step` is called with each token of the client, until it returns Done or Failed."""

    def step(self, token: bytes) -> ServerStep: ...


class ClientExchange(Protocol):
    """One login at the client. Invariant: `is_complete` is only true once the server has proved its identity, if
    required. `blocks`: `first` and `step` may wait for other machines.
    """

    is_complete: bool

    @property
    def blocks(self) -> bool: ...

    def first(self) -> bytes:
        """The first token."""
        ...

    def step(self, token: bytes) -> bytes | None:
        """The answer to a token of the server; None if it needs none. Raises LoginFailed."""
        ...


class LoginFailed(Exception):
    """The server refused the login, or is not the one that knows the password; the text has no secret."""


class Login:
    """The user and password of a client's login. The password is not in its `repr`. `is_token`: they are the id and the
    HMAC, in base64, of a delegation token.
    """

    __slots__ = ("is_token", "mechanism", "password", "user")

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism
        self.user = user
        self.password = password
        self.is_token = is_token

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.user!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Login):
            return NotImplemented
        return self._all() == other._all()

    def _all(self) -> tuple[str, str, str, bool]:
        return self.mechanism, self.user, self.password, self.is_token

    __hash__ = object.__hash__


class KerberosLogin(NamedTuple):
    """The Kerberos identity of a client or a listener, and the place of its key or ticket. `service` is the primary of
    the principals of brokers.

    With `uses_tickets`, a client uses the tickets of a user who has logged in (kinit), in `location`; otherwise
    `location` is the file with the key of `principal` (a keytab). An empty location is the machine's default.
    """

    service: str
    principal: str
    location: str = ""
    uses_tickets: bool = False


class Passwords:
    """The users of PLAIN with their passwords, which are not in its `repr`."""

    __slots__ = ("by_user",)

    def __init__(self, by_user: Mapping[str, str]) -> None:
        self.by_user: Final = dict(by_user)

    def __repr__(self) -> str:
        return f"Passwords(of {len(self.by_user)} users)"


def shown(name: str) -> str:
    """A name that a client sent, for a log line: bounded, without control characters."""
    text = "".join(sign if sign.isprintable() else "?" for sign in name[:NAME_SHOWN_MAX])
    return text + "..." if len(name) > NAME_SHOWN_MAX else text
