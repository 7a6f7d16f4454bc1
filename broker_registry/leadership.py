"""The group of Confluent's registry that elects the instance which writes, without input or output.

    protocol type `sr`, protocol `v0`
    member       {"host","port","master_eligibility","scheme","version":1,"leader"}
    assignment   {"error","master","master_identity","version":1}, the same for all members

The member that the coordinator makes the leader of the group chooses: among the members that may lead, the one with the
least URL; if elections are sticky, one that leads already. Two members with one URL get the error 1, and none writes.
Members that this version does not know in JSON are ignored, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from broker_cy.client.group_member import Joined, MemberSettings, Mode
from broker_cy.core.errors import WireError

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
VERSION: Final = 1
NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1
HTTP: Final = "http"
HTTPS: Final = "https"


@dataclass(frozen=True, slots=True)
class Identity:
    """An instance as the others reach it. `is_leader` is what it knew when it joined."""

    host: str
    port: int
    is_eligible: bool = True
    scheme: str = HTTP
    is_leader: bool = False

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def is_same(self, other: Identity) -> bool:
        """Return whether both are one instance."""
        return self == replace(other, is_leader=self.is_leader)

    def to_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "version": VERSION,
            "leader": self.is_leader,
        }

    @classmethod
    def parse(cls, found: Any) -> Identity:
        """Raises WireError."""
        try:
            return cls(
                str(found["host"]),
                int(found["port"]),
                found.get("master_eligibility") is True,
                found.get("scheme") or HTTP,
                found.get("leader") is True,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise WireError(f"{found!r} is no identity of a schema registry") from None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The result of an election; `leader` is None if no member may lead."""

    error: int = NO_ERROR
    member_id: str | None = None
    leader: Identity | None = None

    def encode(self) -> bytes:
        found: dict[str, Any] = {"error": self.error}
        if self.member_id is not None and self.leader is not None:
            found |= {"master": self.member_id, "master_identity": self.leader.to_json()}
        return orjson.dumps({**found, "version": VERSION})

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Raises WireError."""
        try:
            found = orjson.loads(data)
            leader = found.get("master_identity")
            return cls(
                int(found.get("error", NO_ERROR)),
                found.get("master"),
                None if leader is None else Identity.parse(leader),
            )
        except (ValueError, TypeError, AttributeError):
            raise WireError(f"{data[:200]!r} is no assignment of a schema registry") from None


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """`own` is where other instances reach this one; without a host or a port, where it listens. `read_s` bounds a
    forwarded request.
    """

    own: Identity
    is_sticky: bool = False
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    read_s: float = 60.0

    def member(self, group: str) -> MemberSettings:
        return MemberSettings(group, self.session_timeout_ms, self.heartbeat_interval_ms, self.rebalance_timeout_ms)

    def at(self, host: str, port: int) -> ElectionSettings:
        """Return the settings of an instance that listens there."""
        return replace(self, own=replace(self.own, host=self.own.host or host, port=self.own.port or port))


def elected(members: Mapping[str, Identity], *, is_sticky: bool) -> Assignment:
    """Return the result of an election among members by their ids in the group."""
    eligible = [(each.url, member_id) for member_id, each in members.items() if each.is_eligible]
    leading = [(url, member_id) for url, member_id in eligible if members[member_id].is_leader]
    chosen = leading if is_sticky and len(leading) == 1 else eligible
    error = NO_ERROR if len({each.url for each in members.values()}) == len(members) else DUPLICATE_URLS
    if not chosen:
        return Assignment(error)
    _, member_id = min(chosen)
    return Assignment(error, member_id, members[member_id])


class RegistryProtocol:
    """The protocol of the group for GroupMember: the part of a member is the leader."""

    protocol_type = PROTOCOL_TYPE
    mode = Mode.EAGER

    def __init__(self, own: Identity, *, is_sticky: bool = False) -> None:
        self.own, self.is_sticky = own, is_sticky
        # Why there is no leader; empty if there is one.
        self.problem = ""

    def metadata(self, owned: frozenset[Identity]) -> Sequence[tuple[str, bytes]]:
        return [(PROTOCOL, orjson.dumps(self.own.to_json()))]

    def parts(self, assignment: bytes) -> frozenset[Identity]:
        """Return the leader, nothing without one. Raises WireError."""
        found = Assignment.decode(assignment)
        self.problem = _problem(found)
        leads = found.leader is not None and not self.problem and found.leader.is_same(self.own)
        if self.is_sticky:
            self.own = replace(self.own, is_leader=leads)
        return frozenset() if self.problem or found.leader is None else frozenset({found.leader})

    def assignments(self, members: Sequence[Joined]) -> dict[str, bytes]:
        """Return the assignment of each member, as the leader of the group. One that is not understood cannot lead."""
        found: dict[str, Identity] = {}
        for each in members:
            with suppress(WireError):
                found[each.member_id] = Identity.parse(_loaded(each.metadata))
        return dict.fromkeys((each.member_id for each in members), elected(found, is_sticky=self.is_sticky).encode())


def _loaded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError:
        raise WireError(f"{data[:200]!r} is no JSON") from None


def _problem(found: Assignment) -> str:
    if found.error == DUPLICATE_URLS:
        return "two instances of the group have one URL: set host.name and host.port so that all differ"
    if found.error != NO_ERROR:
        return f"the election ended with the error {found.error}"
    if found.leader is None:
        return "no instance of the group may lead: set leader.eligibility"
    if not found.leader.is_eligible:
        return f"the group elected {found.leader.url}, which may not lead"
    return ""
