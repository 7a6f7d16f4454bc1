"""`broker-cy quotas`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.quota_effect import ANONYMOUS, effects_on_address, effects_on_client
from broker_cy.admin.quotas import CLIENT_ID, IP, USER, Entity
from broker_cy.client.parsed import Parsed
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.console.acts.quotas import effect_form
from broker_cy.console.columns import quotas as columns
from broker_cy.console.quotas import DEFAULT, QuotaRow, effect_lines, parse_quota, quota_rows
from broker_cy.console.values import parse_setting
from broker_cy.metrics.events import entity_text
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy quotas list
  broker-cy quotas set --user alice producer_byte_rate=10M consumer_byte_rate=20M
  broker-cy quotas set --user default --client-id default request_percentage=20     for all others
  broker-cy quotas set --ip 10.0.0.7 connection_creation_rate=5
  broker-cy quotas remove --user alice --yes                                        all of its quotas
  broker-cy quotas explain --user alice --client-id batch                           which of them apply

\b
keys:
  producer_byte_rate, consumer_byte_rate    bytes a second of a user, a client id, or both
  request_percentage                        time of the broker, in percent of one second
  controller_mutation_rate                  partitions a second that are created or deleted
  connection_creation_rate                  connections a second from an address (--ip)
"""


def parse_assignment(text: str) -> tuple[str, float]:
    """Parse `producer_byte_rate=10M`. Raises ValueError."""
    key, value = parse_setting(text)
    return key, parse_quota(key, value)


QUOTA = Parsed("key=value", parse_assignment)


def entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name an entity."""
    for name, what in (("--ip", "address"), ("--client-id", "client id"), ("--user", "user")):
        text = f"The {what}; `{DEFAULT}` for all that have no quota of their own."
        function = click.option(name, metavar="NAME", help=text)(function)
    return function


def entity_of(user: str | None, client_id: str | None, ip: str | None) -> Entity:
    """The entity that the options name; empty if they name none."""
    given = {USER: user, CLIENT_ID: client_id, IP: ip}
    return {kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None}


def entity_to_change(user: str | None, client_id: str | None, ip: str | None) -> Entity:
    entity = entity_of(user, client_id, ip)
    if not entity:
        raise click.UsageError("whose quotas? specify --user, --client-id, both, or --ip")
    return entity


@click.group("quotas", epilog=EPILOG)
def command() -> None:
    """Show and change quotas of users, client ids and addresses."""


@command.command("list", epilog=EPILOG)
@cluster_command
@entity_options
async def list_quotas(
    target: Target, client: AdminClient, user: str | None, client_id: str | None, ip: str | None
) -> None:
    """Show quotas: all, or those of an entity and of its parts."""
    entries = await client.quotas.describe(entity_of(user, client_id, ip))
    if target.as_json:
        print_json(entries)
        return
    # Exact values, as `quotas set` accepts them.
    exact: Column[QuotaRow] = columns.VALUE.by(lambda row: row.value, text=lambda row: f"{row.value:.15g}")
    print_rows((columns.ENTITY, columns.QUOTA, exact), quota_rows(entries))


@command.command("set", epilog=EPILOG)
@cluster_command
@entity_options
@click.argument("quotas", type=QUOTA, nargs=-1, required=True, metavar="KEY=VALUE...")
@dry_run_option
@yes_option
async def set_quotas(
    target: Target,
    client: AdminClient,
    user: str | None,
    client_id: str | None,
    ip: str | None,
    quotas: Sequence[tuple[str, float]],
    dry_run: bool,
    yes: bool,
) -> None:
    """Set quotas of an entity. Its other quotas keep their values."""
    target.require_writable()
    await _change(target, client, entity_to_change(user, client_id, ip), dict(quotas), dry_run=dry_run, yes=yes)


@command.command("remove", epilog=EPILOG)
@cluster_command
@entity_options
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@dry_run_option
@yes_option
async def remove(
    target: Target,
    client: AdminClient,
    user: str | None,
    client_id: str | None,
    ip: str | None,
    keys: Sequence[str],
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove quotas of an entity: those that are named, or all."""
    target.require_writable()
    entity = entity_to_change(user, client_id, ip)
    found = await client.quotas.describe(entity, strict=True)
    known = found[0].values if found else {}
    if unknown := [key for key in keys if key not in known]:
        raise click.UsageError(f"{entity_text(entity)} has no quota {', '.join(unknown)}")
    chosen: dict[str, float | None] = dict.fromkeys(keys or known)
    if not chosen:
        raise click.UsageError(f"{entity_text(entity)} has no quota")
    await _change(target, client, entity, chosen, dry_run=dry_run, yes=yes)


@command.command("explain", epilog=EPILOG)
@cluster_command
@click.option("--user", metavar="NAME", default="", help="The user; without it, one that has not logged in.")
@click.option("--client-id", metavar="NAME", default="", help="The client id.")
@click.option("--ip", metavar="ADDRESS", default="", help="The address of a client.")
async def explain(target: Target, client: AdminClient, user: str, client_id: str, ip: str) -> None:
    """Show which quotas apply to a client, and for whom each is set."""
    asked = {"user": user, "client_id": client_id, "ip": ip}
    checked = effect_form(asked).checked(asked)
    for name, problem in checked.problems.items():
        raise click.UsageError(f"--{name.replace('_', '-')}: {problem}")
    entries = await client.quotas.describe({})
    if target.as_json:
        effects = effects_on_client(entries, user or ANONYMOUS, client_id) if user or client_id else []
        print_json([*effects, *(effects_on_address(entries, checked.values["ip"]) if ip else [])])
        return
    for line in effect_lines(entries, **checked.values):
        click.echo(line)


async def _change(
    target: Target, client: AdminClient, entity: Entity, changes: dict[str, Any], *, dry_run: bool, yes: bool
) -> None:
    # The controller validates the change before the user is asked to confirm it.
    await client.quotas.alter(entity, changes, validate_only=True)
    found = await client.quotas.describe(entity, strict=True)
    now = found[0].values if found else {}
    changed: tuple[Column[tuple[str, Any]], ...] = (
        columns.QUOTA.by(lambda row: row[0]),
        Column("now", "Now", lambda row: _shown(now.get(row[0]))),
        Column("new", "New", lambda row: _shown(row[1])),
    )
    print_rows(changed, changes.items(), err=True)
    if not dry_run:
        confirm(f"Change {plural(len(changes), 'quota')} of {entity_text(entity)}?", yes=yes)
        await client.quotas.alter(entity, changes)
    if target.as_json:
        print_json({"entity": entity, "changes": changes, "dry_run": dry_run})
    elif not dry_run:
        click.echo(f"changed {plural(len(changes), 'quota')} of {entity_text(entity)}")


def _shown(value: float | None) -> str:
    return "(none)" if value is None else f"{value:.15g}"
