"""Options and cells of ACLs."""

from __future__ import annotations

from typing import Any

import click

from broker_cy.client.parsed import Parsed
from broker_cy.security.acl_words import (
    check_operation,
    parse_acl,
    parse_host,
    parse_operation,
    parse_permission,
    parse_principal,
    parse_resource,
)
from broker_cy.security.acls import Binding, Operation, ResourceType


def _parse_operations(text: str) -> tuple[Operation, ...]:
    return tuple(dict.fromkeys(parse_operation(each) for each in text.split(",")))


PRINCIPAL = Parsed("principal", parse_principal)
RESOURCE = Parsed("type:name", parse_resource)
OPERATION = Parsed("operation", parse_operation)
OPERATIONS = Parsed("operations", _parse_operations)
PERMISSION = Parsed("allow|deny", parse_permission)
HOST = Parsed("host", parse_host)


ACL = Parsed("acl", parse_acl)


def checked_operation(operation: Operation, resource_type: ResourceType) -> Operation:
    """The operation, if resources of the type have it. Raises click.BadParameter."""
    try:
        check_operation(operation, resource_type)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return operation


def acl_json(binding: Binding) -> dict[str, Any]:
    """An ACL as JSON, with Kafka's names."""
    return {
        "resource_type": binding.resource_type.name,
        "name": binding.name,
        "pattern_type": binding.pattern_type.name,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation.name,
        "permission": binding.permission.name,
    }
