"""Logins of clients that send one with each request: Basic (RFC 7617) and bearer tokens (RFC 6750).

A login that was accepted counts for KEPT_S without another check, a token no longer than until it expires. So a
password that was changed, a user that was removed, and a key that the provider withdrew count for KEPT_S at most; a
source of passwords may say sooner that they have changed (`version`).

Failed logins of one user from one address are delayed: after five failures the next attempt waits 1, 2, 4, ... s, at
most a minute, and is answered with 429 without a check. Other users of that address, such as those behind one proxy,
are not concerned.

Bounds: KEPT_MAX logins are kept, as keyed digests; LOGIN_BYTES_MAX of one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.http.limits import Failures, address_key
from broker_cy.security.sasl.oauthbearer import Accepted, Rejected

KEPT_S: Final = 60.0
KEPT_MAX: Final = 10_000
LOGIN_BYTES_MAX: Final = 32 << 10
_MS: Final = 1_000


class User(NamedTuple):
    """The owner of an accepted login. `roles` are those of a file of users."""

    name: str
    roles: frozenset[str] = frozenset()


class NotLoggedIn(Exception):
    """The request has no login, or a wrong one. The text is for the log, and names no secret."""


class Delayed(Exception):
    """The login was not checked: try again in `wait_s`."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"try again in {wait_s} s")
        self.wait_s = wait_s


class Unchecked(Exception):
    """The login cannot be checked now; the text says why."""


class Passwords(Protocol):
    """Users with passwords."""

    def version(self) -> object:
        """Return a value that changes with them."""

    async def check(self, name: str, password: str) -> User | None:
        """Return the user if the password is right. Raises Delayed and Unchecked."""


Tokens = Callable[[str], Accepted | Rejected]


class Basic(NamedTuple):
    user: str
    password: str


class Bearer(NamedTuple):
    token: str


def parse_authorization(values: Sequence[bytes]) -> Basic | Bearer | None:
    """Return the login in the headers Authorization; None if they are not one well-formed login."""
    if len(values) != 1 or len(values[0]) > LOGIN_BYTES_MAX:
        return None
    scheme, _, text = values[0].decode("latin-1").partition(" ")
    text = text.strip()
    if scheme.lower() == "bearer":
        return Bearer(text) if text and text.isascii() else None
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return Basic(user, password) if colon and user else None


class _Kept(NamedTuple):
    user: User
    until_s: float
    version: object


class Logins:
    """The logins of one program: passwords, tokens, or both; None if they are not accepted. `now_s` is a monotonic
    clock, `wall_s` the time by which tokens expire.
    """

    def __init__(
        self,
        passwords: Passwords | None,
        tokens: Tokens | None,
        *,
        now_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        self._passwords = passwords
        self._tokens = tokens
        self._now_s = now_s
        self._wall_s = wall_s
        self._failures = Failures(now_s)
        self._key = os.urandom(32)
        self._kept: dict[bytes, _Kept] = {}

    async def user_of(self, headers: Sequence[bytes], address: str) -> User:
        """Return the owner of the login in the headers Authorization. Raises NotLoggedIn, Delayed and Unchecked."""
        login = parse_authorization(headers)
        if isinstance(login, Basic) and self._passwords is not None:
            return await self._user_of_password(self._passwords, login, address)
        if isinstance(login, Bearer) and self._tokens is not None:
            return self._user_of_token(self._tokens, login)
        raise NotLoggedIn("no login" if not headers else "a login that is malformed, or of another kind")

    def known_user_of(self, headers: Sequence[bytes]) -> User | None:
        """Return the owner of a login that was accepted before and still counts; None if it has to be checked."""
        login = parse_authorization(headers)
        if isinstance(login, Basic) and self._passwords is not None:
            return self._found(self._digest(f"{login.user}:{login.password}"), self._passwords.version())
        if isinstance(login, Bearer) and self._tokens is not None:
            return self._found(self._digest(login.token), None)
        return None

    async def _user_of_password(self, passwords: Passwords, login: Basic, address: str) -> User:
        digest, version = self._digest(f"{login.user}:{login.password}"), passwords.version()
        found = self._found(digest, version)
        if found is not None:
            return found
        key = f"{address_key(address)} {login.user}"
        wait_s = self._failures.wait_s(key)
        if wait_s:
            raise Delayed(wait_s)
        self._failures.begin(key)
        try:
            user = await passwords.check(login.user, login.password)
        except BaseException:
            self._failures.refund(key)
            raise
        if user is None:
            raise NotLoggedIn("unknown user or wrong password")
        self._failures.clear(key)
        self._keep(digest, _Kept(user, self._now_s() + KEPT_S, version))
        return user

    def _user_of_token(self, tokens: Tokens, login: Bearer) -> User:
        digest = self._digest(login.token)
        found = self._found(digest, None)
        if found is not None:
            return found
        judged = tokens(login.token)
        if isinstance(judged, Rejected):
            raise NotLoggedIn(judged.reason)
        left_s = judged.expires_ms / _MS - self._wall_s()
        user = User(judged.user)
        self._keep(digest, _Kept(user, self._now_s() + min(KEPT_S, left_s), None))
        return user

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode(errors="surrogatepass"), key=self._key, digest_size=32).digest()

    def _found(self, digest: bytes, version: object) -> User | None:
        kept = self._kept.get(digest)
        if kept is None:
            return None
        if kept.version != version or self._now_s() >= kept.until_s:
            del self._kept[digest]
            return None
        return kept.user

    def _keep(self, digest: bytes, kept: _Kept) -> None:
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[digest] = kept
