"""`broker-cy acls explain`, `unused` and `preview`: the ACL that decides, or comes near; and conclusions from past
accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.accesses import Past
from broker_cy.client.program import EXIT_FAILED
from broker_cy.client.quantities import TIME_HELP
from broker_cy.commands.acl_values import (
    ACL,
    HOST,
    OPERATION,
    PRINCIPAL,
    RESOURCE,
    acl_json,
    checked_operation,
)
from broker_cy.commands.context import Target, cluster_command
from broker_cy.commands.output import print_json
from broker_cy.commands.values import TIME
from broker_cy.console.columns import access
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import plural, when
from broker_cy.reporting.terminal import print_rows
from broker_cy.security.acl_words import ACL_HELP, resource_text, shown, word_of
from broker_cy.security.acls import WILDCARD, Binding, Operation, ResourceType
from broker_cy.security.explain import Asked, Near, Verdict, authorizer_of, explain
from broker_cy.security.past import Turned, Unused, preview, unused

EPILOG = """\b
examples:
  broker-cy acls explain alice read topic:orders
  broker-cy acls explain User:billing write topic:billing-2 --host 10.0.0.7 --json
  broker-cy acls explain broker cluster-action cluster --super-user User:broker
"""
PAST_EPILOG = """\b
examples:
  broker-cy acls unused --since -30d
  broker-cy acls preview --remove 'allow User:alice read topic:orders'
  broker-cy acls preview --add 'deny User:* from 10.0.0.7 write topic:billing-*' --since -12h
"""
# A host that no ACL names; it stands for a missing option.
ANYWHERE = "some host"


def settings_options(body: Callable[..., Any]) -> Callable[..., Any]:
    """The options for settings that decide besides ACLs, and that no broker shows."""
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


_NEAREST: Final[tuple[Column[Near], ...]] = (
    Column("acl", "ACL", lambda row: shown(row.binding)),
    Column("differs", "Differs", lambda row: "; ".join(row.differs)),
)
_UNUSED: Final[tuple[Column[Unused], ...]] = (
    Column("acl", "ACL", lambda row: shown(row.binding)),
    Column(
        "reason",
        "Reason",
        lambda row: "fits no access" if row.instead is None else f"decided instead: {shown(row.instead)}",
    ),
)
# A row is the decision after the change, and the access.
_TURNED: Final[tuple[Column[tuple[str, Turned]], ...]] = (
    Column("decision", "Decision", lambda row: row[0]),
    access.PRINCIPAL.by(lambda row: row[1].asked.principal),
    access.HOST.by(lambda row: row[1].asked.host),
    access.OPERATION.by(lambda row: word_of(row[1].asked.operation)),
    access.RESOURCE.by(lambda row: resource_text(row[1].asked.resource_type, row[1].asked.name)),
    Column("last", "Last", lambda row: row[1].last_ms, Kind.TIME),
    Column(
        "reason",
        "Reason",
        lambda row: row[1].by.reason.value if row[1].by.binding is None else shown(row[1].by.binding),
    ),
)


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
    """Show the ACL that allows or denies an operation to a user, or the ACLs that come near.

    The command decides, from the listed ACLs, with the code that brokers use. Brokers do not list their
    super users: name them with --super-user.
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
    answer = "ALLOWED" if found.allowed else "DENIED"
    click.echo(f"{answer}: {asked.principal} {word_of(asked.operation)} {resource}{where}")
    why = shown(found.binding) if found.binding is not None else found.reason.value
    click.echo(f"because: {why}")
    if verdict.nearest:
        click.echo("nearest:")
        print_rows(_NEAREST, verdict.nearest)
    if not found.allowed and found.binding is None:
        click.echo("(a principal in super.users may do everything; brokers do not show that setting)", err=True)


