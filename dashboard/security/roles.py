"""Authorization: roles, scopes, and the only function that decides.

Pages, callbacks, acts and WebSockets describe what they need as a Need, and `decide` is the only place that compares it
with an Identity. The role that each act needs:

viewer: see pages, charts, settings, offsets, groups and records (masked, unless the scope is `unmasked`).
operator: also produce, copy and redrive records; create and clone topics, change their settings, add partitions; reset
    and delete offsets; delete groups; register schemas; pause and resume mirror topics.
admin: also delete topics, records and schemas; promote mirror topics; change the settings of brokers, groups and
    loggers; abort transactions; cordon, drain and decommission brokers, move replicas, elect leaders, change the voters
    of the quorum; see the audit page.

A role says which acts a user may perform; a scope says on which clusters, topics and groups. Both must allow a request.
"""

from __future__ import annotations

import enum
import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

# How an Identity logged in.
LOOPBACK: Final = "loopback"
PASSWORD: Final = "password"
OIDC: Final = "oidc"

EVERYTHING: Final = ("*",)
# Patterns of one kind in one scope, and characters of a pattern. Kafka's longest topic name has 249 characters.
PATTERNS_MAX: Final = 200
PATTERN_CHARACTERS_MAX: Final = 256
# Names that the reason of a denial lists; of further ones, only the number.
_LISTED_MAX: Final = 5
# Lists of patterns whose regular expressions are cached: three for each scope.
_MATCHERS_MAX: Final = 1_024


class Role(enum.IntEnum):
    """A role includes everything that the roles below it may do."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def text(self) -> str:
        """The name in files and options: viewer, operator or admin."""
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Role:
        """Return the role of this name. Raises ValueError, which lists the roles."""
        for role in cls:
            if role.text == text:
                return role
        raise ValueError(f"{text!r} is not a role; the roles are {', '.join(role.text for role in cls)}")


def check_pattern(text: str) -> str:
    """Return the pattern. Raises ValueError if it is empty, too long, or has characters that no name has."""
    if not 1 <= len(text) <= PATTERN_CHARACTERS_MAX:
        raise ValueError(f"{text[:40]!r}: a pattern has 1 to {PATTERN_CHARACTERS_MAX} characters")
    if not text.isprintable():
        raise ValueError(f"{text!r}: a pattern has no control characters")
    return text


@lru_cache(maxsize=_MATCHERS_MAX)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """Return a test for names. It is one regular expression, because a frame may have 15,000 topics."""
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)).match


def _normal(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return EVERYTHING if "*" in patterns else tuple(sorted(set(patterns)))


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Return whether the name matches one of the patterns."""
    return patterns == EVERYTHING or (bool(patterns) and _matcher(patterns)(name) is not None)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a user sees: those that match one of the patterns (`*`, `?`, `[abc]`, `[!abc]`; case-sensitive).

    Equal and hashable by content, in any order of the patterns, because frames are encoded once for each scope.
    `unmasked`: the fields that the masking rules hide are shown.
    """

    clusters: tuple[str, ...] = EVERYTHING
    topics: tuple[str, ...] = EVERYTHING
    groups: tuple[str, ...] = EVERYTHING
    unmasked: bool = False

    def __post_init__(self) -> None:
        for name in ("clusters", "topics", "groups"):
            object.__setattr__(self, name, _normal(tuple(getattr(self, name))))

    def sees_cluster(self, name: str) -> bool:
        return matches(self.clusters, name)

    def sees_topic(self, name: str) -> bool:
        return matches(self.topics, name)

    def sees_group(self, name: str) -> bool:
        return matches(self.groups, name)

    @property
    def sees_everything(self) -> bool:
        """Whether every cluster, topic and group is visible, so that frames need no filter. Masking is separate."""
        return self.clusters == self.topics == self.groups == EVERYTHING


@dataclass(frozen=True, slots=True)
class LoginSession:
    """The session of an Identity that logged in. Times are in seconds since 1970.

    `record` is the fingerprint of the user's record at the time of the login; the session ends when the record changes.
    `role` is the name of the role that an identity provider granted; empty for users of the file.
    """

    nonce: str
    issued_s: int
    expires_s: int
    record: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of a request: the name, the permissions, the kind of login, and the address of the client."""

    name: str
    role: Role
    scope: Scope
    login: str
    address: str
    # Not part of the representation: it would put the nonce into logs.
    session: LoginSession | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Need:
    """The access that a request needs. An empty cluster or tuple: it is about none. `every_topic` and `every_group`: it
    is about all topics, or groups, of the cluster, whatever their names.
    """

    role: Role
    cluster: str = ""
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    every_topic: bool = False
    every_group: bool = False

    @classmethod
    def about(cls, role: Role, cluster: str, params: Mapping[str, str]) -> Need:
        """Return the need of a request whose parameters `topic` and `group` name one subject."""
        topic, group = params.get("topic"), params.get("group")
        return cls(role, cluster, (topic,) if topic else (), (group,) if group else ())


def decide(identity: Identity | None, need: Need) -> str:
    """Return an empty text if `identity` may do what `need` describes, else the reason for the denial.

    The reason does not depend on whether a cluster, topic or group exists. Everything that is not allowed is denied,
    also a need whose role is not a Role.
    """
    if identity is None:
        return f"{_role_text(need.role)} is needed, and the client is not logged in"
    who = f"{identity.name} ({identity.role.text})"
    if not isinstance(need.role, Role) or identity.role < need.role:
        return f"{who} may not do this: it needs {_role_text(need.role)}"
    scope = identity.scope
    if need.cluster and not scope.sees_cluster(need.cluster):
        return f"{who} may not see cluster {need.cluster}: only {_listed(scope.clusters)}"
    if need.every_topic and scope.topics != EVERYTHING:
        return f"{who} may not do this, which is about every topic: only {_listed(scope.topics)}"
    if need.every_group and scope.groups != EVERYTHING:
        return f"{who} may not do this, which is about every group: only {_listed(scope.groups)}"
    for kind, names, sees, patterns in (
        ("topic", need.topics, scope.sees_topic, scope.topics),
        ("group", need.groups, scope.sees_group, scope.groups),
    ):
        hidden = [name for name in names if not sees(name)]
        if hidden:
            return f"{who} may not see {kind} {_listed(hidden)}: only {_listed(patterns)}"
    return ""


def _role_text(role: object) -> str:
    return f"the role {role.text}" if isinstance(role, Role) else f"an unknown role ({role!r})"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:_LISTED_MAX]) or "none"
    return f"{shown} and {len(names) - _LISTED_MAX:,} more" if len(names) > _LISTED_MAX else shown
