"""The command `broker-registry`."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import time
from collections.abc import Sequence
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
from broker_cy.client.login import ClientLogin
from broker_cy.client.program import end
from broker_cy.client.tls import context_of, read_file
from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.addresses import host_name
from broker_cy.http.listeners import Listener, parse_listener
from broker_cy.http.server import Listening, bind, serve
from broker_cy.http.tls import ReloadingContext, ServerSettings
from broker_cy.security.tls.stores import ClientSettings, StoreError, StoreSettings, files_of
from broker_registry.api.app import App
from broker_registry.api.protocol import QuickProtocol
from broker_registry.api.quick import Requests
from broker_registry.config import KAFKASTORE, PORT, RegistryConfig, cautions, load_config
from broker_registry.leadership import HTTPS, ElectionSettings
from broker_registry.security.guard import Guard
from broker_registry.security.settings import USERS_MECHANISM
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
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; https://HOST:PORT with a key store in FILE.  [default: 127.0.0.1:8081]",
)
@click.option("--topic", metavar="NAME", help="The topic with the schemas.  [default: _schemas]")
@click.option("--json", "as_json", is_flag=True, help="Print the addresses and errors as JSON.")
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
        entry = _entry(config, file, of_cluster)
        # Before anything is opened: files of a login may be missing.
        security = entry.security
        if config.security.users_mechanism is not None and security.login is None:
            reason = "the users of the cluster log in with SASL: set kafkastore.security.protocol=SASL_SSL"
            raise ClientError(Failure.INVALID, reason, what=USERS_MECHANISM)
        for warning in (*config.warnings, *cautions(config)):
            print(f"{PROGRAM}: {warning}", file=sys.stderr)

        def connect(login: ClientLogin | None = None) -> AdminClient:
            return AdminClient(
                entry.bootstrap,
                timeout_s=entry.timeout_s,
                client_id=PROGRAM,
                login=login or security.login,
                tls=security.tls,
            )

        with contextlib.ExitStack() as stack:
            guard = Guard(config.security, connect, now_s=time.monotonic, wall_s=time.time)
            listening = _bound(config, stack)
            settings = ServiceSettings(
                config.topic,
                config.replication,
                config.timeout_s,
                config.group,
                config.schemas_default,
                config.schemas_max,
                config.defaults,
                None if config.election is None else _election(config.election, config, listening),
                _election_tls(config),
            )
            app = App(Service(connect, settings), guard)
            connections = partial(QuickProtocol, quick=app.quick, requests=Requests())
            urls = _urls(config.listeners, listening)
            ready = json.dumps({"urls": urls}) if as_json else f"listening on {' and '.join(urls)}"
            serve(app, listening, ready, connections=connections, failure=lambda: app.failure)
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))


def _election(election: ElectionSettings, config: RegistryConfig, listening: Sequence[Listening]) -> ElectionSettings:
    """Return the settings of this instance, which the others reach at its first listener with their protocol. Raises
    ClientError.
    """
    pairs = zip(config.listeners, listening, strict=True)
    for listener, (bound, _) in pairs:
        if listener.is_tls == (election.own.scheme == HTTPS):
            return election.at(_reached(listener.host), bound.getsockname()[1])
    reason = f"the instances reach each other by {election.own.scheme}, and this one has no such listener"
    raise ClientError(Failure.INVALID, reason, what="inter.instance.protocol")


def _election_tls(config: RegistryConfig) -> ssl.SSLContext | None:
    """Return the TLS of requests to other instances: as in Confluent's, the stores are those of the listeners. They are
    read again as those are. Raises ClientError.
    """
    if config.election is None or config.election.own.scheme != HTTPS or config.tls is None:
        return None
    stores = config.tls.stores
    try:
        return ReloadingContext.of(lambda: context_of(ClientSettings(stores), read_file), files_of(stores))
    except StoreError as error:
        raise ClientError(Failure.INVALID, str(error), what="inter.instance.protocol") from None


def _reached(host: str) -> str:
    """Return the name by which others reach an instance that listens on `host`."""
    return socket.getfqdn() if host in ("0.0.0.0", "::") else host


def _chosen(config: RegistryConfig, listen: str | None, topic: str | None) -> RegistryConfig:
    """Return the settings with those of options. Raises ClientError."""
    if listen is not None:
        try:
            config = replace(config, listeners=(parse_listener(listen, {}, port=PORT),))
        except ConfigError as error:
            raise ClientError(Failure.INVALID, str(error), what="--listen") from None
    return config if topic is None else replace(config, topic=topic)


def _bound(config: RegistryConfig, stack: contextlib.ExitStack) -> list[Listening]:
    """Return the sockets of the listeners, which `stack` closes. Raises ClientError."""
    tls = None
    if any(each.is_tls for each in config.listeners):
        try:
            tls = ReloadingContext.of_settings(config.tls or ServerSettings(StoreSettings()))
        except StoreError as error:
            raise ClientError(Failure.INVALID, str(error), what="listeners") from None
    return [
        Listening(stack.enter_context(contextlib.closing(bind(host, port))), tls if is_tls else None)
        for host, port, is_tls in config.listeners
    ]


def _urls(listeners: Sequence[Listener], listening: Sequence[Listening]) -> list[str]:
    return [
        f"{'http' if tls is None else 'https'}://{host_name(listener.host)}:{bound.getsockname()[1]}"
        for listener, (bound, tls) in zip(listeners, listening, strict=True)
    ]


def _entry(config: RegistryConfig, file: Path | None, of_cluster: dict[str, Any]) -> ClusterEntry:
    """Return the cluster: that of the options, else that of the file; and so its security. Raises ClientError."""
    if config.bootstrap and not of_cluster.get("bootstrap") and not of_cluster.get("cluster"):
        of_cluster = {**of_cluster, "bootstrap": config.bootstrap}
    entry = select(options.wanted(of_cluster))
    if entry.command_config is not None or not config.client_settings:
        return entry
    return replace(entry, secured={**entry.secured, **config.client_settings}, where=f"{file}: {KAFKASTORE}*")


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)
