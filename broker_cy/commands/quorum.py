"""`broker-cy quorum`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.quorum import QuorumEndpoint
from broker_cy.client.parsed import Parsed
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.output import print_json
from broker_cy.commands.plans import command_of, run_plan
from broker_cy.console.acts.quorum import parse_endpoint, plan_add_voter, plan_remove_voter, plan_upgrade
from broker_cy.console.columns import quorum as columns
from broker_cy.console.values import parse_time
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import UNKNOWN, duration
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy quorum show --bootstrap 127.0.0.1:9092
  broker-cy quorum upgrade
  broker-cy quorum add 4 --endpoint CONTROLLER://10.0.0.4:9093
  broker-cy quorum remove 2 --dry-run
"""

ENDPOINT = Parsed("listener://host:port", parse_endpoint)
directory_option = click.option(
    "--directory", metavar="ID", help="Id of the node's metadata directory.  [default: the one that it reports]"
)


@click.group("quorum", epilog=EPILOG)
def command() -> None:
    """Show the voters and observers of the metadata log, and add and remove voters."""


@command.command("upgrade", epilog=EPILOG)
@cluster_command
@dry_run_option
@yes_option
async def upgrade(target: Target, client: AdminClient, dry_run: bool, yes: bool) -> int:
    """Keep the voters in the log (kraft.version 1), so that they can be added and removed. There is no way back."""
    plan = await plan_upgrade(client, command_of(target))
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("show", epilog=EPILOG)
@cluster_command
async def show(target: Target, client: AdminClient) -> None:
    """Show the leader of the metadata log, the voters and the observers, and how far each is behind."""
    described = await client.quorum.describe()
    if target.as_json:
        print_json(described)
        return
    click.echo(
        f"leader {described.leader_id}, epoch {described.leader_epoch}, high watermark {described.high_watermark:,}"
    )
    now_ms = parse_time("now")

    def ago(at_ms: int | None) -> str:
        return UNKNOWN if at_ms is None else f"{duration(max(0, now_ms - at_ms))} ago"

    shown: list[Column[columns.QuorumRow]] = [
        columns.NODE,
        columns.ROLE,
        columns.LOG_END,
        columns.LAG,
        columns.FETCHED.by(columns.FETCHED.value, text=lambda row: ago(columns.FETCHED.value(row))),
        columns.CAUGHT_UP.by(columns.CAUGHT_UP.value, text=lambda row: ago(columns.CAUGHT_UP.value(row))),
        columns.ENDPOINTS,
        columns.DIRECTORY_ID,
    ]
    print_rows(shown, columns.quorum_rows(described))


@command.command("add", epilog=EPILOG)
@cluster_command
@click.argument("node", type=click.IntRange(0))
@click.option(
    "--endpoint",
    "endpoints",
    type=ENDPOINT,
    multiple=True,
    required=True,
    metavar="LISTENER://HOST:PORT",
    help="Controller listener of the node; may be repeated.",
)
@directory_option
@dry_run_option
@yes_option
async def add(
    target: Target,
    client: AdminClient,
    node: int,
    endpoints: Sequence[QuorumEndpoint],
    directory: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Make NODE, which follows the quorum as an observer, a voter."""
    plan = await plan_add_voter(client, command_of(target), node, endpoints, directory)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("remove", epilog=EPILOG)
@cluster_command
@click.argument("node", type=click.IntRange(0))
@directory_option
@dry_run_option
@yes_option
async def remove(
    target: Target, client: AdminClient, node: int, directory: str | None, dry_run: bool, yes: bool
) -> int:
    """Make voter NODE an observer. Its id has to be typed."""
    plan = await plan_remove_voter(client, command_of(target), node, directory)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)
