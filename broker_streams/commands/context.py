"""Shared parts of the commands: their arguments, settings, clients and errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.offsets import Isolation
from broker_cy.client import options
from broker_cy.client.clusters import select
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end
from broker_cy.client.security import PREFIXES
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file
from broker_streams.application import Application, ApplicationError, load
from broker_streams.hosts import clients
from broker_streams.hosts.clients import BOOTSTRAP
from broker_streams.hosts.settings import HostSettings
from broker_streams.offline.history import Archive

PROGRAM: Final = "broker-streams"
Command = TypeVar("Command", bound=Callable[..., Any])
# The key of the settings of --config in the context of a command.
_SETTINGS: Final = "broker_streams.settings"
# The default of --first.
FIRST: Final = 20

application_argument = click.argument("file", metavar="APP.py", type=click.Path(path_type=Path))


def settings_option(command: Command) -> Command:
    """Add -X and --config: the parameter `changed` gets the settings of both, as texts NAME=VALUE. -X comes last."""
    command = click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_read_settings,
        help="A .properties file with settings in place of those in APP.py, such as the login of the cluster.",
    )(command)
    return click.option(
        "-X",
        "changed",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_with_settings,
        help="A setting in place of the one in APP.py; repeatable.",
    )(command)


def _read_settings(context: click.Context, parameter: click.Parameter, given: Path | None) -> None:
    if given is None:
        return
    try:
        context.meta[_SETTINGS] = tuple(f"{name}={value}" for name, value in read_properties_file(given).items())
    except ConfigError as error:
        raise click.UsageError(str(error), context) from error


def _with_settings(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return (*context.meta.get(_SETTINGS, ()), *given)


bootstrap_option = click.option(
    "--bootstrap",
    "--bootstrap-server",
    "-b",
    metavar="HOST:PORT",
    envvar="BROKER_CY_BOOTSTRAP",
    help=f"Brokers of the cluster.  [default: {BOOTSTRAP} of the file]",
)


def first_option(noun: str) -> Callable[[Command], Command]:
    """Add --first: how many of `noun` are shown of each topic."""
    return click.option(
        "--first",
        type=click.IntRange(0),
        default=FIRST,
        show_default=True,
        metavar="N",
        help=f"{noun} to show of a topic.",
    )


def history_options(command: Command) -> Command:
    """Add --segments, --lake and --accept-gaps: the parameters of `archive_of`."""
    command = click.option(
        "--accept-gaps", is_flag=True, help="Offsets that the lake lacks were markers, aborted or compacted."
    )(command)
    command = click.option(
        "--lake",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Read what the topics no longer have from Parquet files, with the columns of Spark's Kafka source.",
    )(command)
    return click.option(
        "--segments",
        multiple=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Read the input from the segment files of this log directory of a broker, or a copy; repeatable.",
    )(command)


def archive_of(segments: tuple[Path, ...], lake: Path | None, *, accept_gaps: bool) -> Archive | None:
    """The archive of `history_options`. Raises ClientError: they do not go together."""
    if segments and lake is not None:
        raise ClientError(Failure.INVALID, "--segments and --lake: one of them is possible")
    if accept_gaps and lake is None:
        raise ClientError(Failure.INVALID, "--accept-gaps is for --lake")
    if segments:
        from broker_streams.offline.segments import SegmentArchive

        return SegmentArchive(segments)
    if lake is not None:
        from broker_streams.offline.lake import LakeArchive

        return LakeArchive(lake, accepts_gaps=accept_gaps)
    return None


def isolation_of(settings: HostSettings) -> Isolation:
    return Isolation.READ_COMMITTED if settings.is_exactly_once else Isolation.READ_UNCOMMITTED


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")


def changes(given: tuple[str, ...], bootstrap: str | None = None) -> dict[str, str]:
    """The settings of -X and of --bootstrap. Raises ApplicationError: an option that is not NAME=VALUE."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ApplicationError(f"-X {each}: NAME=VALUE is expected")
        found[name.strip()] = value.strip()
    return found | ({BOOTSTRAP: bootstrap} if bootstrap else {})


def client_of(application: Application, client_id: str) -> AdminClient:
    """A client of the application's cluster, with its login. Raises ValueError, ClientError."""
    return clients.client_of(application.config, client_id, str(application.path))


def application_of(name: str, cluster: Mapping[str, Any]) -> Application | None:
    """The application of a file, or None if `name` is an application id. `cluster`: the options of options.OF_CLUSTER,
    whose -X are settings of the application. Raises ApplicationError.
    """
    if not name.endswith(".py"):
        return None
    return load(Path(name), changes(cluster["client_settings"], cluster["bootstrap"]))


def client_for(application: Application | None, cluster: Mapping[str, Any], client_id: str) -> AdminClient:
    """A client of the cluster of the options, or of the application. Raises ApplicationError, ClientError."""
    if application is not None and cluster["cluster"] is None and cluster["command_config"] is None:
        return client_of(application, client_id)
    given = dict(cluster)
    if application is not None:
        given["client_settings"] = [each for each in cluster["client_settings"] if each.startswith(PREFIXES)]
    entry = select(options.wanted(given))
    return AdminClient(
        entry.bootstrap, timeout_s=entry.timeout_s, client_id=client_id, login=entry.login, tls=entry.tls
    )


@contextlib.contextmanager
def errors(context: click.Context, *, as_json: bool) -> Iterator[None]:
    """End the command with a message, and the exit code of the error."""
    from broker_streams.kernel.errors import StreamsError

    try:
        yield
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))
    except StreamsError as error:
        cause = f": {error.__cause__}" if error.__cause__ and str(error.__cause__) not in str(error) else ""
        context.exit(end(PROGRAM, ClientError(Failure.REFUSED, f"{error}{cause}"), as_json=as_json))
    except ValueError as error:
        context.exit(end(PROGRAM, ClientError(Failure.INVALID, str(error)), as_json=as_json))
