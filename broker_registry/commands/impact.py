"""`broker-cy schemas impact`, and the same trial before `register` and in `check`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.client import options
from broker_cy.client.clusters import select
from broker_cy.client.program import EXIT_FAILED
from broker_cy.commands.context import Target
from broker_cy.commands.output import print_json
from broker_cy.reporting.terminal import print_rows
from broker_registry.client import RegistryClient, Schema
from broker_registry.commands.context import Output, complete_subjects, file_options, registry_command, schema_of_file
from broker_registry.commands.text import echo_lines
from broker_registry.impact.preview import Question, preview
from broker_registry.impact.result import Impact, as_json
from broker_registry.impact.sample import RECORDS_MAX, Limits
from broker_registry.impact.shown import GROUP_COLUMNS, READER_COLUMNS, SCHEMA_COLUMNS, first_lines, notes, verdict

EPILOG = """\b
examples:
  broker-cy schemas impact orders-value order.avsc                 the newest 1,000 records of the topic orders
  broker-cy schemas impact orders-value order.avsc --records 100000 --seconds 60
  broker-cy schemas impact com.example.Order order.avsc --topic orders --topic returns
  broker-cy schemas impact orders-key key.proto --cluster production --json
  broker-cy schemas impact orders-value order.avsc --data-dir /var/lib/broker-cy     segments instead of requests
"""
_DEFAULTS: Final = Limits()

cluster_options = options.click_options()
records_option = click.option(
    "--records",
    type=click.IntRange(1, RECORDS_MAX),
    metavar="N",
    help="Try the schema on the newest N records of the topic first, and show what it would break.",
)


def topic_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the records of a subject."""
    for add in (
        click.option(
            "--key/--value", "is_key", default=None, help="The part of the records.  [default: by the subject]"
        ),
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="NAME",
            help="A topic with records of the subject; may be repeated.  [default: by the subject]",
        ),
    ):
        function = add(function)
    return function


@click.command("impact", epilog=EPILOG)
@registry_command
@click.argument("subject", shell_complete=complete_subjects)
@file_options
@topic_options
@click.option(
    "--records",
    type=click.IntRange(1, RECORDS_MAX),
    default=_DEFAULTS.records,
    show_default=True,
    metavar="N",
    help="The newest N records, equally many of each partition.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3_600),
    default=_DEFAULTS.seconds,
    show_default=True,
    metavar="S",
    help="Time limit of reading, and of trying.",
)
@click.option(
    "--data-dir",
    "directories",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Read the segments in this log directory of a broker instead of asking brokers; may be repeated.",
)
@cluster_options
async def impact(
    output: Output,
    client: RegistryClient,
    subject: str,
    file: Path,
    kind: str | None,
    references: tuple[str, ...],
    topics: tuple[str, ...],
    is_key: bool | None,
    records: int,
    seconds: float,
    directories: tuple[Path, ...],
    **of_cluster: Any,
) -> int:
    """Show what the schema in FILE would break: records that new readers could not read, and present readers that could
    not read new records. Nothing is registered. The exit code is 1 if it breaks what the level of the subject promises.
    """
    question = Question(
        subject, schema_of_file(file, kind, references), topics, is_key, Limits(records, seconds=seconds), directories
    )
    found = await tried(client, question, of_cluster)
    show(output, found)
    return EXIT_FAILED if found.breaks else 0


async def tried(client: RegistryClient, question: Question, of_cluster: dict[str, Any]) -> Impact:
    """Return the result of a trial on the cluster of the options. Raises ClientError."""
    async with Target(select(options.take(of_cluster)), as_json=False).client() as cluster:
        return await preview(client, cluster, question)


async def tried_first(
    client: RegistryClient,
    subject: str,
    schema: Schema,
    records: int | None,
    topics: tuple[str, ...],
    is_key: bool | None,
    of_cluster: dict[str, Any],
) -> Impact | None:
    """The same for a command to which the trial is an option; None without `records`."""
    if records is None:
        return None
    return await tried(client, Question(subject, schema, topics, is_key, Limits(records)), of_cluster)


def show(output: Output, found: Impact) -> None:
    """Print the whole result."""
    if output.as_json:
        print_json(as_json(found))
        return
    show_short(found)
    echo_lines(notes(found))
    if found.schemas:
        click.echo("\nRecords by schema, read with the new one:")
        print_rows(SCHEMA_COLUMNS, found.schemas)
    if found.groups:
        click.echo("\nGroups, with the records ahead of them, read with the new schema:")
        print_rows(GROUP_COLUMNS, found.groups)
    if found.readers:
        click.echo("\nPresent schemas, with the records rewritten with the new one:")
        print_rows(READER_COLUMNS, found.readers)


def show_short(found: Impact) -> None:
    """Print the verdict, and the first records that break."""
    echo_lines([verdict(found), *first_lines(found)])


COMMANDS: Final = (impact,)
