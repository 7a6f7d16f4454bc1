"""Sessions: a signed cookie, so that logins survive a restart of the dashboard, and the list of logged-out sessions.

The cookie is base64url(JSON) "." base64url(HMAC-SHA256), where the JSON has name, kind of login, granted role (identity
providers), time of issue in s, nonce, and the fingerprint of the user's record. The key is a file of 32 random bytes in
the state directory, mode 0600, created once. A client that has this key can log in as any user.

Sessions end 12 h after their issue, by logging out, or when the user's record changes (the caller compares). Nonces of
sessions that were logged out are kept until these expire, also over a restart, in the file `revoked` of the state
directory with lines of nonce and expiry in s. If there are too many, all sessions issued so far end.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from broker_cy.client.errors import ClientError
from dashboard.security.files import PRIVATE_MODE, create_private, invalid, read_private, replace_private
from dashboard.security.roles import LoginSession

LIFETIME_S: Final = 12 * 3_600
KEY_BYTES: Final = 32
# Browsers keep at most 4,096 bytes; longer cookies are refused before they are decoded.
COOKIE_BYTES_MAX: Final = 4_096
# Sessions logged out within LIFETIME_S.
REVOKED_MAX: Final = 50_000
# A clock may be set back between issue and check by this much.
_CLOCK_BACK_S: Final = 300
_LINE_BYTES_MAX: Final = 64
_EVERYBODY: Final = "*"
_SESSION: Final = b"session\0"
_FORM: Final = b"form\0"

_log = logging.getLogger(__name__)


class Ticket(NamedTuple):
    """The content of a valid cookie: the user's name, the kind of login, and the session."""

    name: str
    login: str
    session: LoginSession


def load_key(path: Path) -> bytes:
    """Return the key of the file, which is created if missing. Raises ClientError if other users can read it."""
    if not path.exists():
        create_private(path, secrets.token_bytes(KEY_BYTES))
    key, _ = read_private(path, KEY_BYTES)
    if len(key) != KEY_BYTES:
        raise invalid(path, f"has {len(key)} bytes instead of {KEY_BYTES}: remove it; all users must log in again")
    return key


