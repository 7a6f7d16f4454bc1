"""Shared parts of the commands: their arguments, settings, clients and errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end
from broker_cy.client.security import PREFIXES, security_of
from broker_streams.application import Application, ApplicationError

PROGRAM: Final = "broker-streams"
BOOTSTRAP: Final = "bootstrap.servers"

application_argument = click.argument("file", metavar="APP.py", type=click.Path(path_type=Path))
settings_option = click.option(
    "-X", "changed", multiple=True, metavar="NAME=VALUE", help="A setting in place of the one in the file; repeatable."
)
bootstrap_option = click.option(
    "--bootstrap",
    "--bootstrap-server",
    "-b",
    metavar="HOST:PORT",
    envvar="BROKER_CY_BOOTSTRAP",
    help=f"Brokers of the cluster.  [default: {BOOTSTRAP} of the file]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")


def changes(given: tuple[str, ...], bootstrap: str | None = None) -> dict[str, str]:
    """The settings of -X and of --bootstrap. Raises ApplicationError: an option that is no NAME=VALUE."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ApplicationError(f"-X {each}: NAME=VALUE is expected")
        found[name.strip()] = value.strip()
    return found | ({BOOTSTRAP: bootstrap} if bootstrap else {})


def client_of(application: Application, client_id: str) -> AdminClient:
    """A client of the application's cluster, with its login. Raises ApplicationError, ClientError."""
    config = application.config
    security = security_of(_security(config), str(application.path))
    servers = config.get(BOOTSTRAP)
    if not servers:
        raise ApplicationError(f"{application.path}: {BOOTSTRAP} is missing")
    named = servers if isinstance(servers, str) else ",".join(servers)
    return AdminClient(named, client_id=client_id, login=security.login, tls=security.tls)


def _security(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings of connections, as texts."""
    return {name: str(value) for name, value in config.items() if name.startswith(PREFIXES) and value is not None}


@contextlib.contextmanager
def errors(context: click.Context, *, as_json: bool) -> Iterator[None]:
    """End the command with a message, and the exit code of the error."""
    from broker_streams.kernel.errors import StreamsError

    try:
        yield
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))
    except StreamsError as error:
        cause = f": {error.__cause__}" if error.__cause__ is not None else ""
        context.exit(end(PROGRAM, ClientError(Failure.REFUSED, f"{error}{cause}"), as_json=as_json))
    except ValueError as error:
        context.exit(end(PROGRAM, ClientError(Failure.INVALID, str(error)), as_json=as_json))
