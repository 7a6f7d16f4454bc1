"""The context of a request: all that a handler knows besides its body."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker_cy.broker.broker import Broker
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.authors import Author
from broker_cy.metrics.events import Client
from broker_cy.security import authorized_operations
from broker_cy.security.acls import ANONYMOUS, CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from broker_cy.broker.client_quotas import Changes


class RequestContext:
    """One request of a client: its API and version, the client and its address, and the broker that serves it.

    `principal` is the client's principal in Kafka's form: `User:NAME`; `by_token`: it has logged in with a delegation
    token. A handler sets `still_stands` if the client may send the same bytes again and again: before each repetition,
    the function returns whether the handler would give the same response, and does what the handler would do.
    """

    # Whether another broker has forwarded it, after its own checks.
    is_forwarded = False

    __slots__ = (
        "api_key",
        "broker",
        "by_token",
        "client_host",
        "client_id",
        "connection_id",
        "listener",
        "principal",
        "still_stands",
        "version",
    )

    def __init__(
        self,
        broker: Broker,
        api_key: int,
        version: int,
        client_id: str | None,
        client_host: str,
        listener: str,
        connection_id: str = "",
        principal: str = ANONYMOUS,
        by_token: bool = False,
    ) -> None:
        self.broker = broker
        self.api_key = api_key
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.listener = listener
        self.connection_id = connection_id
        self.principal = principal
        self.by_token = by_token
        self.still_stands: Callable[[], bool] | None = None

    @property
    def is_for_controller(self) -> bool:
        """Whether the request arrived on a listener of controllers."""
        return self.listener in self.broker.config.network.controller_names

    @property
    def client(self) -> Client:
        """The client, as events name it."""
        return Client(client_id=self.client_id or "", host=self.client_host, principal=self.principal)

    @property
    def author(self) -> Author:
        """The client, as records of the metadata name it."""
        return Author(self.client_id or "", self.client_host, self.principal)

    def as_request_of(self, api_key: int, version: int) -> RequestContext:
        """The context of another request that the broker makes in the name of this client."""
        return RequestContext(
            self.broker,
            api_key,
            version,
            self.client_id,
            self.client_host,
            self.listener,
            self.connection_id,
            self.principal,
            self.by_token,
        )

    def changes(self, *, strict: bool) -> Changes | None:
        """The client's remaining quota of partition changes (KIP-599); None without a quota for it. With `strict`,
        changes beyond it are refused.
        """
        quotas = self.broker.quotas
        if not quotas.is_on:
            return None
        return quotas.changes(self.principal, self.client_id, strict=strict)

    # --- rights: without an authorizer everything is allowed

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, in_list: bool = False) -> bool:
        """Whether the client may do this. With `in_list` it did not name the resource, which is only left out."""
        authorization = self.broker.authorization
        if authorization is None:
            return True
        if authorization.mask(self.principal, self.client_host, resource_type, name) >> operation & 1:
            authorization.saw(self.principal, self.client_host, operation, resource_type, name, in_list=in_list)
            return True
        if not in_list:
            authorization.denied(self.principal, self.client_host, self.api_key, operation, resource_type, name)
        return False

    def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str], *, in_list: bool = False
    ) -> set[str]:
        """The names of the resources that the client may use in this operation."""
        if self.broker.authorization is None:
            return set(names)
        return {name for name in dict.fromkeys(names) if self.allows(operation, resource_type, name, in_list=in_list)}

    def allows_cluster(self, operation: Operation, *, in_list: bool = False) -> bool:
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, in_list=in_list)

    def require_cluster(self, operation: Operation, *, is_brief: bool = False) -> None:
        """Raises KafkaError unless the client may do this with the cluster. Kafka's answers of some APIs are brief:
        they do not name the missing ACL.
        """
        authorization = self.broker.authorization
        if authorization is None:
            return
        if (error := authorization.not_loaded(self.principal)) is not None:
            raise error
        if not self.allows_cluster(operation):
            message = f"The request needs {operation.name} permission on the cluster."
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed." if is_brief else message
            )

    def allows_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do this with some resource of the type, of any name (KIP-679)."""
        authorization = self.broker.authorization
        return authorization is None or authorization.allows_some(
            self.principal, self.client_host, operation, resource_type
        )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may perform on a resource, as bits (KIP-430)."""
        supported = authorized_operations.SUPPORTED[resource_type]
        authorization = self.broker.authorization
        if authorization is None:
            return supported
        return authorization.mask(self.principal, self.client_host, resource_type, name) & supported

    def cluster_operations(self) -> int:
        """The same for the cluster; none for a client that may not describe it."""
        if not self.allows_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)


class ForwardedContext(RequestContext):
    """A request that a broker forwarded to the active controller in an Envelope."""

    __slots__ = ()
    is_forwarded = True
