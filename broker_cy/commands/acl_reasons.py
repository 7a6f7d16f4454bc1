"""`broker-cy acls explain`: which ACL decides, or which one comes near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from broker_cy.admin import AdminClient, ClientError
from broker_cy.commands.acl_values import (
    HOST,
    OPERATION,
    PRINCIPAL,
    RESOURCE,
    acl_json,
    checked_operation,
    resource_text,
)
from broker_cy.commands.context import Target, cluster_command
from broker_cy.commands.output import Cell, print_json, print_table
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acl_words import shown, word_of
from broker_cy.security.acls import WILDCARD, Binding, Operation, ResourceType
from broker_cy.security.explain import Asked, Verdict, authorizer_of, explain

EPILOG = """\b
examples:
  broker-cy acls explain alice read topic:orders
  broker-cy acls explain User:billing write topic:billing-2 --host 10.0.0.7 --json
  broker-cy acls explain broker cluster-action cluster --super-user User:broker
"""
# A host that no ACL names, because none is given.
ANYWHERE = "some host"


def settings_options(body: Callable[..., Any]) -> Callable[..., Any]:
    """What decides besides ACLs, and what no broker shows."""
    body = click.option(
        "--allow-if-no-acl",
        is_flag=True,
        help="Brokers have allow.everyone.if.no.acl.found=true, which they do not show.",
    )(body)
    return click.option(
        "--super-user",
        "super_users",
        type=PRINCIPAL,
        multiple=True,
        metavar="PRINCIPAL",
        help="One of super.users, which brokers do not show; may be repeated.",
    )(body)


async def acls_of(client: AdminClient, *, none_if_disabled: bool = False) -> list[Binding]:
    """All ACLs. With `none_if_disabled` none for a cluster without an authorizer."""
    try:
        return await client.acls.describe()
    except ClientError as error:
        if none_if_disabled and error.code is ErrorCode.SECURITY_DISABLED:
            return []
        raise


@click.command("explain", epilog=EPILOG)
@cluster_command
@click.argument("user", type=PRINCIPAL)
@click.argument("operation", type=OPERATION)
@click.argument("resource", type=RESOURCE, metavar="TYPE:NAME")
@click.option("--host", type=HOST, help="Address of the client; without it, only ACLs for all hosts count.")
@click.option("--no-acls", is_flag=True, help="Explain as if there were no ACLs where the cluster has no authorizer.")
@settings_options
async def explain_command(
    target: Target,
    client: AdminClient,
    user: str,
    operation: Operation,
    resource: tuple[ResourceType, str],
    host: str | None,
    no_acls: bool,
    super_users: Sequence[str],
    allow_if_no_acl: bool,
) -> None:
    """Name the ACL that allows or denies a user an operation, or those that come near.

    The decision is made here, from the listed ACLs, with the code that brokers use. Brokers do not show
    who is a super user: name them with --super-user.
    """
    kind, name = resource
    bindings = await acls_of(client, none_if_disabled=no_acls)
    asked = Asked(user, host or ANYWHERE, checked_operation(operation, kind), kind, name)
    if asked.operation is Operation.ALL:
        raise click.BadParameter("all is no single operation: brokers ask for one after the other")
    authorizer = authorizer_of(bindings, super_users, allow_if_no_acl=allow_if_no_acl)
    verdict = explain(authorizer, bindings, asked)
    if target.as_json:
        print_json(_json(asked, host, verdict))
    else:
        _print(asked, host, verdict)


def _json(asked: Asked, host: str | None, verdict: Verdict) -> dict[str, Any]:
    found = verdict.explanation
    return {
        "principal": asked.principal,
        "host": host or WILDCARD,
        "operation": asked.operation.name,
        "resource_type": asked.resource_type.name,
        "name": asked.name,
        "allowed": found.allowed,
        "reason": found.reason.name,
        "rule": None if found.binding is None else acl_json(found.binding),
        "nearest": [{**acl_json(each.binding), "differs": list(each.differs)} for each in verdict.nearest],
    }


def _print(asked: Asked, host: str | None, verdict: Verdict) -> None:
    found = verdict.explanation
    where = f" from {host}" if host else ""
    resource = resource_text(asked.resource_type, asked.name)
    answer = "ALLOWED" if found.allowed else "REFUSED"
    click.echo(f"{answer}: {asked.principal} {word_of(asked.operation)} {resource}{where}")
    why = shown(found.binding) if found.binding is not None else found.reason.value
    click.echo(f"because: {why}")
    if verdict.nearest:
        click.echo("nearest:")
        rows: list[Sequence[Cell]] = [[shown(each.binding), "; ".join(each.differs)] for each in verdict.nearest]
        print_table(["ACL", "DIFFERS"], rows)
    if not found.allowed and found.binding is None:
        click.echo("(a principal in super.users may do everything; brokers do not show that setting)", err=True)


def add_to(group: click.Group) -> None:
    group.add_command(explain_command)
