"""The users of the dashboard: the users file, its changes, and the check of passwords.

The file is TOML, has mode 0600, and is written by `broker-dash user`:

[users."anna"]
hash = "$argon2id$v=19$m=19456,t=2,p=1$..."
role = "operator"
clusters = ["*"]
topics = ["orders*"]
groups = ["*"]
unmasked = false

A running dashboard reads the file again when its inode, size or time changes, so that a removed or changed user loses
access with the next request. While the file cannot be read or is not valid, access is denied to all users: a user who
was removed by an unreadable change must not keep access.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import argon2

from broker_cy.client.clusters import find_beside
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.toml_file import Table as TomlTable
from broker_cy.client.toml_file import parse
from dashboard.security.fields import Table
from dashboard.security.files import invalid, locked, read_private, replace_private
from dashboard.security.roles import Role, Scope

USERS_FILE: Final = "dashboard-users.toml"
NAME_CHARACTERS_MAX: Final = 64
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
PASSWORD_CHARACTERS_MIN: Final = 12
# Longer ones are refused before they are hashed.
PASSWORD_CHARACTERS_MAX: Final = 1_024
USERS_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 16 << 20
_FIELDS: Final = ("hash", "role", "clusters", "topics", "groups", "unmasked")
_HEADER: Final = "# Users of the dashboard. Written by `broker-dash user`: comments are not kept.\n"

# The minimum recommended by OWASP for argon2id. One check takes 50 ms and 19 MiB.
_HASHER: Final = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
# Limits for the hashes in the file: a check must not take all memory (KiB), or minutes.
_MEMORY_COST_MAX: Final = 1 << 20
_TIME_COST_MAX: Final = 64
# Concurrent checks, limited because of their memory, and checks that may wait for them.
CHECKS_AT_ONCE_MAX: Final = 2
CHECKS_WAITING_MAX: Final = 32

_log = logging.getLogger(__name__)


class Busy(Exception):
    """Too many passwords are being checked; try again in a few seconds."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of the file. `hash` is an encoded argon2id hash."""

    name: str
    hash: str
    role: Role
    scope: Scope

    def fingerprint(self) -> str:
        """Return a digest of the whole record; sessions that were issued for another one have ended."""
        scope = self.scope
        parts = [self.name, self.hash, self.role.text, scope.clusters, scope.topics, scope.groups, scope.unmasked]
        return fingerprint_of(parts)


def fingerprint_of(parts: Iterable[Any]) -> str:
    """Return a digest of the parts as text. It reveals no password: hashes have a salt that it does not contain."""
    digest = hashlib.sha256(json.dumps(list(parts)).encode()).digest()
    return base64.urlsafe_b64encode(digest[:18]).decode()


def check_name(name: str) -> str:
    """Return the name of a user. Raises ValueError, which gives the allowed characters."""
    if _NAME.fullmatch(name) is None:
        shown = name[: NAME_CHARACTERS_MAX + 1]
        raise ValueError(
            f"{shown!r} is not a user name: 1 to {NAME_CHARACTERS_MAX} letters, digits and ._-@ are allowed"
        )
    return name


def normal_password(password: str) -> str:
    """The same password typed on different systems may have composed or decomposed characters; return one form."""
    return unicodedata.normalize("NFC", password)


def hash_password(password: str) -> str:
    """Return the argon2id hash of a new password. Raises ValueError if it is too short or too long."""
    text = normal_password(password)
    if not PASSWORD_CHARACTERS_MIN <= len(text) <= PASSWORD_CHARACTERS_MAX:
        raise ValueError(
            f"the password has {len(text):,} characters: "
            f"{PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX:,} are allowed"
        )
    return _HASHER.hash(text)


def default_users_path(clusters: Path | None = None) -> Path:
    """Return the path of dashboard-users.toml beside the cluster file, whether or not it exists. A file in the default
    directory counts for every cluster file without its own: a login that was set up stays in force.
    """
    return find_beside(clusters, USERS_FILE)


def load_users(path: Path) -> dict[str, User]:
    """Load the users file. Raises ClientError with file, line and key if others can read it or it is not valid."""
    return _parse(path, read_private(path, FILE_BYTES_MAX)[0])


def _parse(path: Path, content: bytes) -> dict[str, User]:
    top = parse(path, content)
    tables = top.table("users").values
    top.finish()
    if len(tables) > USERS_MAX:
        raise top.at("users", f"users has {len(tables):,} tables: {USERS_MAX:,} are allowed")
    return {name: _user(top, name, fields) for name, fields in tables.items()}


def _user(top: TomlTable, name: str, fields: Any) -> User:
    try:
        check_name(name)
    except ValueError as error:
        raise top.at(f"users.{name}", str(error)) from None
    table = Table(fields, f"users.{name}", top.refuse, _FIELDS)
    encoded = table.text("hash")
    if not _is_usable(encoded):
        # A part of a hash, or a password entered here by mistake, must not be printed.
        raise top.refuse(f"users.{name}.hash is not an argon2id hash; set a password with broker-dash user add")
    try:
        role = Role.parse(table.text("role"))
    except ValueError as error:
        raise top.refuse(f"users.{name}.role: {error}") from None
    return User(name, encoded, role, table.scope())


