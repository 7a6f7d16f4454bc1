"""The command `broker-registry`."""

from __future__ import annotations

import contextlib
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from broker_cy import __version__
from broker_cy.admin import AdminClient
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry, select
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end
from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.server import bind, serve
from broker_registry.api.app import App
from broker_registry.api.protocol import QuickProtocol
from broker_registry.api.quick import Requests
from broker_registry.config import RegistryConfig, load_config, parse_listener
from broker_registry.service import Service, ServiceSettings

PROGRAM = "broker-registry"
EPILOG = """\b
examples:
  broker-registry                                        the cluster at 127.0.0.1:9092
  broker-registry --bootstrap broker-1:9092 --listen 0.0.0.0:8081
  broker-registry schema-registry.properties             the settings of Confluent's registry
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.click_options()
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on.  [default: 127.0.0.1:8081]")
@click.option("--topic", metavar="NAME", help="The topic with the schemas.  [default: _schemas]")
@click.option("--json", "as_json", is_flag=True, help="Print errors as JSON.")
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
@click.pass_context
def command(
    context: click.Context,
    /,
    file: Path | None,
    listen: str | None,
    topic: str | None,
    as_json: bool,
    **of_cluster: Any,
) -> None:
    """A schema registry with the REST API of Confluent's, over a topic in a Kafka cluster.

    FILE has settings by their names in schema-registry.properties; options replace them.
    """
    try:
        config = _chosen(load_config(file), listen, topic)
        entry = _entry(config, of_cluster)
        # Before anything is opened: files of a login may be missing.
        security = entry.security
        for warning in config.warnings:
            print(f"{PROGRAM}: {warning}", file=sys.stderr)
        host, port = config.listeners[0]
        with contextlib.closing(bind(host, port)) as bound:

            def connect() -> AdminClient:
                return AdminClient(
                    entry.bootstrap,
                    timeout_s=entry.timeout_s,
                    client_id=PROGRAM,
                    login=security.login,
                    tls=security.tls,
                )

            settings = ServiceSettings(
                config.topic,
                config.replication,
                config.timeout_s,
                config.group,
                config.schemas_default,
                config.schemas_max,
                config.defaults,
                None if config.election is None else config.election.at(_reached(host), bound.getsockname()[1]),
            )
            app = App(Service(connect, settings))
            ready = f"listening on http://{host}:{bound.getsockname()[1]}"
            serve(app, bound, ready, connections=partial(QuickProtocol, quick=app.quick, requests=Requests()))
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))


def _reached(host: str) -> str:
    """Return the name by which others reach an instance that listens on `host`."""
    return socket.getfqdn() if host in ("0.0.0.0", "::") else host


def _chosen(config: RegistryConfig, listen: str | None, topic: str | None) -> RegistryConfig:
    """Return the settings with those of options. Raises ClientError."""
    if listen is not None:
        try:
            config = replace(config, listeners=(parse_listener(listen),))
        except ConfigError as error:
            raise ClientError(Failure.INVALID, str(error), what="--listen") from None
    if len(config.listeners) > 1:
        text = f"{len(config.listeners)} listeners are not served by one process: start one process for each"
        raise ClientError(Failure.INVALID, text, what="listeners")
    return config if topic is None else replace(config, topic=topic)


def _entry(config: RegistryConfig, of_cluster: dict[str, Any]) -> ClusterEntry:
    """Return the cluster: that of the options, else that of the file. Raises ClientError."""
    if config.bootstrap and not of_cluster.get("bootstrap") and not of_cluster.get("cluster"):
        of_cluster = {**of_cluster, "bootstrap": config.bootstrap}
    entry = select(options.wanted(of_cluster))
    return replace(entry, overrides={**config.client_settings, **entry.overrides})


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)