@click.command("unused", epilog=PAST_EPILOG)
@cluster_command
@click.option("--since", type=TIME, default="-7d", metavar="TIME", help=f"{TIME_HELP}  [default: -7d]")
async def unused_command(target: Target, client: AdminClient, since: int) -> None:
    """List ACLs that decided nothing since a time.

    Brokers write the accesses of clients to the topic __cluster_events; Apache Kafka does not. The command
    tries the current ACLs on these accesses. They do not include accesses that are rarer, or that ask for
    any resource of a type (InitProducerId without a transaction).
    """
    bindings = await client.acls.describe()
    past = await client.accesses.since(since)
    found = unused(bindings, past.accesses)
    if target.as_json:
        print_json(
            {
                **_json_of_past(past, since),
                "unused": [
                    {**acl_json(each.binding), "instead": None if each.instead is None else acl_json(each.instead)}
                    for each in found
                ],
            }
        )
        return
    print_rows(_UNUSED, found)
    click.echo(f"{len(found):,} of {plural(len(bindings), 'ACL')} decided nothing", err=True)
    _print_past(past, since)


@click.command("preview", epilog=PAST_EPILOG)
@cluster_command
@click.option("--add", "added", type=ACL, multiple=True, metavar="ACL", help=f"An ACL to create: {ACL_HELP}.")
@click.option("--remove", "removed", type=ACL, multiple=True, metavar="ACL", help="An ACL to delete, which exists.")
@click.option("--since", type=TIME, default="-1d", metavar="TIME", help=f"{TIME_HELP}  [default: -1d]")
async def preview_command(
    target: Target, client: AdminClient, added: Sequence[Binding], removed: Sequence[Binding], since: int
) -> int:
    """Show which users of the traffic since a time a change of ACLs would deny, or allow. Changes nothing.

    Both options may be repeated. The exit code is 1 if the change would deny an access that is allowed now. Needs
    the accesses that brokers note in the topic __cluster_events; Apache Kafka notes none.
    """
    if not added and not removed:
        raise click.UsageError("nothing to try: use --add or --remove")
    bindings = await client.acls.describe()
    for each in removed:
        if each not in bindings:
            raise ClientError(Failure.INVALID, f"there is no ACL {shown(each)}", what="--remove")
    past = await client.accesses.since(since)
    allow_if_no_acl = past.allow_if_no_acl
    after = [each for each in bindings if each not in removed] + [each for each in added if each not in bindings]
    found = preview(
        authorizer_of(bindings, allow_if_no_acl=allow_if_no_acl),
        authorizer_of(after, allow_if_no_acl=allow_if_no_acl),
        past.accesses,
    )
    if target.as_json:
        print_json(
            {
                **_json_of_past(past, since),
                "refused": [_json_of_turned(each) for each in found.refused],
                "allowed": [_json_of_turned(each) for each in found.allowed],
            }
        )
    else:
        turned = [("denied", each) for each in found.refused] + [("allowed", each) for each in found.allowed]
        print_rows(_TURNED, turned)
        click.echo(
            f"{len(found.refused):,} would be denied and {len(found.allowed):,} newly allowed, "
            f"of {plural(len(past.accesses), 'access', 'accesses')}",
            err=True,
        )
        _print_past(past, since)
    return EXIT_FAILED if found.refused else 0


def _json_of_past(past: Past, since: int) -> dict[str, Any]:
    return {
        "since_ms": since,
        "first_ms": past.first_ms,
        "accesses": len(past.accesses),
        "left_out": past.left_out,
    }


def _json_of_turned(turned: Turned) -> dict[str, Any]:
    asked, by = turned.asked, turned.by
    return {
        "principal": asked.principal,
        "host": asked.host,
        "operation": asked.operation.name,
        "resource_type": asked.resource_type.name,
        "name": asked.name,
        "last_ms": turned.last_ms,
        "reason": by.reason.name,
        "rule": None if by.binding is None else acl_json(by.binding),
    }


def _print_past(past: Past, since: int) -> None:
    """Print the limits of the answer."""
    if past.first_ms is None:
        click.echo(f"no access was noted since {when(since, utc=False)}: the answer says nothing", err=True)
    elif past.left_out:
        click.echo(f"{past.left_out:,} accesses were not noted, because there were too many", err=True)


def add_to(group: click.Group) -> None:
    for each in (explain_command, unused_command, preview_command):
        group.add_command(each)
