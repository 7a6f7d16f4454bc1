"""`broker-cy producers`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.commands.context import Target, cluster_command, complete_topics
from broker_cy.commands.output import plain, print_json
from broker_cy.commands.values import PARTITIONS, chosen
from broker_cy.console.columns import transactions
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy producers orders
  broker-cy producers orders -p 0-3 --json
"""


_COLUMNS = (
    transactions.PARTITION,
    transactions.PARTITION_PRODUCER_ID,
    transactions.EPOCH,
    transactions.LAST_SEQUENCE,
    transactions.IDLE,
    transactions.START_OFFSET,
)


@click.command("producers", epilog=EPILOG)
@cluster_command
@click.argument("topic", shell_complete=complete_topics)
@click.option("--partitions", "-p", type=PARTITIONS, metavar="LIST", help="Show only these partitions, such as 0,3-5.")
async def command(target: Target, client: AdminClient, topic: str, partitions: Sequence[int] | None) -> int:
    """Show the active idempotent and transactional producers of a topic, as reported by the partition leaders."""
    keys = chosen(await client.records.partitions(topic), partitions)
    outcome = await client.transactions.producers(keys)
    if target.as_json:
        print_json(
            [
                {"topic": key.topic, "partition": key.partition, **_fields(producer)}
                for key, producers in outcome.found.items()
                for producer in producers
            ]
        )
        return target.tell_failures([outcome])
    print_rows(_COLUMNS, [(key, producer) for key, producers in outcome.found.items() for producer in producers])
    return target.tell_failures([outcome])


def _fields(producer: object) -> dict[str, object]:
    fields = plain(producer)
    assert isinstance(fields, dict)
    return fields
