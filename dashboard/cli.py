"""The command `broker-dash`."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from broker_cy import __version__
from broker_cy.admin.clusters import ClusterEntry, check_timeout, find_cluster, find_file
from broker_cy.client.errors import ClientError, Failure
from dashboard.config import load_config
from dashboard.security.user_commands import command as user
from dashboard.security.users import default_users_path

PROGRAM = "broker-dash"
EXIT_INTERRUPTED = 130
EPILOG = """\b
examples:
  broker-dash                                        the default cluster, or 127.0.0.1:9092
  broker-dash --bootstrap 127.0.0.1:9092
  broker-dash --cluster staging --cluster production --readonly
  broker-dash user add anna --role admin             a login is needed from now on
  broker-dash --listen 0.0.0.0:8050 --config dashboard.toml
"""


@click.group(invoke_without_command=True, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap", metavar="HOST:PORT[,..]", help="Bootstrap of a cluster; default 127.0.0.1:9092.")
@click.option("--cluster", "clusters", metavar="NAME", multiple=True, help="A cluster of the cluster file; repeatable.")
@click.option("--clusters-file", type=click.Path(path_type=Path), metavar="FILE", help="The cluster file.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The configuration, dashboard.toml.")
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; default 127.0.0.1:8050.")
@click.option("--users", type=click.Path(path_type=Path), metavar="FILE", help="The users file.")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="Session key, audit log and history.")
@click.option("--alerts", type=click.Path(path_type=Path), metavar="FILE", help="File with alert rules.")
@click.option("--notify", is_flag=True, help="POST each alert to the [webhook] of the alert rules.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="A report of broker-analytics.")
@click.option("--readonly", is_flag=True, help="Refuse every change.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit of each call.")
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
@click.pass_context
def command(
    context: click.Context,
    bootstrap: str | None,
    clusters: tuple[str, ...],
    clusters_file: Path | None,
    config: Path | None,
    listen: str | None,
    users: Path | None,
    state: Path | None,
    alerts: Path | None,
    notify: bool,
    report: Path | None,
    readonly: bool,
    timeout: float | None,
) -> None:
    """The web dashboard of broker-cy and Apache Kafka clusters."""
    if context.invoked_subcommand is not None:
        _refuse_other_options(context)
        context.obj = lambda: users or find_users(config, clusters_file)
        return
    # Importing Dash takes half a second, and `broker-dash user` does not need it.
    from dashboard.server import serve

    try:
        check_timeout(timeout)
        entries = find_entries(bootstrap, clusters, clusters_file)
        found = load_config(config, clusters_file).with_options(
            listen=listen, users=users, state=state, alerts=alerts, is_readonly=readonly, report=report, notifies=notify
        )
        serve(found, entries, are_named=bootstrap is None and bool(entries[0].name), timeout_s=timeout)
    except ClientError as error:
        click.echo(f"broker-dash: {error}", err=True)
        context.exit(2)


def _refuse_other_options(context: click.Context) -> None:
    """Raise UsageError for options that have no effect on `broker-dash user`."""
    for name in context.params:
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in ("clusters_file", "config", "users"):
            option = "--" + name.replace("clusters", "cluster")
            raise click.UsageError(
                f"{option} has no effect on users; allowed before user are --clusters-file, --config and --users"
            )


def find_users(config: Path | None, clusters_file: Path | None) -> Path:
    """Return the users file of a dashboard with these options, whether or not it exists. Raises ClientError."""
    return load_config(config, clusters_file).users or default_users_path(clusters_file)


def find_entries(bootstrap: str | None, names: tuple[str, ...], path: Path | None) -> list[ClusterEntry]:
    """Return the clusters: those of `names`, else the one at `bootstrap`, else all of the cluster file, its default
    first, else the one at 127.0.0.1:9092. Raises ClientError.
    """
    if bootstrap is not None and names:
        raise ClientError(Failure.INVALID, "--bootstrap and --cluster exclude each other")
    # With an address, the default file is not needed and need not be valid; a file that is named must be valid.
    is_needed = bootstrap is None or path is not None
    file = find_file(path, names[0] if names else None) if is_needed else None
    if bootstrap is not None or file is None:
        return [find_cluster(None, bootstrap, None)]
    if names:
        return [file.entry(name) for name in dict.fromkeys(names)]
    default = [] if file.default is None else [file.entry(file.default)]
    rest = [entry for name, entry in file.clusters.items() if name != file.default]
    return [*default, *rest] or [find_cluster(None, None, None)]


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        return int(command.main(prog_name=PROGRAM, standalone_mode=False) or 0)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code


command.add_command(user)