def _is_usable(encoded: str) -> bool:
    try:
        found = argon2.extract_parameters(encoded)
    except (argon2.exceptions.InvalidHashError, ValueError):
        return False
    return (
        found.type is argon2.Type.ID
        and found.memory_cost <= _MEMORY_COST_MAX
        and found.time_cost <= _TIME_COST_MAX
        and found.parallelism <= 64
    )


def _document(users: Mapping[str, User]) -> bytes:
    # A JSON string without control characters is a basic string of TOML.
    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = [_HEADER]
    for name, user in sorted(users.items()):
        scope = user.scope
        parts.append(
            f"\n[users.{text(name)}]\nhash = {text(user.hash)}\nrole = {text(user.role.text)}\n"
            f"clusters = {text(scope.clusters)}\ntopics = {text(scope.topics)}\ngroups = {text(scope.groups)}\n"
            f"unmasked = {text(scope.unmasked)}\n"
        )
    return "".join(parts).encode()


def save_user(path: Path, user: User, *, replace: bool = False) -> bool:
    """Add the user to the file, which is created if it does not exist; return whether one was replaced.

    Raises ClientError if the user exists and `replace` is false, and if the file is invalid or cannot be changed.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise invalid(path, f"cannot be created: {error.strerror}") from None
    with locked(path):
        users = load_users(path) if _exists(path) else {}
        existed = user.name in users
        if existed and not replace:
            raise ClientError(Failure.INVALID, f"user {user.name} exists; --replace changes it", what=str(path))
        if not existed and len(users) >= USERS_MAX:
            raise invalid(path, f"has {USERS_MAX:,} users, which is the limit")
        replace_private(path, _document({**users, user.name: user}))
    return existed


def remove_user(path: Path, name: str) -> int:
    """Remove the user from the file and return how many remain. Raises ClientError if there is no such user."""
    if not _exists(path):
        raise invalid(path, "does not exist")
    with locked(path):
        users = load_users(path)
        if name not in users:
            raise invalid(path, f"unknown user {name!r}; known: {', '.join(sorted(users)) or 'none'}")
        del users[name]
        replace_private(path, _document(users))
        return len(users)


def _exists(path: Path) -> bool:
    # Also true for a broken link, which must be reported instead of replaced.
    return os.path.lexists(path)


_Stamp = tuple[int, int, int, int]


class Users:
    """The users of a running dashboard. `version` grows when the file changes; `problem` says why it is unusable.

    Belongs to one event loop; only the hashing runs in threads.
    """

    def __init__(self, path: Path) -> None:
        """Load the file. Raises ClientError if it is invalid, or has no users."""
        self.path = path
        self.version = 1
        self.problem = ""
        content, status = read_private(path, FILE_BYTES_MAX)
        self._users = _parse(path, content)
        if not self._users:
            raise invalid(path, "has no users; add one with broker-dash user add")
        self._stamp: _Stamp | None = _stamp(status)
        # The hash of no user: checking it takes as long as checking a hash from `hash_password`.
        self._dummy = _dummy_hash()
        self._threads = ThreadPoolExecutor(CHECKS_AT_ONCE_MAX, thread_name_prefix="password")
        self._checks = 0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def get(self, name: str) -> User | None:
        """Return the user as the file has it now; None if there is no such user or the file is unusable."""
        self._refresh()
        return self._users.get(name)

    def _refresh(self) -> None:
        """Read the file again if it has changed. Costs one stat, about 2 us."""
        try:
            stamp: _Stamp | None = _stamp(os.stat(self.path))
        except OSError:
            stamp = None
        if stamp == self._stamp:
            return
        try:
            content, status = read_private(self.path, FILE_BYTES_MAX)
            users = _parse(self.path, content)
            # The stamp is that of the file that was read: a newer file is noticed the next time.
            stamp = _stamp(status)
            problem = ""
        except ClientError as error:
            users, problem = {}, str(error)
            _log.error("no user can log in: %s", problem)
        self._users, self.problem, self._stamp = users, problem, stamp
        self.version += 1

    async def verify(self, name: str, password: str) -> User | None:
        """Return the user if the password is correct, else None. Raises Busy if too many checks are under way.

        An unknown name takes the same time as a wrong password.
        """
        text = normal_password(password[: PASSWORD_CHARACTERS_MAX + 1])
        user = self.get(name)
        is_possible = user is not None and len(text) <= PASSWORD_CHARACTERS_MAX
        encoded = user.hash if user is not None and is_possible else self._dummy
        if self._checks >= CHECKS_AT_ONCE_MAX + CHECKS_WAITING_MAX:
            raise Busy
        self._checks += 1
        try:
            matches = await asyncio.get_running_loop().run_in_executor(self._threads, self._matches, encoded, text)
        finally:
            self._checks -= 1
        return user if matches and is_possible else None

    @staticmethod
    def _matches(encoded: str, password: str) -> bool:
        try:
            return _HASHER.verify(encoded, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
        except UnicodeEncodeError:
            # A lone surrogate, which no form of a browser sends.
            return False


def _stamp(status: os.stat_result) -> _Stamp:
    # The mode as well: a file that has become readable by others is refused.
    return status.st_ino, status.st_mtime_ns, status.st_size, stat.S_IMODE(status.st_mode)


def _dummy_hash() -> str:
    def random_text(size_bytes: int) -> str:
        return base64.b64encode(os.urandom(size_bytes)).decode().rstrip("=")

    costs = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${costs}${random_text(_HASHER.salt_len)}${random_text(_HASHER.hash_len)}"