class Signer:
    """Signs small JSON values. Values that are signed for one purpose are not valid for another."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def digest(self, purpose: bytes, data: bytes) -> str:
        return _base64(hmac.digest(self._key, purpose + data, hashlib.sha256))

    def sign(self, purpose: bytes, value: list[object]) -> str:
        body = _base64(json.dumps(value, separators=(",", ":")).encode())
        return f"{body}.{self.digest(purpose, body.encode())}"

    def open(self, purpose: bytes, text: str) -> list[object] | None:
        """Return the value, or None if the signature is not valid."""
        if len(text) > COOKIE_BYTES_MAX or not text.isascii():
            return None
        body, _, signature = text.partition(".")
        if not hmac.compare_digest(signature, self.digest(purpose, body.encode())):
            return None
        try:
            value = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (ValueError, binascii.Error):
            return None
        return value if isinstance(value, list) else None


class Sessions:
    """Issues, checks and revokes cookies. `clock` returns the time in seconds since 1970.

    `name` is the cookie's name; `is_secure`: browsers send it over TLS only.
    """

    def __init__(self, key: bytes, revoked: Path, *, name: str, is_secure: bool, clock: Callable[[], float]) -> None:
        # A browser accepts a cookie of this prefix only with Secure, Path=/ and without Domain.
        self.cookie = f"__Host-{name}" if is_secure else name
        self.is_secure = is_secure
        self.signer = Signer(key)
        self._clock = clock
        self._path = revoked
        self._revoked: dict[str, int] = {}
        # Sessions that were issued at this time or before have ended.
        self._ended_s = 0
        self._load()

    def issue(self, name: str, login: str, record: str, role: str = "") -> tuple[str, LoginSession]:
        """Return the value of the cookie of a new session, and the session."""
        # If all sessions have just ended, a new one must not have a time of issue within the same second.
        issued_s = max(int(self._clock()), self._ended_s + 1)
        session = LoginSession(secrets.token_urlsafe(18), issued_s, issued_s + LIFETIME_S, record, role)
        return self.signer.sign(_SESSION, [name, login, role, issued_s, session.nonce, record]), session

    def read(self, value: str) -> Ticket | None:
        """Return the content of the cookie; None if it is forged or malformed, or its session has ended."""
        fields = self.signer.open(_SESSION, value)
        if fields is None or len(fields) != 6:
            return None
        name, login, role, issued_s, nonce, record = fields
        if not isinstance(issued_s, int):
            return None
        session = LoginSession(str(nonce), issued_s, issued_s + LIFETIME_S, str(record), str(role))
        return None if self.ended(session) else Ticket(str(name), str(login), session)

    def ended(self, session: LoginSession) -> str:
        """Return why the session has ended; empty if it has not."""
        now_s = self._clock()
        if now_s >= session.expires_s:
            return f"the login was more than {LIFETIME_S // 3_600} h ago"
        if session.nonce in self._revoked:
            return "logged out"
        if session.issued_s <= self._ended_s:
            return "all sessions were ended"
        return "the session was issued in the future" if session.issued_s > now_s + _CLOCK_BACK_S else ""

    def revoke(self, session: LoginSession) -> None:
        """End the session. If this cannot be written, it is logged, and the session would be valid again after a
        restart.
        """
        if len(self._revoked) >= REVOKED_MAX:
            self._drop_expired()
        if len(self._revoked) >= REVOKED_MAX:
            # Dropping one of them would make that session valid again.
            self._ended_s = int(self._clock())
            self._revoked.clear()
            _log.warning("more than %d sessions were logged out: all sessions are ended", REVOKED_MAX)
        else:
            self._revoked[session.nonce] = session.expires_s
        try:
            if self._revoked:
                self._append(f"{session.nonce} {session.expires_s}\n")
            else:
                self._rewrite()
        except (OSError, ClientError) as error:
            _log.error("%s: a logout cannot be written: %s", self._path, error)

    def csrf_token(self, session: LoginSession) -> str:
        """Return the token that a form of this session must contain."""
        return self.signer.digest(_FORM, session.nonce.encode())

    def is_csrf_token(self, session: LoginSession, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="replace"), self.csrf_token(session).encode())

    def cookie_header(self, value: str) -> str:
        """Return the value of Set-Cookie for a new session."""
        return f"{self.cookie}={value}; Max-Age={LIFETIME_S}; {self._attributes()}"

    def clearing_header(self) -> str:
        """Return the value of Set-Cookie that removes the cookie."""
        return f"{self.cookie}=; Max-Age=0; {self._attributes()}"

    def _attributes(self) -> str:
        return "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if self.is_secure else "")

    def _drop_expired(self) -> None:
        now_s = self._clock()
        self._revoked = {nonce: expires_s for nonce, expires_s in self._revoked.items() if expires_s > now_s}

    def _load(self) -> None:
        """Read the file and write it again without expired sessions. Raises ClientError if it is not valid."""
        if not self._path.exists():
            create_private(self._path, b"")
        data, _ = read_private(self._path, 2 * REVOKED_MAX * _LINE_BYTES_MAX)
        # A crash may have cut the last line.
        for line in data.decode(errors="replace").split("\n")[:-1]:
            nonce, _, expires = line.partition(" ")
            if not expires.isascii() or not expires.isdigit():
                raise invalid(self._path, f"{line[:40]!r} is not a line of nonce and expiry")
            if nonce == _EVERYBODY:
                self._ended_s = max(self._ended_s, int(expires))
            else:
                self._revoked[nonce] = int(expires)
        self._drop_expired()
        self._rewrite()

    def _rewrite(self) -> None:
        lines = [f"{_EVERYBODY} {self._ended_s}\n", *(f"{nonce} {at}\n" for nonce, at in self._revoked.items())]
        replace_private(self._path, "".join(lines).encode())
        self._lines = len(lines)

    def _append(self, line: str) -> None:
        if self._lines >= 2 * REVOKED_MAX:
            self._rewrite()
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_MODE)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)
        self._lines += 1


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
