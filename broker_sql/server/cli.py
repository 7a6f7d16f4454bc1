"""The command `broker-sql server`."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from broker_cy.admin import AdminClient
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry, select
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end
from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.addresses import host_name
from broker_cy.http.http2 import ALPN, SwitchingProtocol
from broker_cy.http.listeners import Listener, parse_listener
from broker_cy.http.server import Listening, Sockets, bind, serve
from broker_cy.http.tls import ReloadingContext, ServerSettings
from broker_cy.security.tls.stores import StoreError, StoreSettings
from broker_sql.server.api.app import MESSAGE_BYTES_MAX, App
from broker_sql.server.config import PORT, ServerConfig, load_config
from broker_sql.server.security import Guard
from broker_sql.server.service import Service
from broker_streams import settings as streams_settings
from broker_streams.registry.opening import open_registry

PROGRAM: Final = "broker-sql"
TIMEOUT_S: Final = 30.0
EPILOG: Final = """\b
examples:
  broker-sql server                                  the cluster at 127.0.0.1:9092, REST on 127.0.0.1:8088
  broker-sql server --bootstrap broker-1:9092 --listen 0.0.0.0:8088
  broker-sql server ksql-server.properties           the settings of ksqlDB
"""


@click.command("server", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.click_options()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; https://HOST:PORT with a key store in FILE.  [default: 127.0.0.1:8088]",
)
@click.option("--service-id", metavar="ID", help="Servers with one id share statements.  [default: default_]")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="The state of queries.  [default: ksql.streams.state.dir]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the addresses and errors as JSON.")
@click.pass_context
def command(
    context: click.Context,
    /,
    file: Path | None,
    listen: str | None,
    service_id: str | None,
    state_dir: Path | None,
    as_json: bool,
    **of_cluster: Any,
) -> None:
    """A server of SQL on streams with the REST API of ksqlDB, over topics in a Kafka cluster.

    FILE has settings by their names in ksql-server.properties; options replace them.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    try:
        config = _chosen(load_config(file, {} if service_id is None else {"ksql.service.id": service_id}), listen)
        entry = _entry(config, file, of_cluster)
        security = entry.security
        for warning in config.warnings:
            print(f"{PROGRAM}: {warning}", file=sys.stderr)
        with contextlib.ExitStack() as stack:
            guard = Guard(config.login, now_s=time.monotonic, wall_s=time.time)
            listening = _bound(config, stack)
            urls = _urls(config.listeners, listening)

            def connect() -> AdminClient:
                return AdminClient(
                    entry.bootstrap,
                    timeout_s=TIMEOUT_S,
                    client_id=f"{PROGRAM}-{config.service_id}",
                    login=security.login,
                    tls=security.tls,
                )

            service = Service(
                config,
                connect,
                bootstrap=_bootstrap_text(entry),
                security={**config.client_settings, **entry.secured},
                host=_host(config, urls[0]),
                registry=_registry(config),
                state_dir=state_dir,
            )
            app = App(service, guard)
            ready = json.dumps({"urls": urls}) if as_json else f"listening on {' and '.join(urls)}"
            serve(
                app,
                listening,
                ready,
                Sockets(WebSocketsSansIOProtocol, MESSAGE_BYTES_MAX),
                connections=SwitchingProtocol,
                failure=lambda: app.failure,
            )
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))


def _chosen(config: ServerConfig, listen: str | None) -> ServerConfig:
    """Return the settings with those of options. Raises ClientError."""
    if listen is None:
        return config
    try:
        return replace(config, listeners=(parse_listener(listen, port=PORT),))
    except ConfigError as error:
        raise ClientError(Failure.INVALID, str(error), what="--listen") from None


def _entry(config: ServerConfig, file: Path | None, of_cluster: dict[str, Any]) -> ClusterEntry:
    """Return the cluster: that of the options, else that of the file; and so its security. Raises ClientError."""
    if config.bootstrap and not of_cluster.get("bootstrap") and not of_cluster.get("cluster"):
        of_cluster = {**of_cluster, "bootstrap": config.bootstrap}
    entry = select(options.wanted(of_cluster))
    if entry.command_config is not None or not config.client_settings:
        return entry
    return replace(entry, secured={**entry.secured, **config.client_settings}, where=f"{file}")


def _bootstrap_text(entry: ClusterEntry) -> str:
    return ",".join(map(str, entry.bootstrap))


def _registry(config: ServerConfig) -> Any:
    """Return the client of the schema registry; None without one. Raises ClientError."""
    if not config.registry:
        return None
    try:
        return open_registry(streams_settings.read(config.registry))
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what="ksql.schema.registry.*") from None


def _host(config: ServerConfig, url: str) -> tuple[str, int]:
    """Return the name and port by which other servers reach this one. Raises ClientError."""
    advertised = config.values["ksql.advertised.listener"]
    found = urlsplit(advertised or url)
    if not found.hostname:
        raise ClientError(Failure.INVALID, f"{advertised!r} is no URL", what="ksql.advertised.listener")
    return found.hostname, found.port or PORT


def _bound(config: ServerConfig, stack: contextlib.ExitStack) -> list[Listening]:
    """Return the sockets of the listeners, which `stack` closes. Raises ClientError."""
    tls = None
    if any(each.is_tls for each in config.listeners):
        settings = (config.tls or ServerSettings(StoreSettings()))._replace(alpn=ALPN)
        try:
            tls = ReloadingContext.of_settings(settings)
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
