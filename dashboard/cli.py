"""The command `broker-dash`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from broker_cy import __version__
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry, Wanted, check_timeout, find_cluster, find_file
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end
from dashboard.config import load_config
from dashboard.security.user_commands import command as user
from dashboard.security.users import default_users_path

PROGRAM = "broker-dash"
EPILOG = """\b
examples:
  broker-dash                                        the default cluster, or 127.0.0.1:9092
  broker-dash --bootstrap 127.0.0.1:9092
  broker-dash --bootstrap broker-1:9093 --command-config client.properties
  broker-dash --cluster staging --cluster production --readonly
  broker-dash user add anna --role admin             a login is needed from now on
  broker-dash --listen 0.0.0.0:8050 --config dashboard.toml
"""


@click.group(invoke_without_command=True, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@options.click_options(
    (*options.OF_CLUSTER, *options.OF_REGISTRY, *options.OF_MIRRORS),
    cluster={
        "multiple": True,
        "help": "Name of a cluster in the cluster file; may be repeated. By default all of them.",
    },
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The configuration, dashboard.toml.")
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; default 127.0.0.1:8050.")
@click.option("--users", type=click.Path(path_type=Path), metavar="FILE", help="The users file.")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="Session key, audit log and history.")
@click.option("--alerts", type=click.Path(path_type=Path), metavar="FILE", help="File with alert rules.")
@click.option("--notify", is_flag=True, help="POST each alert to the [webhook] of the alert rules.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="A report of broker-analytics.")
@click.option("--readonly", is_flag=True, help="Refuse every change.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit of each call.")
@click.option("--json", "as_json", is_flag=True, help="Print the address and errors as JSON.")
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
@click.pass_context
def command(
    context: click.Context,
    /,
    config: Path | None,
    listen: str | None,
    users: Path | None,
    state: Path | None,
    alerts: Path | None,
    notify: bool,
    report: Path | None,
    readonly: bool,
    timeout: float | None,
    as_json: bool,
    **of_cluster: Any,
) -> None:
    """The web dashboard of broker-cy and Apache Kafka clusters."""
    if context.invoked_subcommand is not None:
        _refuse_other_options(context)
        context.obj = lambda: users or find_users(config, of_cluster["clusters_file"])
        return
    # Importing Dash takes half a second, and `broker-dash user` does not need it.
    from dashboard.server import serve

    try:
        check_timeout(timeout)
        wanted = options.wanted({**of_cluster, "cluster": None})
        entries, are_named = find_entries(wanted, of_cluster["cluster"])
        found = load_config(config, wanted.clusters_file).with_options(
            listen=listen, users=users, state=state, alerts=alerts, is_readonly=readonly, report=report, notifies=notify
        )
        serve(found, entries, are_named=are_named, timeout_s=timeout, as_json=as_json)
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))


def _refuse_other_options(context: click.Context) -> None:
    """Raise UsageError for options that have no effect on `broker-dash user`."""
    for name in context.params:
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in ("clusters_file", "config", "users"):
            option = "-X" if name == "client_settings" else "--json" if name == "as_json" else f"--{name}"
            option = option.replace("_", "-")
            raise click.UsageError(
                f"{option} has no effect on users; allowed before user are --clusters-file, --config and --users"
            )


def find_users(config: Path | None, clusters_file: Path | None) -> Path:
    """Return the users file of a dashboard with these options, whether or not it exists. Raises ClientError."""
    return load_config(config, clusters_file).users or default_users_path(clusters_file)


def find_entries(wanted: Wanted, names: tuple[str, ...]) -> tuple[list[ClusterEntry], bool]:
    """Return the clusters, and whether their names are those of the cluster file: the clusters of `names`, else the one
    at the bootstrap address, else that of the environment, else all of the cluster file, its default first, else the
    one at 127.0.0.1:9092. Raises ClientError.
    """
    first = replace(wanted, name=names[0] if names else None).or_environment()
    names = names or (() if first.name is None else (first.name,))
    # With an address, the default file is not needed and need not be valid; a file that is named must be valid.
    is_needed = first.bootstrap is None or first.clusters_file is not None
    file = find_file(first.clusters_file, first.name) if is_needed else None
    entries: list[ClusterEntry] = []
    if first.bootstrap is None and file is not None:
        known = [file.entry(file.default)] if file.default is not None else []
        known += [entry for name, entry in file.clusters.items() if name != file.default]
        entries = [file.entry(name) for name in dict.fromkeys(names)] if names else known
    are_named = bool(entries)
    entries = entries or [find_cluster(None, first.bootstrap, None)]
    if len(entries) == 1:
        return [first.changed(entries[0])], are_named
    _refuse_options_of_one(first, entries)
    # Nor are the registry and the mirrors of the environment those of all: the ids of a registry mean nothing in the
    # records of another cluster, and a mirror copies into one.
    return [
        replace(
            first.changed(entry),
            registry=entry.registry,
            registry_config=entry.registry_config,
            mirrors=entry.mirrors,
        )
        for entry in entries
    ], are_named


def _refuse_options_of_one(wanted: Wanted, entries: list[ClusterEntry]) -> None:
    """Raise ClientError for an option that cannot be that of several clusters."""
    for option, given, what in (
        ("--command-config", wanted.command_config, "login"),
        ("-X", wanted.settings, "login"),
        ("--registry", wanted.registry, "registry"),
        ("--registry-config", wanted.registry_config, "registry"),
        ("--mirrors", wanted.mirrors, "mirrors"),
    ):
        if given:
            names = ", ".join(entry.name for entry in entries)
            raise ClientError(
                Failure.INVALID,
                f"{option} is for one cluster, not for {names}: choose one with --cluster, or set the {what} of each "
                "in the cluster file",
            )


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)


command.add_command(user)
