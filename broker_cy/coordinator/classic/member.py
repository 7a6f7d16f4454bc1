"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container

from broker_cy.core.step import Token

# (name, metadata) of each protocol a member can speak, in its order of preference.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicMember:
    """The data of a member's join, and its waiting requests.

    `join_token` and `sync_token` identify the waiting JoinGroup and SyncGroup, or are None. Only the group sets them,
    because it counts them. `is_new` holds from the first join until that join is answered.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.join_token: Token | None = None
        self.sync_token: Token | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Return whether the session cannot expire because the member waits for an answer. This does not apply to a
        new member: it cannot have sent a heartbeat, and its connection may be closed.
        """
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for `protocol`. Raises KeyError if the member does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(f"member {self.member_id} does not support protocol {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """Return the candidate that this member prefers; it must support one."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise KeyError(f"member {self.member_id} supports none of {candidates}")
