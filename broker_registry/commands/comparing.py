"""`broker-cy schemas diff` and `check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.client.program import EXIT_FAILED
from broker_cy.commands.output import print_json
from broker_cy.reporting.terminal import print_rows
from broker_registry.client import RegistryClient
from broker_registry.commands.context import (
    Output,
    complete_subjects,
    file_options,
    registry_command,
    schema_of_file,
    version_type,
)
from broker_registry.commands.impact import cluster_options, records_option, show_short, topic_options, tried_first
from broker_registry.commands.text import echo_lines
from broker_registry.console.columns import BREAKING
from broker_registry.console.views import compare
from broker_registry.impact.result import as_json

EPILOG = """\b
examples:
  broker-cy schemas diff orders-value                   the two newest versions
  broker-cy schemas diff orders-value 1 3 --json
  broker-cy schemas check orders-value order.avsc       exit code 1 if it is incompatible
  broker-cy schemas check orders-value order.proto --against 2
  broker-cy schemas check orders-value order.avsc --records 1000     and try it on records of the topic
"""


@click.command("diff", epilog=EPILOG)
@registry_command
@click.argument("subject", shell_complete=complete_subjects)
@click.argument("old", type=version_type, required=False)
@click.argument("new", type=version_type, required=False)
async def diff(output: Output, client: RegistryClient, subject: str, old: int | None, new: int | None) -> None:
    """Compare two versions of a subject: OLD with NEW, or with the newest; the two newest ones by default."""
    numbers = await client.versions(subject)
    if new is None:
        new = numbers[-1]
    if old is None:
        earlier = [each for each in numbers if each < new]
        if not earlier:
            raise ClientError(Failure.INVALID, f"version {new} is the only one", what=subject)
        old = earlier[-1]
    found = await compare(client, subject, old, new)
    if output.as_json:
        members = {"subject": subject, "old": old, "new": new, "level": found.level.value, "policy": found.policy.value}
        print_json({**members, "diff": found.lines, "incompatibilities": found.breaking})
        return
    echo_lines(found.lines)
    if not found.breaking:
        click.echo(f"Each version reads the data of the other. The level is {found.level.value}.")
        return
    sys.stdout.flush()
    print_rows(BREAKING, found.breaking)
    click.echo(f"The level is {found.level.value}.")


@click.command("check", epilog=EPILOG)
@registry_command
@click.argument("subject", shell_complete=complete_subjects)
@file_options
@click.option("--against", type=version_type, metavar="N", help="One version, instead of those that the level names.")
@records_option
@topic_options
@cluster_options
async def check(
    output: Output,
    client: RegistryClient,
    subject: str,
    file: Path,
    kind: str | None,
    references: tuple[str, ...],
    against: int | None,
    records: int | None,
    topics: tuple[str, ...],
    is_key: bool | None,
    **of_cluster: Any,
) -> int:
    """Check whether the schema in FILE may become the next version of a subject; registers nothing."""
    schema = schema_of_file(file, kind, references)
    found = await client.check(subject, schema, against)
    impact = await tried_first(client, subject, schema, records, topics, is_key, of_cluster)
    if output.as_json:
        members = {"subject": subject, "is_compatible": found.is_compatible, "messages": found.messages}
        print_json(members if impact is None else {**members, "impact": as_json(impact)})
    elif found.is_compatible:
        click.echo(f"{file} is compatible with {subject}")
    else:
        click.echo(f"{file} is not compatible with {subject}:")
        echo_lines(found.messages, indent="  ")
    if impact is not None and not output.as_json:
        show_short(impact)
    return 0 if found.is_compatible and not (impact is not None and impact.breaks) else EXIT_FAILED


COMMANDS: Final = (diff, check)
