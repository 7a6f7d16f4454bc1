"""`broker-cy acls`: list, create and delete. `acls explain`, and commands on past traffic, are in acl_reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.acls import exactly
from broker_cy.commands import acl_reasons
from broker_cy.commands.acl_values import (
    HOST,
    OPERATION,
    OPERATIONS,
    PERMISSION,
    PRINCIPAL,
    RESOURCE,
    acl_json,
    checked_operation,
)
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.console.columns import access
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows
from broker_cy.security.acl_words import RESOURCE_HELP
from broker_cy.security.acls import WILDCARD, Binding, Filter, Operation, PatternType, Permission, ResourceType

EPILOG = """\b
examples:
  broker-cy acls list --principal User:alice
  broker-cy acls create allow User:alice read,describe topic:orders
  broker-cy acls create allow User:billing all topic:billing- --prefixed --host 10.0.0.7
  broker-cy acls create deny 'User:*' delete 'topic:*'
  broker-cy acls delete --principal User:alice --resource topic:orders
  broker-cy acls explain alice write topic:orders
"""
COLUMNS = (access.NAME, access.PATTERN, access.PERMISSION, access.PRINCIPAL, access.HOST, access.OPERATION)
# ACLs that are listed before they are deleted.
LISTED_MAX = 50


@click.group("acls", epilog=EPILOG)
def command() -> None:
    """Access control lists: the operations that each principal may perform, and why.

    A resource is written as TYPE:NAME. Types are topic, group, cluster (without a name), transactional-id,
    delegation-token and user. The name * stands for all resources of the type.
    """


def filter_options(body: Callable[..., Any]) -> Callable[..., Any]:
    """Options that select ACLs, for `selected`."""
    options = (
        click.option("--principal", type=PRINCIPAL, metavar="PRINCIPAL", help="Only ACLs for exactly this principal."),
        click.option("--resource", type=RESOURCE, metavar="TYPE:NAME", help=f"Only ACLs on this, {RESOURCE_HELP}."),
        click.option(
            "--match", is_flag=True, help="With --resource: also its prefixes, and the pattern for all names."
        ),
        click.option("--pattern", type=click.Choice(["literal", "prefixed"]), help="Only patterns of this kind."),
        click.option("--host", type=HOST, help="Only ACLs for exactly this host; * for those for all hosts."),
        click.option("--operation", type=OPERATION, help="Only ACLs for exactly this operation."),
        click.option("--permission", type=PERMISSION, help="Only allow, or only deny."),
    )
    for option in reversed(options):
        body = option(body)
    return body


def selected(
    principal: str | None,
    resource: tuple[ResourceType, str] | None,
    match: bool,
    pattern: str | None,
    host: str | None,
    operation: Operation | None,
    permission: Permission | None,
) -> Filter:
    """The filter of `filter_options`. Raises click.UsageError."""
    if match and resource is None:
        raise click.UsageError("--match needs --resource")
    if match and pattern is not None:
        raise click.UsageError("--match and --pattern cannot be used together")
    kind = PatternType.MATCH if match else PatternType.ANY if pattern is None else PatternType[pattern.upper()]
    return Filter(
        ResourceType.ANY if resource is None else resource[0],
        None if resource is None else resource[1],
        kind,
        principal,
        host,
        Operation.ANY if operation is None else operation,
        Permission.ANY if permission is None else permission,
    )


@command.command("list", epilog=EPILOG)
@cluster_command
@filter_options
async def list_acls(target: Target, client: AdminClient, **chosen: Any) -> None:
    """List ACLs."""
    found = await client.acls.describe(selected(**chosen))
    if target.as_json:
        print_json([acl_json(each) for each in found])
        return
    _print(found)


@command.command("create", epilog=EPILOG)
@cluster_command
@click.argument("permission", type=PERMISSION)
@click.argument("principal", type=PRINCIPAL)
@click.argument("operations", type=OPERATIONS, metavar="OPERATION[,..]")
@click.argument("resource", type=RESOURCE, metavar="TYPE:NAME")
@click.option("--prefixed", is_flag=True, help="On all resources whose name begins with NAME.")
@click.option("--host", "hosts", type=HOST, multiple=True, help="Only from this host; may be repeated.  [default: *]")
@dry_run_option
async def create(
    target: Target,
    client: AdminClient,
    permission: Permission,
    principal: str,
    operations: tuple[Operation, ...],
    resource: tuple[ResourceType, str],
    prefixed: bool,
    hosts: Sequence[str],
    dry_run: bool,
) -> int:
    """Create ACLs: allow or deny a principal operations on a resource. ACLs that exist already stay."""
    target.require_writable()
    kind, name = resource
    if prefixed and kind is ResourceType.CLUSTER:
        raise click.UsageError("--prefixed: the resource cluster has one name, so it accepts no prefix")
    if prefixed and name == WILDCARD:
        raise click.UsageError(f"--prefixed: {name} is no prefix; without the option it stands for all names")
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    wanted = [
        Binding(kind, name, pattern, principal, host, checked_operation(operation, kind), permission)
        for operation in operations
        for host in hosts or (WILDCARD,)
    ]
    code = 0
    if not dry_run:
        outcome = await client.acls.create(wanted)
        code = target.tell_failures([outcome])
        wanted = list(outcome.found)
    if target.as_json:
        print_json({"created": [acl_json(each) for each in wanted], "dry_run": dry_run})
    elif wanted:
        _print(wanted)
        click.echo(f"{'would create' if dry_run else 'created'} {plural(len(wanted), 'ACL')}", err=True)
    return code


@command.command("delete", epilog=EPILOG)
@cluster_command
@filter_options
@click.option("--all", "every", is_flag=True, help="Delete every ACL of the cluster; without other options.")
@dry_run_option
@yes_option
async def delete(target: Target, client: AdminClient, every: bool, dry_run: bool, yes: bool, **chosen: Any) -> int:
    """Delete the ACLs that the options select. They are listed before you are asked."""
    target.require_writable()
    selecting = selected(**chosen)
    if (selecting == Filter()) is not every:
        raise click.UsageError(
            "--all cannot be used with options that select ACLs"
            if every
            else "nothing selects ACLs: use --principal, --resource, .., or --all to delete every ACL"
        )
    found = await client.acls.describe(selecting)
    if not target.as_json:
        _print(found[:LISTED_MAX], err=True)
        if len(found) > LISTED_MAX:
            click.echo(f".. and {len(found) - LISTED_MAX:,} more", err=True)
    code = 0
    if found and not dry_run:
        confirm(f"Delete {plural(len(found), 'ACL')}?", yes=yes)
        # Exactly those that were listed: others that match may have been created meanwhile.
        outcome = await client.acls.delete(exactly(each) for each in found)
        code = target.tell_failures([outcome])
        found = [binding for bindings in outcome.found.values() for binding in bindings]
    if target.as_json:
        print_json({"deleted": [acl_json(each) for each in found], "dry_run": dry_run})
    else:
        click.echo(f"{'would delete' if dry_run else 'deleted'} {plural(len(found), 'ACL')}")
    return code


def _print(found: Sequence[Binding], *, err: bool = False) -> None:
    print_rows(COLUMNS, found, err=err)


acl_reasons.add_to(command)
