"""The command `broker-streams`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.client import options
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end, version_text
from broker_cy.client.security import PREFIXES, security_of
from broker_streams.application import Application, ApplicationError, load

PROGRAM: Final = "broker-streams"
BOOTSTRAP: Final = "bootstrap.servers"
EPILOG = """\b
examples:
  broker-streams run app.py                 run the application in this process
  broker-streams run app.py -X commit.interval.ms=20
  broker-streams describe app.py            its topology, as Kafka Streams describes it
"""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=version_text(PROGRAM), version="")
def command() -> None:
    """Run applications of the Streams API in Python."""


_APPLICATION = click.argument("file", metavar="APP.py", type=click.Path(path_type=Path))
_SETTINGS = click.option(
    "-X", "changed", multiple=True, metavar="NAME=VALUE", help="A setting in place of the one in the file; repeatable."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")


@command.command()
@_APPLICATION
@_SETTINGS
@click.option(
    "--bootstrap",
    "--bootstrap-server",
    "-b",
    metavar="HOST:PORT",
    envvar="BROKER_CY_BOOTSTRAP",
    help=f"Brokers of the cluster.  [default: {BOOTSTRAP} of the file]",
)
@_JSON
@click.pass_context
def run(context: click.Context, /, file: Path, changed: tuple[str, ...], bootstrap: str | None, as_json: bool) -> None:
    """Run the application APP.py in this process until SIGTERM or Ctrl-C.

    Several processes with the same application.id divide its tasks among them. All results are written exactly once,
    unless processing.guarantee is at_least_once.
    """
    with _errors(context, as_json=as_json):
        application = load(file, _changes(changed) | ({BOOTSTRAP: bootstrap} if bootstrap else {}))
        logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)
        # Imported before the loop runs: it must not wait for imports while the process is a member of the group.
        import uvloop

        from broker_streams.hosts.embedded import host as _host

        assert _host is not None
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(application, as_json=as_json))


async def _run(application: Application, *, as_json: bool) -> None:
    from broker_cy.admin import AdminClient
    from broker_streams.hosts.embedded.host import EmbeddedHost
    from broker_streams.hosts.settings import HostSettings

    config = application.config
    settings = HostSettings.of(config)
    security = security_of(_security(config), str(application.path))
    servers = config.get(BOOTSTRAP)
    if not servers:
        raise ApplicationError(f"{application.path}: {BOOTSTRAP} is missing")
    named = servers if isinstance(servers, str) else ",".join(servers)
    client = AdminClient(named, client_id=settings.application_id, login=security.login, tls=security.tls)
    async with client:
        host = EmbeddedHost(client, application.topology, settings)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, host.stop)
        ready = {"application": settings.application_id, "host": "embedded", "guarantee": settings.guarantee}
        shown = json.dumps(ready) if as_json else f"{PROGRAM}: runs {settings.application_id} ({settings.guarantee})"
        print(shown, flush=True)
        await host.run()


def _changes(given: tuple[str, ...]) -> dict[str, str]:
    """Raises ApplicationError: an option that is no NAME=VALUE."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ApplicationError(f"-X {each}: NAME=VALUE is expected")
        found[name.strip()] = value.strip()
    return found


def _security(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings of connections, as texts."""
    return {name: str(value) for name, value in config.items() if name.startswith(PREFIXES) and value is not None}


@command.command()
@_APPLICATION
@_SETTINGS
@_JSON
@click.pass_context
def describe(context: click.Context, /, file: Path, changed: tuple[str, ...], as_json: bool) -> None:
    """Print the topology of APP.py: Kafka Streams' text, or the whole plan as JSON."""
    with _errors(context, as_json=as_json):
        from broker_streams.plan import codec
        from broker_streams.plan import describe as text

        topology = load(file, _changes(changed)).topology
        print(codec.to_json(topology) if as_json else text.describe(topology), end="\n" if as_json else "")


@contextlib.contextmanager
def _errors(context: click.Context, *, as_json: bool) -> Iterator[None]:
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


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)
