"""The text form of ACLs, for input and display: `topic:orders`, `read`, `User:alice`. Names of types, operations and
permissions are Kafka's, in any case, with `-` or `_`.

A wrong text raises a ValueError that names the value and the allowed ones.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar

from broker_cy.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Binding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    host_text,
)

E = TypeVar("E", bound=IntEnum)

TYPES: Final = tuple(OPERATIONS)
ACL_HELP: Final = "PERMISSION PRINCIPAL [from HOST] OPERATION TYPE:NAME[*]"
RESOURCE_HELP: Final = "TYPE:NAME, such as topic:orders, group:* or cluster"


def word_of(value: IntEnum) -> str:
    """`describe-configs` for DESCRIBE_CONFIGS."""
    return value.name.lower().replace("_", "-")


def parse_type(text: str) -> ResourceType:
    return _one_of(text, TYPES, "type of resource")


def parse_operation(text: str) -> Operation:
    return _one_of(text, tuple(each for each in Operation if each > Operation.ANY), "operation")


def parse_permission(text: str) -> Permission:
    return _one_of(text, (Permission.ALLOW, Permission.DENY), "permission")


def parse_principal(text: str) -> str:
    """`User:alice`; a name without a type is a user."""
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = "User", text
    if not kind or not name:
        raise ValueError(f"{text!r} is not a principal: TYPE:NAME is expected, such as User:alice or User:*")
    return f"{kind}:{name}"


def parse_host(text: str) -> str:
    """An address as brokers compare it: they compare texts, and know no ranges."""
    # Imported here, because brokers do not need it.
    import ipaddress

    if text == WILDCARD:
        return text
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise ValueError(f"{text!r} is no host: an IP address is expected, or * for all hosts") from None
    return host_text(text)


def parse_resource(text: str) -> tuple[ResourceType, str]:
    """`topic:orders`; the cluster has no name of its own."""
    kind, colon, name = text.partition(":")
    resource_type = parse_type(kind)
    if resource_type is ResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise ValueError(f"{text!r}: the only resource of type cluster is {CLUSTER_NAME}; write cluster")
        return resource_type, CLUSTER_NAME
    if not colon or not name:
        raise ValueError(f"{text!r} is not a resource: {RESOURCE_HELP} is expected")
    return resource_type, name


def check_operation(operation: Operation, resource_type: ResourceType) -> None:
    """Raises ValueError for an operation that no broker asks for with such a resource."""
    allowed = OPERATIONS[resource_type]
    if operation is not Operation.ALL and operation not in allowed:
        words = ", ".join(word_of(each) for each in (*allowed, Operation.ALL))
        raise ValueError(
            f"{word_of(operation)} is no operation on a resource of type {word_of(resource_type)}: allowed are {words}"
        )


def resource_text(resource_type: ResourceType, name: str) -> str:
    """`topic:orders`; the cluster has no name of its own."""
    kind = word_of(resource_type)
    return kind if resource_type is ResourceType.CLUSTER else f"{kind}:{name}"


def shown_resource(binding: Binding) -> str:
    """`topic:orders`, and a star behind a prefix."""
    star = "*" if binding.pattern_type is PatternType.PREFIXED else ""
    return resource_text(binding.resource_type, binding.name + star)


def shown(binding: Binding) -> str:
    """An ACL in a line, as it is created."""
    host = "" if binding.host == "*" else f" from {binding.host}"
    what = f"{word_of(binding.permission)} {binding.principal}{host} {word_of(binding.operation)}"
    return f"{what} {shown_resource(binding)}"


def parse_acl(text: str) -> Binding:
    """An ACL as `shown` writes it: `allow User:alice from 10.0.0.1 read topic:orders*`; a star behind a name makes it a
    prefix.
    """
    words = text.split()
    if len(words) == 6 and words[2] == "from":
        host = parse_host(words[3])
        del words[2:4]
    else:
        host = WILDCARD
    if len(words) != 4:
        raise ValueError(f"{text!r} is no ACL: {ACL_HELP} is expected")
    kind, name = parse_resource(words[3])
    operation = parse_operation(words[2])
    check_operation(operation, kind)
    is_prefixed = len(name) > 1 and name.endswith(WILDCARD)
    return Binding(
        kind,
        name[:-1] if is_prefixed else name,
        PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
        parse_principal(words[1]),
        host,
        operation,
        parse_permission(words[0]),
    )


def _one_of(text: str, allowed: tuple[E, ...], what: str) -> E:
    wanted = text.strip().upper().replace("-", "_")
    for each in allowed:
        if each.name == wanted:
            return each
    raise ValueError(f"{text!r} is no {what}: allowed are {', '.join(word_of(each) for each in allowed)}")
