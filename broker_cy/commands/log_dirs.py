"""`broker-cy log-dirs`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.commands.context import Target, cluster_command, complete_topics
from broker_cy.commands.output import Cell, number, print_json, print_table, size

EPILOG = """\b
examples:
  broker-cy log-dirs
  broker-cy log-dirs --topic orders --replicas
  broker-cy log-dirs --broker 1 --broker 2 --json
"""


@click.command("log-dirs", epilog=EPILOG)
@cluster_command
@click.option(
    "--broker",
    "brokers",
    type=click.IntRange(0),
    multiple=True,
    metavar="ID",
    help="Show only this broker; may be repeated.",
)
@click.option(
    "--topic", "topics", multiple=True, help="Show only replicas of this topic.", shell_complete=complete_topics
)
@click.option("--replicas", is_flag=True, help="Print one line for each replica.")
async def command(
    target: Target, client: AdminClient, brokers: Sequence[int], topics: Sequence[str], replicas: bool
) -> int:
    """Show the log directories of the brokers, with the free space of their volumes and the size of the replicas."""
    outcome = await client.log_dirs.describe(brokers or None, topics=topics or None)
    dirs = [each for theirs in outcome.found.values() for each in theirs]
    if target.as_json:
        print_json(dirs)
        return target.tell_failures([outcome])
    rows: list[Sequence[Cell]]
    if replicas:
        rows = [
            [each.broker_id, each.path, replica.topic, replica.partition, size(replica.size_bytes),
             number(replica.offset_lag), "being moved here" if replica.is_future else ""]
            for each in dirs
            for replica in each.replicas
        ]  # fmt: skip
        print_table([">BROKER", "DIRECTORY", "TOPIC", ">PARTITION", ">SIZE", ">LAG", ""], rows)
    else:
        rows = [
            [each.broker_id, each.path, each.error or ("cordoned" if each.is_cordoned else "ok"), len(each.replicas),
             size(each.size_bytes), size(each.usable_bytes), size(each.total_bytes)]
            for each in dirs
        ]  # fmt: skip
        print_table([">BROKER", "DIRECTORY", "STATE", ">REPLICAS", ">SIZE", ">FREE", ">VOLUME"], rows)
    return target.tell_failures([outcome])
