"""`broker-cy schemas list`, `show` and `versions`, and the group of all commands."""

from __future__ import annotations

from typing import Any, Final

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.commands.output import print_json
from broker_cy.reporting.column import Column
from broker_cy.reporting.terminal import print_rows
from broker_registry.client import LATEST, RegistryClient, Version
from broker_registry.commands import changing, comparing, copying, impact
from broker_registry.commands.context import Output, complete_subjects, registry_command, version_type
from broker_registry.commands.text import echo_lines
from broker_registry.console import columns
from broker_registry.differences import pretty

EPILOG = """\b
examples:
  broker-cy schemas list
  broker-cy schemas list --prefix orders- --registry https://registry-1:8081 --json
  broker-cy schemas versions orders-value
  broker-cy schemas show orders-value --version 2
  broker-cy schemas show --id 17
"""

COLUMNS: Final[tuple[Column[Version], ...]] = (
    columns.SUBJECT.by(lambda row: row.subject),
    columns.VERSION.by(lambda row: row.version),
    columns.ID.by(lambda row: row.id),
    columns.TYPE.by(lambda row: row.schema.kind),
    columns.REFERENCES.by(lambda row: len(row.schema.references)),
    columns.SIZE.by(lambda row: len(row.schema.text.encode())),
)
STATE: Final[Column[Version]] = columns.STATE.by(lambda row: columns.state_text(row.is_deleted))


@click.group("schemas", epilog=EPILOG)
def command() -> None:
    """Schemas in a registry: list, show, compare, check, try, register, delete and copy them."""


for each in (*comparing.COMMANDS, *impact.COMMANDS, *changing.COMMANDS, *copying.COMMANDS):
    command.add_command(each)


@command.command("list", epilog=EPILOG)
@registry_command
@click.option("--prefix", metavar="TEXT", help="Only subjects that begin so; `:.CONTEXT:` is a context.")
@click.option("--deleted", is_flag=True, help="Also subjects that were deleted, and can be restored.")
async def list_subjects(output: Output, client: RegistryClient, prefix: str | None, deleted: bool) -> None:
    """List subjects with their newest version."""
    found = [each async for each in client.listed(prefix, latest_only=True, deleted=deleted)]
    _show(output, found, with_state=deleted)


@command.command("versions", epilog=EPILOG)
@registry_command
@click.argument("subject", shell_complete=complete_subjects)
@click.option("--deleted", is_flag=True, help="Also versions that were deleted, and can be restored.")
async def versions(output: Output, client: RegistryClient, subject: str, deleted: bool) -> None:
    """List the versions of a subject."""
    numbers = await client.versions(subject, deleted=deleted)
    found = [await client.version(subject, number, deleted=deleted) for number in numbers]
    _show(output, found, with_state=deleted)


@command.command("show", epilog=EPILOG)
@registry_command
@click.argument("subject", required=False, shell_complete=complete_subjects)
@click.option("--version", type=version_type, metavar="N", help="The version.  [default: the newest]")
@click.option("--id", "schema_id", type=int, metavar="N", help="The schema with this id, instead of a subject's.")
async def show(
    output: Output, client: RegistryClient, subject: str | None, version: int | None, schema_id: int | None
) -> None:
    """Print the text of a schema."""
    if (subject is None) == (schema_id is None) or (version is not None and subject is None):
        raise ClientError(Failure.INVALID, "name a subject, with --version or without, or an --id")
    if schema_id is not None:
        schema = await client.schema_of(schema_id)
        members: dict[str, Any] = {"id": schema_id}
    else:
        assert subject is not None
        found = await client.version(subject, LATEST if version is None else version)
        schema, members = found.schema, _members(found)
    if output.as_json:
        print_json({**members, "type": schema.kind, "references": schema.references, "schema": schema.text})
    else:
        echo_lines([pretty(schema.kind, schema.text)])


def _members(row: Version) -> dict[str, Any]:
    return {"subject": row.subject, "version": row.version, "id": row.id, "guid": row.guid}


def _show(output: Output, found: list[Version], *, with_state: bool) -> None:
    if output.as_json:
        print_json(
            [
                {
                    **_members(each),
                    "type": each.schema.kind,
                    "references": each.schema.references,
                    "deleted": each.is_deleted,
                }
                for each in found
            ]
        )
        return
    print_rows([*COLUMNS, STATE] if with_state else COLUMNS, found)
