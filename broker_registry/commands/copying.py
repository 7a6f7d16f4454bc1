"""`broker-cy schemas copy`: versions of subjects from one registry to another, with their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.commands.context import dry_run_option, ended_by_signals, yes_option
from broker_cy.commands.output import confirm, print_json, progress
from broker_cy.reporting.column import Column, Kind, ids_text
from broker_cy.reporting.terminal import print_rows
from broker_registry.client import Refused, RegistryClient, Version
from broker_registry.client_settings import settings_of
from broker_registry.commands.context import Output, registry_command
from broker_registry.console import columns
from broker_registry.subject_names import SubjectName, qualified

EPILOG = """\b
examples:
  broker-cy schemas copy --to https://registry-2:8081 --dry-run
  broker-cy schemas copy --to https://registry-2:8081 --to-config registry-2.properties --yes
  broker-cy schemas copy --to http://127.0.0.1:8082 --subject orders-value --subject orders-key
"""

IMPORT: Final = "IMPORT"
Place = tuple[str, int]


class Row(NamedTuple):
    """The versions of a subject that are copied, and how many the target has already."""

    subject: str
    versions: list[int]
    present: int


class Scope(NamedTuple):
    """The own settings of a subject, of a context (`:.test:`) or of the registry (None), and its mode."""

    name: str | None
    config: dict[str, Any] | None
    mode: str | None


COLUMNS: Final[tuple[Column[Row], ...]] = (
    columns.SUBJECT.by(lambda row: row.subject),
    Column("versions", "Versions to copy", lambda row: ids_text(row.versions)),
    Column("present", "Present already", lambda row: row.present, Kind.COUNT),
)


@click.command("copy", epilog=EPILOG)
@registry_command
@click.option("--to", "to", required=True, metavar="URL[,..]", help="The registry that gets the schemas.")
@click.option(
    "--to-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Settings of a client with the login there.",
)
@click.option("--subject", "subjects", multiple=True, metavar="NAME", help="Only this subject; may be repeated.")
@click.option("--prefix", metavar="TEXT", help="Only subjects that begin so; `:.CONTEXT:` is a context.")
@click.option("--deleted", is_flag=True, help="Also versions that were deleted, and can be restored.")
@click.option("--settings", is_flag=True, help="Also the settings and modes of subjects, contexts and the registry.")
@dry_run_option
@yes_option
async def copy(
    output: Output,
    client: RegistryClient,
    to: str,
    to_config: Path | None,
    subjects: tuple[str, ...],
    prefix: str | None,
    deleted: bool,
    settings: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Copy schemas to another registry, with ids, versions and the schemas that they refer to.

    Subjects of the target are in the mode IMPORT meanwhile. Versions that the target has are skipped. Settings of the
    registry itself are copied only without --subject and --prefix, its mode never.
    """
    target = RegistryClient(settings_of(to, to_config))
    wanted = await _selected(client, subjects, prefix, deleted=deleted)
    missing = [each for each in wanted if not await _is_present(target, each)]
    scopes = await _scopes(client, wanted, subjects, prefix) if settings else []
    rows = _rows(wanted, missing)
    if not output.as_json:
        print_rows(COLUMNS, rows, err=True)
    what = f"{len(missing):,} versions" + (f" and the settings of {len(scopes):,} scopes" if settings else "")
    if (missing or scopes) and not dry_run:
        confirm(f"Copy {what} from {client.name} to {target.name}?", yes=yes)
        with ended_by_signals(), progress("Copy", len(missing), quiet=output.as_json) as advance:
            await _copied(target, missing, scopes, advance)
    if output.as_json:
        copied = {"copied": 0, "settings": 0} if dry_run else {"copied": len(missing), "settings": len(scopes)}
        print_json({"subjects": rows, **copied, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"would copy {what} to {target.name}", err=True)
    else:
        click.echo(f"copied {what} to {target.name}")


async def _scopes(
    client: RegistryClient, wanted: Sequence[Version], subjects: Sequence[str], prefix: str | None
) -> list[Scope]:
    """Return the settings and modes of the subjects, of their contexts unless subjects are named, and of the registry
    if everything is copied.
    """
    names: list[str | None] = [each.subject for each in wanted]
    if not subjects:
        names += [context for each in wanted if (context := SubjectName.parse(each.subject).prefix)]
        if prefix is None:
            names.append(None)
    found = []
    for name in dict.fromkeys(names):
        # The mode of a registry is often READONLY while it is moved; the target must not be.
        mode = None if name is None else await client.mode(name)
        scope = Scope(name, await client.own_config(name), mode)
        if scope.config is not None or scope.mode is not None:
            found.append(scope)
    return found


async def _selected(
    client: RegistryClient, subjects: Sequence[str], prefix: str | None, *, deleted: bool
) -> list[Version]:
    """Return versions with those that they refer to, each one behind these. Raises ClientError for a subject that does
    not exist, and for references that are a circle.
    """
    listed = {(each.subject, each.version): each async for each in client.listed(prefix, deleted=deleted)}
    if subjects:
        listed = {place: each for place, each in listed.items() if place[0] in subjects}
        for name in set(subjects) - {subject for subject, _ in listed}:
            # It gets the error of the registry.
            await client.versions(name)
            raise ClientError(Failure.INVALID, f"the subject does not begin with {prefix}", what=name)
    ordered: dict[Place, Version] = {}
    open_places: set[Place] = set()

    async def take(place: Place) -> None:
        if place in ordered:
            return
        if place in open_places:
            raise ClientError(
                Failure.MALFORMED, "the references of schemas are a circle", what=f"{place[0]} version {place[1]}"
            )
        open_places.add(place)
        found = listed.get(place) or await client.version(*place, deleted=True)
        for each in found.schema.references:
            await take((qualified(found.subject, each.subject), each.version))
        open_places.remove(place)
        ordered[place] = found

    for place in listed:
        await take(place)
    return list(ordered.values())


async def _is_present(target: RegistryClient, wanted: Version) -> bool:
    """Return whether the target has this version. Raises ClientError if the version or the id means another schema
    there: nothing was changed then.
    """
    what = f"{wanted.subject} version {wanted.version}"
    try:
        found = await target.version(wanted.subject, wanted.version, deleted=True)
    except Refused as error:
        if not error.is_not_found:
            raise
    else:
        if found.id != wanted.id or found.schema.text != wanted.schema.text:
            raise ClientError(Failure.REFUSED, f"{target.name} has another schema there, with id {found.id}", what=what)
        if found.is_deleted and not wanted.is_deleted:
            raise ClientError(Failure.REFUSED, f"the version is deleted in {target.name}", what=what)
        return found.is_deleted == wanted.is_deleted
    try:
        schema = await target.schema_of(wanted.id, wanted.subject)
    except Refused as error:
        if not error.is_not_found:
            raise
    else:
        if schema.text != wanted.schema.text:
            raise ClientError(Failure.REFUSED, f"{target.name} has another schema with id {wanted.id}", what=what)
    return False


def _rows(wanted: Iterable[Version], missing: Iterable[Version]) -> list[Row]:
    rows = {each.subject: Row(each.subject, [], 0) for each in wanted}
    places = {(each.subject, each.version) for each in missing}
    for each in wanted:
        row = rows[each.subject]
        if (each.subject, each.version) in places:
            row.versions.append(each.version)
        else:
            rows[each.subject] = row._replace(present=row.present + 1)
    return [rows[name] for name in sorted(rows)]


async def _copied(
    target: RegistryClient, missing: Sequence[Version], scopes: Sequence[Scope], advance: Callable[[int], None]
) -> None:
    """Import the versions, and set settings and modes. The subjects get their modes back, also after an error or an
    interruption.
    """
    modes: dict[str, str | None] = {}
    try:
        for name in dict.fromkeys(each.subject for each in missing):
            modes[name] = await target.mode(name)
            # Forced: the subject may have versions. Without it, versions that are deleted would be gone for good.
            await target.set_mode(name, IMPORT, forced=True)
        for each in missing:
            schema_id = await target.register(each.subject, each.schema, place=(each.id, each.version))
            advance(1)
            if schema_id != each.id:
                what = f"{each.subject} version {each.version}"
                raise ClientError(Failure.MALFORMED, f"it got id {schema_id}, and not {each.id}", what=what)
        # Those that refer to others are deleted before these.
        for each in reversed(missing):
            if each.is_deleted:
                await target.delete_version(each.subject, each.version)
        for scope in scopes:
            if scope.config is not None:
                await target.set_config(scope.name, scope.config)
        for scope in scopes:
            if scope.name is not None and scope.mode is not None:
                if scope.name in modes:
                    modes[scope.name] = scope.mode
                else:
                    await target.set_mode(scope.name, scope.mode, forced=True)
    finally:
        for name, mode in modes.items():
            await target.set_mode(name, mode, forced=True)


COMMANDS: Final = (copy,)
