"""`broker-cy records`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span, Start, StartKind
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.commands.values import PARTITIONS, POSITION, chosen
from broker_cy.console.columns import topics
from broker_cy.console.values import POSITION_HELP
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy records delete orders --before end
  broker-cy records delete orders -p 0,2 --before 1000 --dry-run
  broker-cy records delete orders --before @-24h --yes
"""

_COLUMNS: Final[tuple[Column[tuple[TopicPartition, Span]], ...]] = (
    topics.PARTITION.by(lambda row: row[0].partition),
    topics.LOG_START.by(lambda row: row[1].earliest),
    Column("new", "New log start", lambda row: row[1].start, Kind.COUNT),
    Column("deleted", "Offsets deleted", lambda row: row[1].start - row[1].earliest, Kind.COUNT),
    Column("left", "Offsets left", lambda row: row[1].end - row[1].start, Kind.COUNT),
)


@click.group("records", epilog=EPILOG)
def command() -> None:
    """Delete records up to an offset or a time."""


@command.command("delete", epilog=EPILOG)
@cluster_command
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--before", type=POSITION, required=True, metavar="POSITION", help=f"First position to keep: {POSITION_HELP}."
)
@click.option(
    "--partitions", "-p", type=PARTITIONS, metavar="LIST", help="Delete only in these partitions, such as 0,3-5."
)
@dry_run_option
@yes_option
async def delete(
    target: Target,
    client: AdminClient,
    topic: str,
    before: Start,
    partitions: Sequence[int] | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete the records below an offset. Shows how many offsets are deleted, and asks for confirmation.

    `-N` keeps the last N offsets; a time deletes older records; `beginning` deletes nothing.
    """
    target.require_writable()
    keys = chosen(await client.records.partitions(topic), partitions)
    spans = await client.records.spans(keys, before)
    # An offset beyond the end is a mistake. It is refused, while a reader would start at the end.
    too_high = [key for key in keys if before.kind is StartKind.OFFSET and before.value > spans[key].end]
    if too_high:
        end = spans[too_high[0]].end
        raise click.BadParameter(f"--before {before.value}: partition {too_high[0]} ends at {end}")
    doomed = {key: spans[key].start for key in keys if spans[key].start > spans[key].earliest}
    print_rows(_COLUMNS, spans.items(), err=True)
    done: dict[str, int] = {}
    code = 0
    if doomed and not dry_run:
        total = sum(spans[key].start - spans[key].earliest for key in doomed)
        confirm(f"Delete {plural(total, 'offset')} of topic {topic}?", yes=yes)
        outcome = await client.topics.delete_records(doomed)
        done = {str(key): start for key, start in outcome.found.items()}
        code = target.tell_failures([outcome])
    if target.as_json:
        print_json(
            [
                {"topic": topic, "partition": key.partition, "start_before": span.earliest, "dry_run": dry_run,
                 "start": span.start if dry_run else done.get(str(key), span.earliest), "end": span.end}
                for key, span in spans.items()
            ]
        )  # fmt: skip
    elif not dry_run:
        click.echo(f"deleted records in {plural(len(done), 'partition')}")
    return code
