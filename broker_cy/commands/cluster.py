"""`broker-cy cluster`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.cluster import QuorumReplica
from broker_cy.commands.context import Target, cluster_command
from broker_cy.commands.output import Cell, duration, number, print_json, print_table
from broker_cy.console.values import parse_time

EPILOG = """\b
examples:
  broker-cy cluster describe --bootstrap 127.0.0.1:9092
  broker-cy cluster apis --broker 1 --json
  broker-cy cluster quorum --cluster production
"""

broker_option = click.option(
    "--broker", type=click.IntRange(0), metavar="ID", help="Send the request to this broker.  [default: any]"
)


@click.group("cluster", epilog=EPILOG)
def command() -> None:
    """Show brokers, features, the metadata quorum, and supported requests."""


@command.command("describe", epilog=EPILOG)
@cluster_command
async def describe(target: Target, client: AdminClient) -> None:
    """Show the cluster id and the brokers."""
    described = await client.cluster.describe()
    if target.as_json:
        print_json(described)
        return
    click.echo(f"cluster {described.cluster_id}")
    rows: list[Sequence[Cell]] = [
        [
            broker.broker_id,
            f"{broker.host}:{broker.port}",
            broker.rack,
            "fenced" if broker.is_fenced else "in service",
            "yes" if broker.broker_id == described.controller_id else "",
        ]
        for broker in described.brokers
    ]
    print_table([">BROKER", "ADDRESS", "RACK", "STATE", "CONTROLLER"], rows)


@command.command("features", epilog=EPILOG)
@cluster_command
@broker_option
async def features(target: Target, client: AdminClient, broker: int | None) -> None:
    """Show the features that a broker supports, and the levels that the cluster has finalized."""
    found = await client.cluster.features(broker)
    if target.as_json:
        print_json(found)
        return
    rows = [[each.name, f"{each.supported_min} to {each.supported_max}", number(each.finalized)] for each in found]
    print_table(["FEATURE", "SUPPORTED", ">FINALIZED"], rows)


@command.command("apis", epilog=EPILOG)
@cluster_command
@broker_option
async def apis(target: Target, client: AdminClient, broker: int | None) -> None:
    """Show the requests that a broker supports, with their versions."""
    found = await client.cluster.api_versions(broker)
    if target.as_json:
        print_json(found)
        return
    rows: list[Sequence[Cell]] = [
        [each.api_key, each.name, f"{each.min_version} to {each.max_version}"] for each in found
    ]
    print_table([">KEY", "API", "VERSIONS"], rows)


@command.command("quorum", epilog=EPILOG)
@cluster_command
async def quorum(target: Target, client: AdminClient) -> None:
    """Show the leader of the metadata log, the voters and the observers, and how far each is behind."""
    described = await client.cluster.quorum()
    if target.as_json:
        print_json(described)
        return
    click.echo(
        f"leader {described.leader_id}, epoch {described.leader_epoch}, high watermark {described.high_watermark:,}"
    )
    now_ms = parse_time("now")

    def row(role: str, replica: QuorumReplica) -> Sequence[Cell]:
        caught_up = replica.last_caught_up_ms
        ago = None if caught_up is None else max(0, now_ms - caught_up)
        return [replica.replica_id, role, number(replica.log_end_offset), number(replica.lag), duration(ago)]

    rows = [row("voter", each) for each in described.voters] + [row("observer", each) for each in described.observers]
    print_table([">NODE", "ROLE", ">END", ">LAG", ">CAUGHT UP AGO"], rows)
