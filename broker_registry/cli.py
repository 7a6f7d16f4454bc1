"""The command `broker-registry`."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from broker_cy import __version__
from broker_cy.admin import AdminClient
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry, select
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_INTERRUPTED, end
from broker_cy.http.server import bind, serve
from broker_registry.api.app import App
from broker_registry.service import TOPIC, Service, ServiceSettings

PROGRAM = "broker-registry"
LISTEN = "127.0.0.1:8081"
EPILOG = """\b
examples:
  broker-registry                                        the cluster at 127.0.0.1:9092
  broker-registry --bootstrap broker-1:9092 --listen 0.0.0.0:8081
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@options.click_options()
@click.option("--listen", metavar="HOST:PORT", default=LISTEN, show_default=True, help="Address to listen on.")
@click.option("--topic", metavar="NAME", default=TOPIC, show_default=True, help="The topic with the schemas.")
@click.option("--json", "as_json", is_flag=True, help="Print errors as JSON.")
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
@click.pass_context
def command(context: click.Context, /, listen: str, topic: str, as_json: bool, **of_cluster: Any) -> None:
    """A schema registry with the REST API of Confluent's, over a topic in a Kafka cluster."""
    try:
        entry = select(options.wanted(of_cluster))
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal():
            raise ClientError(Failure.INVALID, f"{listen!r} is no HOST:PORT, such as {LISTEN}", what="--listen")
        with contextlib.closing(bind(host.strip("[]"), int(port))) as bound:
            service = Service(lambda: _connect(entry), ServiceSettings(topic=topic))
            serve(App(service), bound, f"listening on http://{host}:{bound.getsockname()[1]}")
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))


def _connect(entry: ClusterEntry) -> AdminClient:
    return AdminClient(entry.bootstrap, timeout_s=entry.timeout_s, client_id=PROGRAM, login=entry.login, tls=entry.tls)


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        return int(command.main(prog_name=PROGRAM, standalone_mode=False) or 0)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        return options.click_error(PROGRAM, error, sys.argv[1:])
