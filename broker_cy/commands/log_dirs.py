"""`broker-cy log-dirs`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.commands.context import Target, cluster_command, complete_topics
from broker_cy.commands.output import print_json
from broker_cy.console.columns import log_dirs
from broker_cy.console.rows import replica_rows
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy log-dirs
  broker-cy log-dirs --topic orders --replicas
  broker-cy log-dirs --broker 1 --broker 2 --json
"""


DIRECTORIES = (
    log_dirs.DIRECTORY,
    log_dirs.STATE,
    log_dirs.REPLICAS,
    log_dirs.SIZE,
    log_dirs.FREE,
    log_dirs.VOLUME,
)
_REPLICAS = (
    log_dirs.REPLICA_BROKER,
    log_dirs.REPLICA_DIRECTORY,
    log_dirs.REPLICA_TOPIC,
    log_dirs.REPLICA_PARTITION,
    log_dirs.REPLICA_SIZE,
    log_dirs.LAG,
    log_dirs.REPLICA_STATE,
)


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
    if replicas:
        print_rows(_REPLICAS, replica_rows(dirs))
    else:
        print_rows((log_dirs.BROKER, *DIRECTORIES), dirs)
    return target.tell_failures([outcome])
