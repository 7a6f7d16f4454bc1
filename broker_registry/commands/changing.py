"""`broker-cy schemas register` and `delete`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from broker_cy.client.program import EXIT_FAILED
from broker_cy.commands.context import dry_run_option, yes_option
from broker_cy.commands.output import confirm, confirm_typed, print_json
from broker_cy.reporting.column import ids_text
from broker_cy.reporting.terminal import print_rows
from broker_registry.client import RegistryClient, Schema
from broker_registry.commands.context import (
    Output,
    complete_subjects,
    file_options,
    registry_command,
    schema_of_file,
    version_type,
)
from broker_registry.commands.impact import cluster_options, records_option, topic_options, tried_first
from broker_registry.commands.text import echo_lines
from broker_registry.console import deleting
from broker_registry.console.deleting import COLUMNS, Deletion, deletions
from broker_registry.impact.result import Impact, as_json
from broker_registry.impact.shown import first_lines, verdict

EPILOG = """\b
examples:
  broker-cy schemas register orders-value order.avsc
  broker-cy schemas register orders-value order.proto --reference common.proto=common:1 --dry-run
  broker-cy schemas register orders-value order.avsc --records 1000     ask first if it would break records
  broker-cy schemas delete orders-value --version 3
  broker-cy schemas delete orders-value --permanent --dry-run
"""


@click.command("register", epilog=EPILOG)
@registry_command
@click.argument("subject", shell_complete=complete_subjects)
@file_options
@click.option("--normalize", "normalizes", is_flag=True, help="Store the schema in its normalized form.")
@dry_run_option
@yes_option
@records_option
@topic_options
@cluster_options
async def register(
    output: Output,
    client: RegistryClient,
    subject: str,
    file: Path,
    kind: str | None,
    references: tuple[str, ...],
    normalizes: bool,
    dry_run: bool,
    yes: bool,
    records: int | None,
    topics: tuple[str, ...],
    is_key: bool | None,
    **of_cluster: Any,
) -> int:
    """Register the schema in FILE as the next version of a subject. One that is registered already keeps its id."""
    schema = schema_of_file(file, kind, references)
    impact = await tried_first(client, subject, schema, records, topics, is_key, of_cluster)
    if dry_run:
        return await _try(output, client, subject, schema, impact)
    if impact is not None:
        if not output.as_json:
            echo_lines([verdict(impact), *first_lines(impact)], err=True)
        if impact.breaks:
            confirm(f"Register it in {subject} nevertheless?", yes=yes)
    schema_id = await client.register(subject, schema, normalizes=normalizes)
    found = await client.look_up(subject, schema, normalizes=normalizes)
    if output.as_json:
        print_json({"subject": subject, "version": found.version, "id": schema_id, "guid": found.guid})
    else:
        click.echo(f"{subject} version {found.version} has id {schema_id}")
    return 0


async def _try(output: Output, client: RegistryClient, subject: str, schema: Schema, impact: Impact | None) -> int:
    found = await client.check(subject, schema)
    if output.as_json:
        members = {"subject": subject, "dry_run": True, **found._asdict()}
        print_json(members if impact is None else {**members, "impact": as_json(impact)})
    elif found.is_compatible:
        click.echo(f"would register a schema in {subject}: it is compatible", err=True)
    else:
        click.echo(f"would not register a schema in {subject}: it is not compatible", err=True)
        echo_lines(found.messages)
    if impact is not None and not output.as_json:
        echo_lines([verdict(impact), *first_lines(impact)], err=True)
    return 0 if found.is_compatible and not (impact is not None and impact.breaks) else EXIT_FAILED


@click.command("delete", epilog=EPILOG)
@registry_command
@click.argument("subject", shell_complete=complete_subjects)
@click.option("--version", type=version_type, metavar="N", help="Only this version.")
@click.option(
    "--permanent", is_flag=True, help="For good: without it, versions can be read by id and registered again."
)
@dry_run_option
@yes_option
async def delete(
    output: Output,
    client: RegistryClient,
    subject: str,
    version: int | None,
    permanent: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete a subject, or one version of it."""
    rows = await deletions(client, subject, None if version is None else [version], permanent=permanent)
    if not output.as_json:
        print_rows(COLUMNS, rows, err=True)
    if dry_run:
        _told(output, subject, rows, permanent=permanent, is_done=False)
        return
    versions = f"{len(rows):,} version{'' if len(rows) == 1 else 's'} of {subject}"
    if permanent:
        question = f"Delete {versions} for good? Records that were written with them cannot be decoded any more."
        confirm_typed(subject, question, yes=yes)
    else:
        confirm(f"Delete {versions}?", yes=yes)
    await deleting.delete(client, subject, rows, permanent=permanent, is_whole=version is None)
    _told(output, subject, rows, permanent=permanent, is_done=True)


def _told(output: Output, subject: str, rows: list[Deletion], *, permanent: bool, is_done: bool) -> None:
    numbers = [row.version for row in rows]
    if output.as_json:
        print_json({"subject": subject, "versions": numbers, "permanent": permanent, "dry_run": not is_done})
        return
    end = " for good" if permanent else ""
    text = f"{subject}: versions {ids_text(numbers)}{end}"
    if is_done:
        click.echo(f"deleted {text}")
    else:
        click.echo(f"would delete {text}", err=True)


COMMANDS: Final = (register, delete)
