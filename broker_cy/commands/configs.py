"""`broker-cy configs`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import (
    SECRET,
    AlterOp,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    has_secret,
)
from broker_cy.client.errors import ClientError, Failure
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.commands.values import SETTING
from broker_cy.console.columns import settings
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy configs describe topic orders
  broker-cy configs describe broker 1 --all --docs
  broker-cy configs alter topic orders --set retention.ms=3600000 --append cleanup.policy=compact
  broker-cy configs alter broker default --set log.retention.hours=24     for all brokers
  broker-cy configs alter topic orders --delete retention.ms --yes
  broker-cy configs alter broker 1 --set-file listener.name.ssl.ssl.keystore.password=password.txt
"""

KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "logger": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
DEFAULT_BROKER = "default"
# Names of settings in an error. Topics have about 40 and groups 20; of the 300 of brokers, the nearest are named.
NAMED_MAX: Final = 60
NEAREST_MAX: Final = 5

kind_argument = click.argument("kind", type=click.Choice(list(KINDS)))
name_argument = click.argument("name")


@click.group("configs", epilog=EPILOG)
def command() -> None:
    """Show and change settings of topics, brokers, groups and loggers.

    The broker name `default` stands for all brokers.
    """


def resource_of(kind: str, name: str) -> ConfigResource:
    """Return the resource that the two arguments name."""
    is_default = kind == "broker" and name == DEFAULT_BROKER
    return ConfigResource(KINDS[kind], "" if is_default else name)


@command.command("describe", epilog=EPILOG)
@cluster_command
@kind_argument
@name_argument
@click.option("--all", "every", is_flag=True, help="Include settings with their default value.")
@click.option("--docs", is_flag=True, help="Show the documentation of each setting.")
@click.option("--name", "names", multiple=True, metavar="SETTING", help="Show only this setting; may be repeated.")
async def describe(
    target: Target, client: AdminClient, kind: str, name: str, every: bool, docs: bool, names: Sequence[str]
) -> None:
    """Show settings, their values, and where each value comes from."""
    resource = resource_of(kind, name)
    outcome = await client.configs.describe([resource], names=names or None, documentation=docs)
    entries = [each for each in outcome.whole()[resource] if every or names or not each.is_default]
    if target.as_json:
        print_json(entries)
        return
    columns: list[Column[ConfigEntry]] = [
        settings.SETTING,
        settings.VALUE.by(shown),
        settings.SOURCE.by(_source),
        Column("read-only", "Read-only", lambda row: "yes" if row.is_read_only else ""),
    ]
    if docs:
        columns.append(Column("documentation", "Documentation", lambda row: row.documentation or ""))
    print_rows(columns, entries)


@command.command("alter", epilog=EPILOG)
@cluster_command
@kind_argument
@name_argument
@click.option("--set", "sets", type=SETTING, multiple=True, metavar="NAME=VALUE", help="Set a value.")
@click.option(
    "--set-file",
    "files",
    type=SETTING,
    multiple=True,
    metavar="NAME=FILE",
    help="Set the text of a file, without the end of its last line. For secrets, which lists of processes show.",
)
@click.option(
    "--delete", "deletes", multiple=True, metavar="NAME", help="Remove the value, so that the default applies."
)
@click.option("--append", "appends", type=SETTING, multiple=True, metavar="NAME=VALUE", help="Append to a list.")
@click.option("--subtract", "subtracts", type=SETTING, multiple=True, metavar="NAME=VALUE", help="Remove from a list.")
@dry_run_option
@yes_option
async def alter(
    target: Target,
    client: AdminClient,
    kind: str,
    name: str,
    sets: Sequence[tuple[str, str]],
    files: Sequence[tuple[str, str]],
    deletes: Sequence[str],
    appends: Sequence[tuple[str, str]],
    subtracts: Sequence[tuple[str, str]],
    dry_run: bool,
    yes: bool,
) -> None:
    """Change settings. Other settings keep their values. All five options may be repeated. Values of secret settings
    are not shown.
    """
    target.require_writable()
    changes = [ConfigChange(key, AlterOp.SET, value) for key, value in sets]
    changes += [ConfigChange(key, AlterOp.SET, _text_of(file)) for key, file in files]
    changes += [ConfigChange(key, AlterOp.DELETE) for key in deletes]
    changes += [ConfigChange(key, AlterOp.APPEND, value) for key, value in appends]
    changes += [ConfigChange(key, AlterOp.SUBTRACT, value) for key, value in subtracts]
    if not changes:
        raise click.UsageError("nothing to change: specify --set, --set-file, --delete, --append or --subtract")
    resource = resource_of(kind, name)
    # The broker validates the change before the user is asked to confirm it.
    (await client.configs.alter({resource: changes}, validate_only=True)).whole()
    now = (await client.configs.describe([resource])).whole()[resource]
    check_deleted(kind, resource, deletes, (each.name for each in now))
    before = {each.name: each for each in now}
    printed = [
        change._replace(value=SECRET) if change.value and has_secret(change.name, before.get(change.name)) else change
        for change in changes
    ]
    columns: tuple[Column[ConfigChange], ...] = (
        settings.SETTING.by(lambda row: row.name),
        Column("now", "Now", lambda row: _shown_or_none(before.get(row.name))),
        Column("change", "Change", lambda row: row.op.name.lower()),
        settings.VALUE.by(lambda row: row.value),
    )
    print_rows(columns, printed, err=True)
    if not dry_run:
        confirm(f"Change {plural(len(changes), 'setting')} of {resource}?", yes=yes)
        (await client.configs.alter({resource: changes})).whole()
    if target.as_json:
        print_json({"kind": kind, "name": name, "changes": printed, "dry_run": dry_run})
    elif not dry_run:
        click.echo(f"changed {plural(len(changes), 'setting')} of {resource}")


def check_deleted(kind: str, resource: ConfigResource, deletes: Sequence[str], known: Iterable[str]) -> None:
    """Raise ClientError for a setting that the resource does not have: brokers ignore its deletion, as Kafka's do.
    `known` are the settings that the broker describes; of the default of all brokers, those that are set.
    """
    names = sorted(known)
    missing = [name for name in dict.fromkeys(deletes) if name not in names]
    if not missing:
        return
    command = f"broker-cy configs describe {kind} {resource.name or DEFAULT_BROKER} --all"
    if not names:
        reason = "no setting is set"
    elif len(names) <= NAMED_MAX:
        reason = f"the settings are {', '.join(names)}"
    else:
        near = [each for name in missing for each in get_close_matches(name, names, NEAREST_MAX)]
        reason = f"{'similar ones are ' + ', '.join(near) + '; ' if near else ''}all are listed by: {command}"
    raise ClientError(
        Failure.INVALID, f"invalid config(s) to delete: {', '.join(missing)}; {reason}", what=str(resource)
    )


def shown(entry: ConfigEntry) -> str:
    """Return the value, or why it is not shown."""
    if entry.is_sensitive:
        return SECRET
    return "(null)" if entry.value is None else entry.value


def _text_of(file: str) -> str:
    """Raises click.UsageError."""
    # Imported here, because it needs the module ssl.
    from broker_cy.client.tls import read_file

    try:
        return read_file(file).decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise click.UsageError(f"--set-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--set-file {file}: is no text in UTF-8") from None


def _shown_or_none(entry: ConfigEntry | None) -> str | None:
    return None if entry is None else shown(entry)


def _source(entry: ConfigEntry) -> str:
    return entry.source.name.lower().removesuffix("_config").replace("_", " ")
