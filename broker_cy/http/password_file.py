"""A file of users with their passwords and roles, as Jetty's PropertyFileLoginModule reads it:

    alice: secret,admin,developer
    bob: MD5:5ebe2294ecd0e0f08eab7690d2a6ee69,developer
    carol: OBF:1yf41u2g1u2c1yf2

MD5 is that of the password in ISO 8859-1. OBF only hides a password from a glance. CRYPT is refused: it uses eight
characters of a password.

The file is read again when it changes. While it cannot be read or is not valid, every login fails: a user who was
removed by an unreadable change must not keep access.

Bounds: FILE_BYTES_MAX (core.properties) of the file, whose time is checked at most once per LOOK_S.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Callable
from typing import Final

from broker_cy.client.tls import file_version
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file
from broker_cy.http.logins import User
from broker_cy.security.passwords import is_equal

LOOK_S: Final = 1.0
_MD5: Final = "MD5:"
_OBF: Final = "OBF:"
_CRYPT: Final = "CRYPT:"
_HEX_CHARACTERS: Final = 32
# A character of OBF is two numbers of the base 36 in one, so that it is written differently at each place.
_GROUP_CHARACTERS: Final = 4
_BASE: Final = 36

_LOG = logging.getLogger(__name__)


class _Entry(NamedTuple):
    """`password` is the digest of it, in hexadecimal digits, if `is_digest`."""

    password: str
    is_digest: bool
    roles: frozenset[str]


class PasswordFile:
    """See the module. `now_s` is a monotonic clock."""

    def __init__(self, path: str, now_s: Callable[[], float]) -> None:
        """Raises ConfigError if the file cannot be used, or has no users."""
        self.path = path
        self._now_s = now_s
        self._key = os.urandom(32)
        self._looked_s = now_s()
        self._seen: object = file_version(path)
        self._users = _read_users(path)

    @property
    def is_open_to_others(self) -> bool:
        """Whether every user of this machine can read the file."""
        try:
            return bool(os.stat(self.path).st_mode & stat.S_IROTH)
        except OSError:
            return False

    def version(self) -> object:
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            seen = file_version(self.path)
            if seen != self._seen:
                self._seen = seen
                self._read()
        return self._seen

    def _read(self) -> None:
        try:
            self._users = _read_users(self.path)
        except ConfigError as error:
            self._users = {}
            _LOG.error("every login fails: %s", error)

    async def check(self, name: str, password: str) -> User | None:
        entry = self._users.get(name)
        is_digest = entry is not None and entry.is_digest
        given = _md5_of(password) if is_digest else password
        if not is_equal(given, None if entry is None else entry.password, self._key):
            return None
        assert entry is not None  # an unknown user has no password
        return User(name, entry.roles)


def _read_users(path: str) -> dict[str, _Entry]:
    """Raises ConfigError, which names no password."""
    found = {name: _entry(path, name, text) for name, text in read_properties_file(path).items()}
    if not found:
        raise ConfigError(f"{path}: it has no users")
    return found


def _entry(path: str, name: str, text: str) -> _Entry:
    password, *roles = (each.strip() for each in text.split(","))
    where = f"{path}: the password of {name!r}"
    if not password:
        raise ConfigError(f"{where} is empty")
    if password.startswith(_CRYPT):
        raise ConfigError(f"{where} has the form CRYPT, which checks eight characters of it: use another form")
    is_digest = password.startswith(_MD5)
    if is_digest:
        password = password.removeprefix(_MD5).lower()
        if len(password) != _HEX_CHARACTERS or not all(each in "0123456789abcdef" for each in password):
            raise ConfigError(f"{where} is no MD5 in {_HEX_CHARACTERS} hexadecimal digits")
    elif password.startswith(_OBF):
        try:
            password = _plain(password.removeprefix(_OBF))
        except ValueError:
            raise ConfigError(f"{where} is not in the form OBF") from None
    return _Entry(password, is_digest, frozenset(each for each in roles if each))


def _md5_of(password: str) -> str:
    # As Java does: a character that ISO 8859-1 does not have is a question mark.
    return hashlib.md5(password.encode("latin-1", "replace"), usedforsecurity=False).hexdigest()


def _plain(hidden: str) -> str:
    """Return a password in the form OBF of Jetty. Raises ValueError."""
    data = bytearray()
    at = 0
    while at < len(hidden):
        is_raw = hidden[at] == "U"
        at += is_raw
        number = int(hidden[at : at + _GROUP_CHARACTERS], _BASE)
        at += _GROUP_CHARACTERS
        high, low = divmod(number, 256)
        value = high if is_raw else (high + low - 254) // 2
        data.append(value & 0xFF)
    return data.decode()
