"""`broker-cy transactions`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import MAX_TIMEOUT_MS
from broker_cy.client.quantities import DURATION_HELP
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.output import Cell, confirm, duration, number, print_json, print_table
from broker_cy.commands.values import DURATION
from broker_cy.console.values import parse_time

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
        rows: list[Sequence[Cell]] = [
            [each.transactional_id, each.state, each.producer_id, each.coordinator_id] for each in found
        ]
        print_table(["TRANSACTIONAL ID", "STATE", ">PRODUCER", ">COORDINATOR"], rows)
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
    rows: list[Sequence[Cell]] = [
        [
            each.transactional_id,
            each.state,
            each.producer_id,
            each.producer_epoch,
            duration(None if each.start_ms is None else max(0, now_ms - each.start_ms)),
            duration(each.timeout_ms),
            " ".join(map(str, each.partitions)),
        ]
        for each in outcome.found.values()
    ]
    print_table(["TRANSACTIONAL ID", "STATE", ">PRODUCER", ">EPOCH", ">OPEN FOR", ">TIMEOUT", "PARTITIONS"], rows)
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
    rows: list[Sequence[Cell]] = [
        [
            each.partition.topic,
            each.partition.partition,
            each.producer.producer_id,
            each.transactional_id,
            number(each.producer.txn_start_offset),
            duration(each.idle_ms),
        ]
        for each in found
    ]
    columns = ["TOPIC", ">PARTITION", ">PRODUCER", "TRANSACTIONAL ID", ">SINCE OFFSET", ">IDLE FOR"]
    print_table(columns, rows)


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
