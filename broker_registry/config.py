"""The settings of a registry: those of Confluent's `schema-registry.properties`, read as they are.

configs.tsv has the settings with an effect, and those that are refused because security or the meaning of the data
depends on them. Settings of the connection begin with `kafkastore.` and have the names of Kafka's clients behind it.
All others have no effect here, and are named in a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.security import NAMES as SECURITY_NAMES
from broker_cy.client.security import PREFIXES, PROTOCOL, WITH_SASL, WITH_TLS
from broker_cy.core.config_def.definitions import Definition, read_rows
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file
from broker_cy.http.addresses import is_loopback
from broker_cy.http.listeners import PROTOCOL_MAP, Listener, parse_listener, tls_of
from broker_cy.http.listeners import PROTOCOLS as LISTENER_PROTOCOLS
from broker_cy.http.tls import ServerSettings
from broker_registry.leadership import ElectionSettings, Identity
from broker_registry.security.settings import AUTHORIZER, IDLE, Method, SecuritySettings, security_of
from broker_registry.security.settings import PREFIXES as PROTECTING
from broker_registry.store.state import Defaults

ELECTION: Final = "brokercy.leader.election"
_OF_ELECTIONS: Final = (
    "leader.eligibility",
    "master.eligibility",
    "leader.election.sticky",
    "leader.read.timeout.ms",
    "host.name",
    "host.port",
    "inter.instance.protocol",
    "schema.registry.inter.instance.protocol",
    "kafkagroup.session.timeout.ms",
    "kafkagroup.heartbeat.interval.ms",
    "kafkagroup.rebalance.timeout.ms",
)
KAFKASTORE: Final = "kafkastore."
# An example in errors.
PORT: Final = 8_081
_REFUSED: Final = "refused"
_FIPS: Final = "enable.fips"
_PROTOCOLS: Final = ("PLAINTEXT", *WITH_TLS, *WITH_SASL)
_TABLE: Final = Path(__file__).with_name("configs.tsv")


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """See configs.tsv. `bootstrap` is empty if the file names no brokers; `client_settings` are those of the connection
    by the names of Kafka's clients, and may be secrets. `tls` is what the listeners with https offer; None if the file
    has no key store. `warnings` name settings without an effect.
    """

    listeners: tuple[Listener, ...]
    tls: ServerSettings | None
    security: SecuritySettings
    bootstrap: str
    client_settings: Mapping[str, str]
    topic: str
    replication: int
    timeout_s: float
    group: str
    schemas_default: int
    schemas_max: int
    defaults: Defaults
    election: ElectionSettings | None = None
    warnings: tuple[str, ...] = ()


@cache
def _definitions() -> dict[str, tuple[Definition, str]]:
    rows = read_rows(_TABLE)
    return {row["name"]: (Definition.from_row(row), row["support"]) for row in rows}


def load_config(path: Path | None) -> RegistryConfig:
    """Return the settings of a file; the defaults without one. Raises ClientError, which names file and setting."""
    if path is None:
        return _config({}, "")
    try:
        return _config(read_properties_file(path), str(path))
    except ConfigError as error:
        text = str(error).removeprefix(f"{path}: ")
        raise ClientError(Failure.INVALID, text, what=str(path)) from None


def _config(given: Mapping[str, str], where: str) -> RegistryConfig:
    values: dict[str, Any] = {}
    client_settings: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in given.items():
        inner = name.removeprefix(KAFKASTORE)
        if name in _definitions():
            definition, support = _definitions()[name]
            if support == _REFUSED:
                raise ConfigError(f"{name} {definition.documentation}")
            values[name] = definition.parse(text)
        elif name.startswith(KAFKASTORE) and inner in SECURITY_NAMES:
            client_settings[inner] = text
        elif name.startswith(KAFKASTORE) and inner.startswith(PREFIXES):
            raise ConfigError(f"{name} protects the connection to the brokers in a way that is not known here")
        elif name.startswith(PROTECTING) and name not in IDLE:
            raise ConfigError(f"{name} protects the registry in a way that is not known here")
        else:
            warnings.append(f"{where}: {name} has no effect")
    found = {name: values.get(name, definition.default) for name, (definition, _) in _definitions().items()}
    if found[_FIPS]:
        raise ConfigError(f"{_FIPS}=true: the cryptography of this registry is not validated by FIPS 140; remove it")
    bootstrap = _bootstrap(found["kafkastore.bootstrap.servers"], client_settings)
    level = found["avro.compatibility.level"] or found["schema.compatibility.level"]
    tls = tls_of(found)
    return RegistryConfig(
        listeners=_listeners(found, is_listed="listeners" in values, has_port="port" in values),
        tls=tls,
        security=security_of(found, given, asks_certificates=tls is not None and tls.asks),
        bootstrap=bootstrap,
        client_settings=client_settings,
        topic=found["kafkastore.topic"],
        replication=found["kafkastore.topic.replication.factor"],
        timeout_s=found["kafkastore.timeout.ms"] / 1000,
        group=found["schema.registry.group.id"],
        schemas_default=found["schema.search.default.limit"],
        schemas_max=found["schema.search.max.limit"],
        defaults=Defaults(
            level=level.upper(),
            validates_fields=found["schema.validate.fields"],
            validates_new_schemas=found["schema.validate.new.schemas"],
            allows_mode_changes=found["mode.mutability"],
        ),
        election=_election(found),
        warnings=tuple(warnings + _unused(values, where)),
    )


def cautions(config: RegistryConfig) -> list[str]:
    """Return warnings about the protection that the settings leave open."""
    if config.security.method is Method.NONE and config.security.certificate_rules is None:
        return []
    found = [
        f"{each.host}:{each.port} has no TLS: passwords and tokens can be read on their way"
        for each in config.listeners
        if not each.is_tls and config.security.method is not Method.NONE and not is_loopback(each.host)
    ]
    if not config.security.uses_acls:
        found.append(f"every client that logs in may do everything, because {AUTHORIZER} is not set")
    return found


def _election(found: Mapping[str, Any]) -> ElectionSettings | None:
    if not found[ELECTION]:
        return None
    is_eligible = found["master.eligibility"]
    own = Identity(
        found["host.name"] or "",
        found["host.port"] or 0,
        found["leader.eligibility"] if is_eligible is None else is_eligible,
        found["inter.instance.protocol"] or found["schema.registry.inter.instance.protocol"],
    )
    return ElectionSettings(
        own,
        found["leader.election.sticky"],
        found["kafkagroup.session.timeout.ms"],
        found["kafkagroup.heartbeat.interval.ms"],
        found["kafkagroup.rebalance.timeout.ms"],
        found["leader.read.timeout.ms"] / 1000,
    )


def _unused(values: Mapping[str, Any], where: str) -> list[str]:
    """Return warnings of settings of an election that is not held."""
    if values.get(ELECTION):
        return []
    return [f"{where}: {name} has no effect without {ELECTION}=true" for name in _OF_ELECTIONS if name in values]


def _bootstrap(servers: tuple[str, ...] | None, client_settings: dict[str, str]) -> str:
    """Return the addresses without their protocols; the protocol becomes a setting of the client."""
    found = []
    for each in servers or ():
        protocol, slashes, address = each.rpartition("://")
        if slashes:
            if protocol.upper() not in _PROTOCOLS:
                allowed = ", ".join(dict.fromkeys(_PROTOCOLS))
                raise ConfigError(f"kafkastore.bootstrap.servers has {each!r}; allowed protocols are {allowed}")
            client_settings.setdefault(PROTOCOL, protocol.upper())
        found.append(address)
    return ",".join(found)


def _listeners(found: Mapping[str, Any], *, is_listed: bool, has_port: bool) -> tuple[Listener, ...]:
    if has_port and not is_listed:
        return (Listener("0.0.0.0", found["port"]),)
    protocols = {}
    for each in found[PROTOCOL_MAP] or ():
        name, colon, protocol = each.rpartition(":")
        if not colon or protocol.lower() not in LISTENER_PROTOCOLS:
            raise ConfigError(f"{PROTOCOL_MAP} has {each!r}; NAME:http or NAME:https is expected")
        protocols[name.lower()] = protocol.lower()
    return tuple(parse_listener(text, protocols, port=PORT) for text in found["listeners"])
