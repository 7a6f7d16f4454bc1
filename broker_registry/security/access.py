"""The permissions of the client of a request.

A subject is as its topic. The topic is what comes before the last hyphen of the subject, without its context:
`orders-value` and `orders-key` (TopicNameStrategy) and `orders-com.acme.Order` (TopicRecordNameStrategy) are of the
topic `orders`. A subject without a hyphen, such as `com.acme.Order` (RecordNameStrategy), is as a topic of its own
name. Settings and deletions of a whole context, and of the registry, are operations on the cluster.
"""

from __future__ import annotations

from typing import Final

from broker_cy.security.acls import ANONYMOUS, CLUSTER_NAME, Operation, ResourceType
from broker_registry.errors import RegistryError, access_denied, unauthorized
from broker_registry.security.cluster_acls import AclsUnknown, ClusterAcls
from broker_registry.subject_names import SubjectName

_HYPHEN: Final = "-"


def topic_of(subject: str) -> str | None:
    """Return the name of the topic that decides about a subject; None for a context, and for no subject."""
    name = SubjectName.parse(subject).subject
    if not name:
        return None
    topic, hyphen, _ = name.rpartition(_HYPHEN)
    return topic if hyphen and topic else name


class Access:
    """`principal` is None for a client that has not logged in. Without ACLs each client may do everything."""

    __slots__ = ("_acls", "_host", "principal")

    def __init__(self, principal: str | None, host: str, acls: ClusterAcls | None) -> None:
        self.principal = principal
        self._host = host
        self._acls = acls

    @property
    def sees_everything(self) -> bool:
        """Whether lists need no filter."""
        return self._acls is None or self.principal in self._acls.super_users

    def may(self, operation: Operation, subject: str | None) -> bool:
        """Return whether the client may do this to a subject; to a context, or (None) the registry: to the cluster.
        Raises RegistryError while the ACLs are not known.
        """
        if self._acls is None:
            return True
        if self.principal is None:
            return False
        topic = None if subject is None else topic_of(subject)
        kind, name = (ResourceType.CLUSTER, CLUSTER_NAME) if topic is None else (ResourceType.TOPIC, topic)
        try:
            mask = self._acls.mask(self.principal, self._host, kind, name)
        except AclsUnknown:
            raise RegistryError(503, "The ACLs of the cluster are not known at the moment") from None
        return bool(mask >> operation & 1)

    def sees(self, subject: str) -> bool:
        """Return whether the client may read the schemas of a subject."""
        return self.may(Operation.DESCRIBE, subject)

    def require(self, operation: Operation, subject: str | None, shown: str | None = None) -> None:
        """Raise RegistryError unless the client may do this. `shown` is the name in the request, if it leads to
        `subject`.
        """
        if not self.may(operation, subject):
            raise self.denied(operation, f"Subject: {shown or subject}" if subject else "the registry")

    def denied(self, operation: Operation, what: str) -> RegistryError:
        """Return the error for a client without a right to do something to `what`."""
        return unauthorized() if self.principal is None else access_denied(operation.name.capitalize(), what)


class _Nothing(Access):
    def may(self, operation: Operation, subject: str | None) -> bool:
        return False

    @property
    def sees_everything(self) -> bool:
        return False


EVERYTHING: Final = Access(ANONYMOUS, "", None)
"""The access of clients without logins and ACLs."""
NOTHING: Final = _Nothing(None, "", None)
"""The access of a request whose client is not known yet."""
