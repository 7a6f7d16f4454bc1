"""Accesses that clients were allowed or denied in the past, from the events `accesses` in `__cluster_events`. Apache
Kafka has no such events.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from broker_cy.admin.own_topics import OwnTopic
from broker_cy.admin.records import Start
from broker_cy.core.classes import dataclass
from broker_cy.metrics.events import Accesses, Stamped, prefix_of
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.security.explain import Asked

# Different accesses that are kept; the others are counted.
ACCESSES_MAX: Final = 500_000


@dataclass(slots=True)
class Past:
    """The accesses noted since a time, each with its last time. `left_out` accesses are missing, because a broker or
    this client has no room for them. `first_ms` is the time of the first event, None without events.
    """

    accesses: dict[Asked, int] = field(default_factory=dict)
    left_out: int = 0
    allow_if_no_acl: bool = False
    first_ms: int | None = None

    def take(self, stamped: Stamped) -> None:
        event = stamped.event
        if not isinstance(event, Accesses):
            return
        if self.first_ms is None:
            self.first_ms = stamped.time_ms
        self.left_out += event.left_out
        self.allow_if_no_acl = event.allow_if_no_acl
        for access in event.accesses:
            kind = ResourceType.__members__.get(access.resource_type, ResourceType.UNKNOWN)
            for name in access.operations:
                operation = Operation.__members__.get(name, Operation.UNKNOWN)
                asked = Asked(access.principal, access.host, operation, kind, access.resource)
                if asked in self.accesses or len(self.accesses) < ACCESSES_MAX:
                    self.accesses[asked] = max(stamped.time_ms, self.accesses.get(asked, 0))
                else:
                    self.left_out += 1


class AccessCalls:
    """`client.accesses`."""

    def __init__(self, events: OwnTopic[Stamped]) -> None:
        self._events = events

    async def since(self, time_ms: int) -> Past:
        """The accesses noted since then. Raises ClientError if the cluster has no such events."""
        past = Past()
        span = await self._events.span(Start.time(time_ms))
        if span.start < span.end:
            async for entries in self._events.read(span.start, span.end, only=prefix_of(Accesses)):
                for entry in entries:
                    if entry.item is not None:
                        past.take(entry.item)
        return past
