"""The settings of a server: those of ksqlDB's `ksql-server.properties`, read as they are.

settings.tsv has the settings with an effect, and those that are refused. Settings of queries begin with `ksql.streams.`
and have the names of Kafka Streams behind it; those of the registry begin with `ksql.schema.registry.`. Settings of
security without a prefix are those of the connection to the brokers, as in ksqlDB. All others have no effect here, and
are named in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.security import NAMES as SECURITY_NAMES
from broker_cy.client.security import PREFIXES as SECURITY_PREFIXES
from broker_cy.core.config_def.definitions import Definition, read_rows
from broker_cy.core.config_def.types import ConfigError, Password
from broker_cy.core.properties import read_properties_file
from broker_cy.http.listeners import Listener, parse_listener, tls_of
from broker_cy.http.tls import ServerSettings
from broker_sql.analysis.settings import PYTHON_FUNCTIONS

PORT: Final = 8_088
KSQL: Final = "ksql."
STREAMS: Final = "ksql.streams."
REGISTRY: Final = "ksql.schema.registry."
REGISTRY_URL: Final = "schema.registry.url"
BASIC: Final = "BASIC"
USERS_FILE: Final = "brokercy.sql.users.file"
HOST: Final = "brokercy.sql.host"
SPARK: Final = "spark"
SPARK_MASTER: Final = "brokercy.sql.spark.master"
METHOD: Final = "authentication.method"
_OFFSET_RESET: Final = "auto.offset.reset"
_BOOTSTRAP: Final = "bootstrap.servers"
_FIPS: Final = "enable.fips"
_REFUSED: Final = "refused"
# Settings that begin like this and are not known protect something: they are refused, and not ignored.
_PROTECTING: Final = ("authentication.", "brokercy.sql.", "oauth")
# Settings that requests may not change, besides those of the denylist: they belong to the whole server.
_OF_SERVER: Final = frozenset(
    {"ksql.service.id", "ksql.persistent.prefix", "ksql.output.topic.name.prefix", PYTHON_FUNCTIONS}
)
_TABLE: Final = Path(__file__).with_name("settings.tsv")


@dataclass(frozen=True, slots=True)
class Login:
    """How clients log in: with a user of `users_file`, who has one of `roles` (empty: any). None in `users_file`: no
    login is needed. `skip_paths` need none.
    """

    users_file: str | None = None
    realm: str = "ksqlDB"
    roles: frozenset[str] = frozenset()
    skip_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """See settings.tsv. `values` are the typed values by their names. `streams` are settings of queries without the
    prefix; `client_settings` are those of the connection by the names of Kafka's clients, and may be secrets;
    `registry` are those of the schema registry by the names of Confluent's serdes. `warnings` name settings without an
    effect.
    """

    values: Mapping[str, Any]
    listeners: tuple[Listener, ...]
    tls: ServerSettings | None
    login: Login
    bootstrap: str
    client_settings: Mapping[str, str]
    streams: Mapping[str, str]
    registry: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def service_id(self) -> str:
        return str(self.values["ksql.service.id"])

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service_id}_command_topic"

    @property
    def query_prefix(self) -> str:
        """Begins the application ids of persistent queries; the id of the query follows."""
        return f"_confluent-ksql-{self.service_id}{self.values['ksql.persistent.prefix']}"

    def problem_of(self, names: Mapping[str, Any]) -> str:
        """Return why a request may not change these settings; empty if it may."""
        denied = set(self.values["ksql.properties.overrides.denylist"]) | _OF_SERVER
        found = sorted(name for name in names if name in denied or f"{STREAMS}{name}" in denied)
        if not found:
            return ""
        return (
            "One or more properties overrides set locally are prohibited by the KSQL server (use UNSET to reset their"
            f" default value): [{', '.join(found)}]"
        )

    def is_hidden(self, topic: str) -> bool:
        return _fits(topic, self.values["ksql.hidden.topics"])

    def is_readonly(self, topic: str) -> bool:
        return _fits(topic, self.values["ksql.readonly.topics"])


def _fits(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(each, topic) is not None for each in patterns)


@cache
def definitions() -> dict[str, tuple[Definition, str]]:
    """Return each setting of the table, and whether it is effective or refused."""
    rows = read_rows(_TABLE)
    return {row["name"]: (Definition.from_row(row), row["support"]) for row in rows}


def load_config(path: Path | None, changed: Mapping[str, str] | None = None) -> ServerConfig:
    """Return the settings of a file, with `changed`; the defaults without one. Raises ClientError, which names file and
    setting.
    """
    try:
        given = {} if path is None else read_properties_file(path)
        return config_of({**given, **(changed or {})}, "" if path is None else str(path))
    except ConfigError as error:
        what = "the settings" if path is None else str(path)
        raise ClientError(Failure.INVALID, str(error).removeprefix(f"{path}: "), what=what) from None


def config_of(given: Mapping[str, str], where: str = "") -> ServerConfig:
    """Return the settings of texts by name. Raises ConfigError."""
    values: dict[str, Any] = {}
    connection: dict[str, str] = {}
    streams: dict[str, str] = {}
    registry: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in given.items():
        is_known = name in definitions()
        if is_known:
            definition, support = definitions()[name]
            if support == _REFUSED:
                raise ConfigError(f"{name} {definition.documentation}")
            values[name] = definition.parse(text)
        inner = name.removeprefix(STREAMS)
        if inner in SECURITY_NAMES:
            # With the prefix, it is for the connection only, and goes before the one without.
            if name != inner or f"{STREAMS}{inner}" not in given:
                connection[inner] = text
        elif is_known:
            if name == "ksql.schema.registry.url":
                registry[REGISTRY_URL] = text
        elif name.startswith(STREAMS):
            streams[inner] = text
        elif name.startswith(REGISTRY):
            registry[_of_registry(name.removeprefix(REGISTRY))] = text
        elif name.startswith((*SECURITY_PREFIXES, *_PROTECTING)):
            raise ConfigError(f"{name} protects connections or logins in a way that is not known here")
        elif name == _OFFSET_RESET:
            streams.setdefault(name, text)
        else:
            warnings.append(f"{where}: {name} has no effect" if where else f"{name} has no effect")
    found = {name: values.get(name, definition.default) for name, (definition, _) in definitions().items()}
    if found[_FIPS]:
        raise ConfigError(f"{_FIPS}=true: the cryptography of this server is not validated by FIPS 140; remove it")
    _check_patterns(found)
    servers = streams.pop(_BOOTSTRAP, None) or ",".join(found[_BOOTSTRAP] or ())
    return ServerConfig(
        values=found,
        listeners=tuple(parse_listener(text, port=PORT) for text in found["listeners"]),
        tls=tls_of(found) if _has_key(values) else None,
        login=_login(found),
        bootstrap=servers,
        client_settings=connection if "security.protocol" in connection else {},
        streams=streams,
        registry=registry,
        warnings=tuple(warnings),
    )


def _has_key(values: Mapping[str, Any]) -> bool:
    """Whether ssl.* has a key for listeners; otherwise it is about the connection to the brokers only."""
    key: Password | None = values.get("ssl.keystore.key")
    return "ssl.keystore.location" in values or key is not None or "ssl.client.authentication" in values


def _of_registry(inner: str) -> str:
    """Return the name that Confluent's serdes have for a setting of the registry."""
    return inner if inner.startswith(("basic.auth.", "bearer.auth.")) else f"schema.registry.{inner}"


def _check_patterns(found: Mapping[str, Any]) -> None:
    for name in ("ksql.hidden.topics", "ksql.readonly.topics"):
        for each in found[name]:
            try:
                re.compile(each)
            except re.error as error:
                raise ConfigError(f"{name} has {each!r}, which is no regular expression: {error}") from None


def _login(found: Mapping[str, Any]) -> Login:
    if found[METHOD].upper() != BASIC:
        if found[USERS_FILE] is not None:
            raise ConfigError(f"{USERS_FILE} has no effect without {METHOD}={BASIC}")
        return Login()
    if found[USERS_FILE] is None:
        raise ConfigError(f"{METHOD}={BASIC} needs {USERS_FILE}, a file with lines such as alice: secret,admin")
    roles = frozenset(found["authentication.roles"])
    skipped = tuple(found["authentication.skip.paths"])
    return Login(
        found[USERS_FILE], found["authentication.realm"], frozenset() if {"*", "**"} & roles else roles, skipped
    )


def streams_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a query among those of a request, without their prefix."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name.startswith(STREAMS):
            found[name.removeprefix(STREAMS)] = value
        elif not name.startswith(KSQL):
            found.setdefault(name, value)
    return found
