"""Access control lists as Kafka has them (KIP-11, KIP-290): bindings of a resource pattern to an entry, filters that
select bindings, and the rules for new ones.

A binding allows or denies `principal` from `host` an operation on the resources that a pattern names. A literal pattern
is one name, or `*` for every name; a prefixed pattern stands for each name that begins with it. Numbers are those of
the protocol; as in Kafka, a number that Kafka 4.3.1 does not know is UNKNOWN, and matches no resource.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError

# The name of a literal pattern for all resources, and the host of an entry for all hosts.
WILDCARD: Final = "*"
# Kafka's principal of a connection without authentication.
ANONYMOUS: Final = "User:ANONYMOUS"
ANY_PRINCIPAL: Final = "User:*"
# The one resource of type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"


class _Code(IntEnum):
    """Numbers of the protocol; 0 stands for all unknown ones."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls(0) if isinstance(value, int) and value != 0 else None


class ResourceType(_Code):
    """The type of resource that a pattern names."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How a pattern names resources. ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """An operation on a resource. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether an entry allows or denies. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


# Operations that brokers check, by type of resource; ALL stands for each of them.
OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


class Binding(NamedTuple):
    """One access control entry on one resource pattern."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @classmethod
    def of_record(cls, record: Any) -> Binding:
        """The binding of an AccessControlEntryRecord."""
        return cls(
            ResourceType(record.resource_type),
            record.resource_name,
            PatternType(record.pattern_type),
            record.principal,
            record.host,
            Operation(record.operation),
            Permission(record.permission_type),
        )

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.principal} from {self.host} {self.operation.name} on "
            f"{self.resource_type.name} {self.pattern_type.name} {self.name}"
        )


class Filter(NamedTuple):
    """Selects bindings; None and ANY select all. MATCH selects every pattern that concerns the resource `name`."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @classmethod
    def of_request(cls, asked: Any) -> Filter:
        """The filter of a DescribeAclsRequest, or of one element of a DeleteAclsRequest."""
        return cls(
            ResourceType(asked.resource_type_filter),
            asked.resource_name_filter,
            PatternType(asked.pattern_type_filter),
            asked.principal_filter,
            asked.host_filter,
            Operation(asked.operation),
            Permission(asked.permission_type),
        )

    def check(self) -> None:
        """Raises KafkaError with Kafka's message for a filter with a part that is not known."""
        if self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
        if self.operation is Operation.UNKNOWN or self.permission is Permission.UNKNOWN:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")

    def matches(self, record: Any) -> bool:
        """Whether it selects the binding of an AccessControlEntryRecord."""
        return (
            (self.resource_type is ResourceType.ANY or record.resource_type == self.resource_type)
            and (self.principal is None or record.principal == self.principal)
            and (self.host is None or record.host == self.host)
            and (self.operation is Operation.ANY or record.operation == self.operation)
            and (self.permission is Permission.ANY or record.permission_type == self.permission)
            and self._matches_pattern(record.resource_name, record.pattern_type)
        )

    def _matches_pattern(self, name: str, pattern_type: int) -> bool:
        if self.pattern_type is PatternType.MATCH:
            if self.name is None:
                return True
            if pattern_type == PatternType.LITERAL:
                return name in (self.name, WILDCARD)
            return pattern_type == PatternType.PREFIXED and self.name.startswith(name)
        if self.pattern_type is not PatternType.ANY and pattern_type != self.pattern_type:
            return False
        return self.name is None or self.name == name


def check_new(binding: Binding) -> None:
    """Raises KafkaError with Kafka's message if a binding cannot be created (AclApis, AclControlManager)."""
    if binding.resource_type is ResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not binding.name:
        raise _invalid("Invalid empty resource name")
    if binding.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {binding.resource_type.name}")
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {binding.pattern_type.name}")
    if binding.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {binding.operation.name}")
    if binding.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {binding.permission.name}")
    if ":" not in binding.principal:
        raise _invalid(
            f"Could not parse principal from `{binding.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def host_text(host: str) -> str:
    """An address as Java writes it, because ACLs name hosts in that form: IPv6 without `::`, and IPv4 addresses that
    are mapped into IPv6 as IPv4. Any other text stays as it is.
    """
    if ":" not in host:
        return host
    # Imported here, because most clients come by IPv4.
    import ipaddress

    plain, percent, scope = host.partition("%")
    try:
        address = ipaddress.IPv6Address(plain)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    groups = (f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))
    return ":".join(groups) + percent + scope
