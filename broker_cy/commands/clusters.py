"""`broker-cy clusters`: the cluster file."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry, ClusterFile, default_path, find_file, load_clusters
from broker_cy.client.program import exit_code_of
from broker_cy.client.security import PROTOCOL
from broker_cy.commands.context import complete_clusters
from broker_cy.commands.output import print_error, print_json
from broker_cy.reporting.column import Column
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy clusters list                  the clusters of ~/.config/broker-cy/clusters.toml
  broker-cy clusters use production        all programs use it, unless an option or a variable selects another
"""
# A field of the top table, which ends at the first header.
_DEFAULT: Final = re.compile(r"^[ \t]*(?:default|\"default\"|'default')[ \t]*=[^\n]*$", re.MULTILINE)
_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)


@click.group("clusters", epilog=EPILOG)
def command() -> None:
    """List the clusters of the cluster file, and select the default."""


def _with_file(body: Callable[..., None]) -> Callable[..., Any]:
    """Add the options; errors are reported as those of all commands."""

    def reported(clusters_file: Path | None, as_json: bool, **given: Any) -> None:
        try:
            body(_load(clusters_file), as_json, **given)
        except ClientError as error:
            print_error(error, as_json=as_json)
            raise SystemExit(exit_code_of(error)) from None

    reported.__doc__ = body.__doc__
    with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")(reported)
    return options.click_options((options.CLUSTERS_FILE,))(with_json)


def _load(chosen: Path | None) -> ClusterFile:
    """Load the chosen file, or the default one, which need not exist. Raises ClientError."""
    return find_file(chosen, None) or ClusterFile(default_path(), {}, None)


def _list(file: ClusterFile, as_json: bool) -> None:
    """List the clusters of the cluster file."""
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "bootstrap": [str(address) for address in each.bootstrap],
                    "security_protocol": each.secured.get(PROTOCOL, "PLAINTEXT"),
                    "is_readonly": each.is_readonly,
                    "is_default": each.name == file.default,
                }
                for each in file.clusters.values()
            ]
        )
        return
    if not file.clusters:
        click.echo(f'{file.path} has no clusters: add [clusters.NAME] with bootstrap = "HOST:PORT"', err=True)
    columns: tuple[Column[ClusterEntry], ...] = (
        Column("cluster", "Cluster", lambda row: row.name),
        Column("bootstrap", "Bootstrap", lambda row: ",".join(map(str, row.bootstrap))),
        Column("security", "Security", lambda row: row.secured.get(PROTOCOL, "PLAINTEXT")),
        Column("readonly", "Readonly", lambda row: "yes" if row.is_readonly else "no"),
        Column("default", "Default", lambda row: "yes" if row.name == file.default else "no"),
    )
    print_rows(columns, file.clusters.values())


def _use(file: ClusterFile, as_json: bool, name: str) -> None:
    """Make a cluster the default of the cluster file. Comments and other lines stay."""
    file.entry(name)
    if file.default != name:
        _write(file.path, with_default(file.path.read_text(encoding="utf-8"), file, name))
    if as_json:
        print_json({"default": name, "file": str(file.path)})
    else:
        click.echo(f"{name} is the default cluster of {file.path}")


def with_default(text: str, file: ClusterFile, name: str) -> str:
    """Return the text of a cluster file with another default."""
    # A JSON string without control characters is a basic string of TOML.
    line = f"default = {json.dumps(name, ensure_ascii=False)}"
    if file.default is None:
        return f"{line}\n\n{text}"
    header = _HEADER.search(text)
    end = len(text) if header is None else header.start()
    return _DEFAULT.sub(lambda _: line, text[:end], count=1) + text[end:]


def _write(path: Path, text: str) -> None:
    """Replace the file, if it still is a cluster file; links to it and its mode stay. Raises ClientError."""
    place = path.resolve()
    try:
        descriptor, made = tempfile.mkstemp(dir=place.parent, prefix=".clusters-", suffix=".toml")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(made, place.stat().st_mode & 0o7777)
            load_clusters(Path(made))
            os.replace(made, place)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        raise ClientError(Failure.INVALID, f"cannot be changed: {error.strerror}", what=str(path)) from None


command.command("list", epilog=EPILOG)(_with_file(_list))
command.command("use", epilog=EPILOG)(
    click.argument("name", shell_complete=lambda ctx, param, incomplete: complete_clusters(ctx, incomplete))(
        _with_file(_use)
    )
)
