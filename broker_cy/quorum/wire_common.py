"""The common parts of conversions from and to Kafka's requests: this node's identity, and the refusal of requests."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.voters import Endpoint, ReplicaKey
from broker_cy.wire.codec import Message

TOPIC: Final = "__cluster_metadata"
PARTITION: Final = 0


class Identity(NamedTuple):
    """This node: its cluster, its key, and the name of the controller listener that nodes of the quorum use."""

    cluster_id: str
    replica: ReplicaKey
    listener: str


class Refused(Exception):
    """The request is answered with `response`; the state machine does not see it."""

    def __init__(self, response: Message, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.response = response
        self.error = error


def is_strange(me: Identity, cluster_id: str | None) -> bool:
    """Whether a request comes from another cluster. Kafka does not insist on a cluster id."""
    return cluster_id is not None and cluster_id != me.cluster_id


def replica_key(replica_id: int, directory_id: UUID) -> ReplicaKey | None:
    """None if the request names no replica."""
    return ReplicaKey(replica_id, directory_id) if replica_id >= 0 else None


def endpoints_of(listeners: list[Any]) -> tuple[Endpoint, ...]:
    """The endpoints in a list of structures with name, host and port, without a second one of the same name."""
    return tuple({one.name: Endpoint(one.name, one.host, one.port) for one in reversed(listeners)}.values())[::-1]


def listeners_of(cls: type[Any], endpoints: tuple[Endpoint, ...]) -> list[Any]:
    """The reverse, with structures of class `cls`."""
    return [cls(name=name, host=host, port=port) for name, host, port in endpoints]


def address_on(endpoints: tuple[Endpoint, ...], listener: str) -> Endpoint | None:
    return next((one for one in endpoints if one.name == listener), None)
