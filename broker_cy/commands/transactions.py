"""`broker-cy transactions`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import MAX_TIMEOUT_MS, HangingTransaction, TransactionDescription
from broker_cy.client.quantities import DURATION_HELP
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.commands.values import DURATION
from broker_cy.console.columns import topics as topics_columns
from broker_cy.console.columns import transactions as columns
from broker_cy.console.rows import assignment_text
from broker_cy.console.values import parse_time
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import duration
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy transactions list --state Ongoing --longer-than 5m
  broker-cy transactions describe billing-1
  broker-cy transactions hanging --topic orders
  broker-cy transactions abort orders 3 --producer-id 4711
"""


@click.group("transactions", epilog=EPILOG)
def command() -> None:
    """List and describe transactions, find hanging ones, and abort them."""


@command.command("list", epilog=EPILOG)
@cluster_command
@click.option(
    "--state",
    "states",
    multiple=True,
    help="Only transactions in this state (Ongoing, PrepareCommit, CompleteAbort ...); may be repeated.",
)
@click.option(
    "--longer-than", type=DURATION, metavar="TIME", help=f"Only transactions open for longer, {DURATION_HELP}."
)
@click.option(
    "--match", metavar="REGEX", help="Only ids that match this regular expression, which the broker evaluates as RE2."
)
async def list_transactions(
    target: Target, client: AdminClient, states: Sequence[str], longer_than: int | None, match: str | None
) -> int:
    """List transactional ids, with their producers and states."""
    outcome = await client.transactions.list_all(
        states=states, longer_than_ms=-1 if longer_than is None else longer_than, pattern=match
    )
    found = sorted(
        (each for listing in outcome.found.values() for each in listing), key=lambda each: each.transactional_id
    )
    if target.as_json:
        print_json(found)
    else:
        print_rows((columns.TRANSACTIONAL_ID, columns.STATE, columns.PRODUCER_ID, columns.COORDINATOR), found)
    return target.tell_failures([outcome])


@command.command("describe", epilog=EPILOG)
@cluster_command
@click.argument("ids", nargs=-1, required=True)
async def describe(target: Target, client: AdminClient, ids: Sequence[str]) -> int:
    """Show state, age, timeout and partitions of transactional ids."""
    outcome = await client.transactions.describe(ids)
    if target.as_json:
        print_json(list(outcome.found.values()))
        return target.tell_failures([outcome])
    now_ms = parse_time("now")
    described: list[Column[TransactionDescription]] = [
        columns.TRANSACTIONAL_ID.by(lambda row: row.transactional_id),
        columns.STATE.by(lambda row: row.state),
        columns.PRODUCER_ID.by(lambda row: row.producer_id),
        columns.EPOCH.by(lambda row: row.producer_epoch),
        columns.OPEN_FOR.by(lambda row: None if row.start_ms is None else max(0, now_ms - row.start_ms)),
        columns.TIMEOUT.by(lambda row: row.timeout_ms),
        columns.IN_THE_TRANSACTION.by(lambda row: assignment_text(row.partitions) or None),
    ]
    print_rows(described, outcome.found.values())
    return target.tell_failures([outcome])


@command.command("hanging", epilog=EPILOG)
@cluster_command
@click.option(
    "--topic", "topics", multiple=True, help="Only these topics.  [default: all]", shell_complete=complete_topics
)
@click.option(
    "--max-timeout",
    type=DURATION,
    default=MAX_TIMEOUT_MS,
    metavar="TIME",
    help="The cluster's transaction.max.timeout.ms.  [default: 15m]",
)
async def hanging(target: Target, client: AdminClient, topics: Sequence[str], max_timeout: int) -> None:
    """Find open transactions that no coordinator will end. They block consumers that read only committed records."""
    names = topics or [topic.name for topic in await client.topics.list_all()]
    keys = [key for name in names for key in await client.records.partitions(name)]
    found = await client.transactions.find_hanging(keys, parse_time("now"), max_timeout_ms=max_timeout)
    if target.as_json:
        print_json(found)
        return
    hanging_columns: list[Column[HangingTransaction]] = [
        topics_columns.TOPIC.by(lambda row: row.partition.topic),
        topics_columns.PARTITION.by(lambda row: row.partition.partition),
        columns.HANGING_PRODUCER_ID,
        columns.HANGING_ID,
        columns.HANGING_START_OFFSET,
        columns.HANGING_IDLE,
    ]
    print_rows(hanging_columns, found)


@command.command("abort", epilog=EPILOG)
@cluster_command
@click.argument("topic", shell_complete=complete_topics)
@click.argument("partition", type=click.IntRange(0))
@click.option("--producer-id", type=click.IntRange(0), required=True, help="Producer id, as shown by `hanging`.")
@dry_run_option
@yes_option
async def abort(
    target: Target, client: AdminClient, topic: str, partition: int, producer_id: int, dry_run: bool, yes: bool
) -> None:
    """Abort an open transaction in one partition, without its coordinator."""
    target.require_writable()
    key = TopicPartition(topic, partition)
    producers = (await client.transactions.producers([key])).whole()[key]
    open_ones = {each.producer_id: each for each in producers if each.txn_start_offset is not None}
    if producer_id not in open_ones:
        known = ", ".join(map(str, open_ones)) or "none"
        raise ClientError(
            Failure.INVALID,
            f"producer {producer_id} has no open transaction there; producers that have one: {known}",
            what=f"partition {key}",
        )
    producer = open_ones[producer_id]
    idle = duration(max(0, parse_time("now") - producer.last_timestamp_ms))
    click.echo(
        f"partition {key}: the transaction of producer {producer_id}, open from offset {producer.txn_start_offset} on, "
        f"will be aborted; its last write was {idle} ago",
        err=True,
    )
    if not dry_run:
        confirm("Abort the transaction without its coordinator?", yes=yes)
        await client.transactions.abort(key, producer)
    if target.as_json:
        print_json({"topic": topic, "partition": partition, "producer_id": producer_id, "dry_run": dry_run})
    elif not dry_run:
        click.echo(f"aborted the transaction of producer {producer_id} in partition {key}")
