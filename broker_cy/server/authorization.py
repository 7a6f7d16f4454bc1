"""What clients may do on this node: the authorizer over the committed metadata, as handlers ask it by their
RequestContext.

A node without authorizer.class.name has none, and allows everything. The ACLs count once everything is applied that
the leader of the metadata quorum had committed when it was first heard of; until then only super users are served, as
on Kafka's early.start.listeners. Names of operations and resources are Kafka's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import CLUSTER_NAME, Operation, ResourceType, host_text
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.security.authorizer import Authorizer
    from broker_cy.server.context import RequestContext
    from broker_cy.server.telemetry.log_events import LogEvents

LOGGER = logging.getLogger("broker_cy.server.authorization")

CLUSTER: Final = (ResourceType.CLUSTER, CLUSTER_NAME)


class Authorization:
    """The authorizer of a node. `apply` has to be subscribed to the metadata before anybody else."""

    def __init__(self, authorizer: Authorizer, is_current: Callable[[], bool], log_events: LogEvents) -> None:
        """`is_current` returns whether the image has everything that is committed, as far as the leader said."""
        self.authorizer = authorizer
        self._is_current = is_current
        self._log_events = log_events
        self._is_loaded = False

    @property
    def is_loaded(self) -> bool:
        """Whether the ACLs count. It never becomes false again."""
        if not self._is_loaded:
            self._is_loaded = self._is_current()
        return self._is_loaded

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take over the changes of a commit."""
        try:
            self.authorizer.change(delta.acls)
        except Exception:
            # A decision by half of the ACLs might allow what another one denies.
            LOGGER.exception("could not apply a change of ACLs; all are read again")
            self.authorizer.replace(image.acls())

    def mask(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that are allowed, as bits `1 << Operation`."""
        if not self.is_loaded and principal not in self.authorizer.super_users:
            return 0
        return self.authorizer.mask(principal, host_text(host), resource_type, name)

    def allows_some(self, ctx: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client has a right to the operation on some resource of the type (KIP-679)."""
        if not self.is_loaded and ctx.principal not in self.authorizer.super_users:
            return False
        host = host_text(ctx.client_host)
        return self.authorizer.allows_some(ctx.principal, host, operation, resource_type)

    def not_loaded(self, principal: str) -> KafkaError | None:
        """The error for a client whose rights are not known yet, as Kafka answers it (AuthorizerNotReadyException)."""
        if self.is_loaded or principal in self.authorizer.super_users:
            return None
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The ACLs of the cluster are not loaded yet.")

    def denied(
        self, principal: str, host: str, api_key: int, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Log that a client was refused something that it named. What is only left out of a list is not logged."""
        self._log_events.denied(principal, host, ApiKey(api_key).name, operation.name, resource_type.name, name)
