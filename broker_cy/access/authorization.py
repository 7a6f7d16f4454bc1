"""Authorization on this node: the authorizer over the committed metadata, as handlers use it through their
RequestContext.

A node without authorizer.class.name has none, and allows every operation. The ACLs are in force once this node has
applied all entries that the leader of the metadata quorum had committed when this node first heard from it. Until then
only super users are served, as on Kafka's early.start.listeners. Names of operations and resources are Kafka's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy.config.authorizer import authorizer_settings
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.events.access_journal import Kind
from broker_cy.security.acls import Operation, ResourceType, host_text
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.events.access_journal import AccessJournal
    from broker_cy.events.denials import Denials
    from broker_cy.events.log_events import LogEvents
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.security.authorizer import Authorizer, Explanation

LOGGER = logging.getLogger("broker_cy.server.authorization")

# Between two looks at whether the ACLs are loaded, at the start.
LOAD_POLL_S: Final = 0.005
# Kafka's messages for denied operations.
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}


class Authorization:
    """The authorizer of a node. `apply` must be the first subscriber of the metadata."""

    def __init__(
        self,
        authorizer: Authorizer,
        announced_end: Callable[[], int],
        applied_end: Callable[[], int],
        log_events: LogEvents,
    ) -> None:
        """`announced_end` returns the end of the committed metadata, as the leader of the quorum has announced it, 0
        before that; `applied_end` returns the end of the metadata applied here.
        """
        self.authorizer = authorizer
        self._announced_end = announced_end
        self._applied_end = applied_end
        self._log_events = log_events
        # They write events; None while events are off.
        self.denials: Denials | None = None
        self.journal: AccessJournal | None = None
        self._wanted_end = 0  # the end to apply before the ACLs are in force; 0: not known yet
        self._is_loaded = False

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        announced_end: Callable[[], int],
        applied_end: Callable[[], int],
        log_events: LogEvents,
    ) -> Authorization | None:
        """The authorizer that is configured for the node, if one is; otherwise as the constructor."""
        settings = authorizer_settings(config)
        if settings is None:
            return None
        # Imported here, because most nodes have none, and start sooner without it.
        from broker_cy.security.authorizer import Authorizer

        authorizer = Authorizer(settings.super_users, allow_if_no_acl=settings.allow_if_no_acl)
        return cls(authorizer, announced_end, applied_end, log_events)

    @property
    def is_loaded(self) -> bool:
        """Whether the ACLs count. It never becomes false again."""
        if not self._is_loaded:
            self._wanted_end = self._wanted_end or self._announced_end()
            self._is_loaded = 0 < self._wanted_end <= self._applied_end()
        return self._is_loaded

    async def loaded(self) -> None:
        """Wait until the ACLs count."""
        while not self.is_loaded:
            await asyncio.sleep(LOAD_POLL_S)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take over the changes of a commit."""
        try:
            self.authorizer.change(delta.acls)
        except Exception:
            # A decision by half of the ACLs might allow an operation that another ACL denies.
            LOGGER.exception("could not apply a change of ACLs; all are read again")
            self.authorizer.replace(image.acls())

    def mask(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that are allowed, as bits `1 << Operation`."""
        if not self.is_loaded and principal not in self.authorizer.super_users:
            return 0
        return self.authorizer.mask(principal, host_text(host), resource_type, name)

    def allows_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client has a right to the operation on some resource of the type (KIP-679)."""
        if not self.is_loaded and principal not in self.authorizer.super_users:
            return False
        return self.authorizer.allows_some(principal, host_text(host), operation, resource_type)

    def saw(
        self, principal: str, host: str, operation: int, resource_type: int, name: str, *, in_list: bool = False
    ) -> None:
        """Note that a client has used a right. With `in_list` it did not name the resource."""
        if self.journal is not None and principal not in self.authorizer.super_users:
            kind = Kind.LISTED if in_list else Kind.NAMED
            self.journal.saw(principal, host_text(host), operation, resource_type, name, kind)

    def not_loaded(self, principal: str) -> KafkaError | None:
        """The error for a client whose rights are not known yet, as Kafka answers it (AuthorizerNotReadyException)."""
        if self.is_loaded or principal in self.authorizer.super_users:
            return None
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The ACLs of the cluster are not loaded yet.")

    def denied(
        self, principal: str, host: str, api_key: int, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Report in the log and in events that a client was denied access to a resource that it named. A resource that
        is only left out of a list is not reported.
        """
        if self.journal is not None:
            self.journal.saw(principal, host_text(host), operation, resource_type, name, Kind.REFUSED)
        api = ApiKey(api_key).name
        self._log_events.denied(principal, host, api, operation.name, resource_type.name, name)
        if self.denials is None:
            return

        def explain() -> Explanation | None:
            if not self.is_loaded:
                return None
            return self.authorizer.explain(principal, host_text(host), operation, resource_type, name)

        self.denials.denied(principal, host, api, operation.name, resource_type.name, name, explain)
