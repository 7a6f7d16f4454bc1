"""The cluster that a program works on, and the cluster file, which all programs read:

default = "local"

[clusters.local]
bootstrap = "127.0.0.1:9092"

[clusters.production]
bootstrap = "broker-1:9092,broker-2:9092"
timeout_s = 60
readonly = true
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "alice"
sasl.password.env = "ALICE_PASSWORD"
registry = "https://registry-1:8081"
registry_config = "registry.properties"
mirrors = "mirror-1:8085,mirror-2:8085"

The settings of security are those of client.security. The options that select a cluster are in client.options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_cy.client.address import Address, parse_address, parse_addresses
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.login import ClientLogin
from broker_cy.client.security import (
    NAMES,
    PREFIXES,
    ClientSecurity,
    login_of,
    read_command_config,
    security_of,
    tls_of,
)
from broker_cy.client.toml_file import Table, read
from broker_cy.client.toml_values import boolean, text
from broker_cy.core.classes import dataclass

if TYPE_CHECKING:
    import ssl

FILE_VARIABLE: Final = "BROKER_CY_CLUSTERS"
BOOTSTRAP_VARIABLE: Final = "BROKER_CY_BOOTSTRAP"
CLUSTER_VARIABLE: Final = "BROKER_CY_CLUSTER"
REGISTRY_VARIABLE: Final = "BROKER_CY_REGISTRY"
MIRRORS_VARIABLE: Final = "BROKER_CY_MIRRORS"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
# Time limits of a call are shorter than this.
_TIMEOUT_S_END: Final = 86_400


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """A cluster. `is_readonly`: consoles refuse to change it."""

    name: str
    bootstrap: tuple[Address, ...]
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_readonly: bool = False
    # A file with a token for the brokers' metrics (brokercy.metrics.token.file), which consoles show.
    metrics_token_file: Path | None = None
    # The security settings of the cluster file, and their place; the file of --command-config replaces them.
    secured: Mapping[str, str] = field(default_factory=dict, repr=False)
    where: str = ""
    command_config: Path | None = None
    # The settings of -X, which replace others of the same name.
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Its schema registries, separated by commas, and the file with the login there. Both None: it has none.
    registry: str | None = None
    registry_config: Path | None = None
    # The listeners of its processes of broker-mirror (brokercy.mirror.listener).
    mirrors: tuple[Address, ...] = ()

    @property
    def has_registry(self) -> bool:
        return self.registry is not None or self.registry_config is not None

    @property
    def is_named(self) -> bool:
        """Whether it is a cluster of the cluster file; otherwise the name is its address."""
        return bool(self.where)

    @property
    def login(self) -> ClientLogin | None:
        """The login of its connections; None without SASL. Reads files now. Raises ClientError."""
        return login_of(*self.client_settings())

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of its connections; None without TLS. Reads files now. Raises ClientError."""
        return tls_of(*self.client_settings())

    @property
    def security(self) -> ClientSecurity:
        """The login and the TLS context of its connections. Reads files now: those of an unused cluster may be missing.
        Raises ClientError.
        """
        return security_of(*self.client_settings())

    def client_settings(self) -> tuple[dict[str, str], str]:
        """Return the security settings by the names of Kafka's clients, and their place for error messages. Some are
        secrets. Raises ClientError.
        """
        if self.command_config is not None:
            where = str(self.command_config)
            try:
                settings = read_command_config(self.command_config)
            except ClientError as error:
                raise error.about("--command-config") from None
        else:
            settings, where = dict(self.secured), self.where
        if not self.overrides:
            return settings, where
        return {**settings, **self.overrides}, f"{where} and -X" if where else "-X"


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The contents of the file. `default` is the name of the default cluster, or None."""

    path: Path
    clusters: Mapping[str, ClusterEntry]
    default: str | None

    def entry(self, name: str) -> ClusterEntry:
        """Return the cluster `name`. Raises ClientError, which lists the known names, if it is not one of them."""
        try:
            return self.clusters[name]
        except KeyError:
            raise _invalid(f"unknown cluster {name!r}; known: {_names(self.clusters)}", str(self.path)) from None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The cluster as the options give it; None and empty: not given. `settings` are those of -X."""

    bootstrap: str | None = None
    name: str | None = None
    command_config: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    clusters_file: Path | None = None
    timeout_s: float | None = None
    registry: str | None = None
    registry_config: Path | None = None
    mirrors: str | None = None

    def or_environment(self) -> Wanted:
        """The same with BROKER_CY_BOOTSTRAP or BROKER_CY_CLUSTER, if no option selects a cluster. Raises ClientError
        if two options or both variables do.
        """
        if self.bootstrap is not None and self.name is not None:
            raise _invalid("--bootstrap and --cluster cannot be used together")
        if self.bootstrap is not None or self.name is not None:
            return self
        bootstrap, name = os.environ.get(BOOTSTRAP_VARIABLE) or None, os.environ.get(CLUSTER_VARIABLE) or None
        if bootstrap is not None and name is not None:
            raise _invalid(f"{BOOTSTRAP_VARIABLE} and {CLUSTER_VARIABLE} are both set: unset one, or use an option")
        return replace(self, bootstrap=bootstrap, name=name)

    def changed(self, entry: ClusterEntry) -> ClusterEntry:
        """The cluster with the login, the time limit, the registry and the mirrors of the options. Raises ClientError.

        Those of the environment are for clusters that have none in the cluster file.
        """
        check_timeout(self.timeout_s)
        if self.registry is not None or self.registry_config is not None:
            entry = replace(entry, registry=self.registry, registry_config=self.registry_config)
        elif not entry.has_registry:
            entry = replace(entry, registry=os.environ.get(REGISTRY_VARIABLE) or None)
        mirrors, named = self.mirrors, "--mirrors"
        if mirrors is None and not entry.mirrors:
            mirrors, named = os.environ.get(MIRRORS_VARIABLE) or None, MIRRORS_VARIABLE
        if mirrors is not None:
            try:
                entry = replace(entry, mirrors=_mirrors(mirrors))
            except ValueError as error:
                raise _invalid(str(error), named) from None
        if self.command_config is not None:
            entry = replace(entry, command_config=self.command_config)
        if self.settings:
            entry = replace(entry, overrides=self.settings)
        return entry if self.timeout_s is None else replace(entry, timeout_s=self.timeout_s)


def select(wanted: Wanted) -> ClusterEntry:
    """Return the cluster that the options and the environment select. Raises ClientError."""
    wanted = wanted.or_environment()
    # With an address, the default file is not read: it need not be valid. One that is named may be a setting that was
    # meant for --set, and that would get lost.
    is_needed = wanted.bootstrap is None or wanted.clusters_file is not None
    file = find_file(wanted.clusters_file, wanted.name) if is_needed else None
    return wanted.changed(find_cluster(file, wanted.bootstrap, wanted.name))


def default_path() -> Path:
    """$BROKER_CY_CLUSTERS, else broker-cy/clusters.toml in the user's configuration directory."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "broker-cy" / "clusters.toml"


def find_beside(clusters: Path | None, name: str) -> Path:
    """Return the file `name` in the directory of the cluster file `clusters` or, if it does not exist there, in that of
    the default cluster file; the path in the first of both directories if neither has the file.
    """
    first = (clusters or default_path()).with_name(name)
    other = default_path().with_name(name)
    return other if not first.exists() and other.exists() else first


def check_timeout(timeout_s: float | None) -> None:
    """Raise ClientError if the value of the option --timeout is out of range; None: the option was not given."""
    if timeout_s is not None and not 0 < timeout_s < _TIMEOUT_S_END:
        raise _invalid(f"--timeout {timeout_s:g}: must be above 0 and below {_TIMEOUT_S_END} s")


def find_file(path: Path | None, name: str | None) -> ClusterFile | None:
    """Load the cluster file `path`, or else that of the environment, or else the default file. Return None if the
    default file does not exist and no cluster `name` of it is selected. Raises ClientError.
    """
    is_chosen = name is not None or path is not None or bool(os.environ.get(FILE_VARIABLE))
    found = path or default_path()
    return load_clusters(found) if is_chosen or found.exists() else None


def find_cluster(file: ClusterFile | None, bootstrap: str | None, name: str | None) -> ClusterEntry:
    """Return the cluster at `bootstrap`, else the cluster `name` of the file, else the file's default cluster, else
    the one at DEFAULT_BOOTSTRAP. Raises ClientError.
    """
    if bootstrap is None and file is not None:
        chosen = name or file.default
        if chosen is not None:
            return file.entry(chosen)
    address = bootstrap or DEFAULT_BOOTSTRAP
    try:
        return ClusterEntry(address, parse_addresses(address))
    except ValueError as error:
        raise _invalid(str(error)) from None


def load_clusters(path: Path) -> ClusterFile:
    """Load the file at `path`. Raises ClientError, which names file, line and key, if it is missing or not valid."""
    table = read(path)
    tables = table.table("clusters")
    clusters = {name: _entry(path, name, tables.table(name)) for name in tables.values}
    default = table.take("default", _known_among(clusters), None)
    table.finish()
    return ClusterFile(path, clusters, default)


def _names(clusters: Mapping[str, ClusterEntry]) -> str:
    return ", ".join(sorted(clusters)) or "none"


def _known_among(clusters: Mapping[str, ClusterEntry]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in clusters:
            raise ValueError(f"unknown cluster {value!r}; known: {_names(clusters)}")
        return value

    return parse


def _entry(path: Path, name: str, table: Table) -> ClusterEntry:
    secured: dict[str, str] = {}
    for setting, value in _security_settings(table):
        if setting not in NAMES:
            raise table.error(setting, f"is not supported yet; those of security are {', '.join(NAMES)}")
        if not isinstance(value, str):
            raise table.error(setting, "a text is expected")
        secured[setting] = value
    entry = ClusterEntry(
        name,
        table.take("bootstrap", _bootstrap),
        table.take("timeout_s", _timeout_s, DEFAULT_TIMEOUT_S),
        table.take("readonly", boolean, False),
        table.take("metrics_token_file", lambda value: Path(text(value)), None),
        secured,
        f"{path}: {table.path}",
        registry=table.take("registry", text, None),
        registry_config=table.take("registry_config", lambda value: path.absolute().parent / text(value), None),
        mirrors=table.take("mirrors", _mirrors, ()),
    )
    table.finish()
    return entry


def _bootstrap(value: Any) -> tuple[Address, ...]:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text, HOST:PORT")
    return parse_addresses(value)


def _mirrors(value: Any) -> tuple[Address, ...]:
    return tuple(parse_address(each.strip(), needs_port=True) for each in text(value).split(",") if each.strip())


def _timeout_s(value: Any) -> float:
    # bool is an int in Python, but not a number in a configuration file.
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    if not 0 < value < _TIMEOUT_S_END:
        raise ValueError(f"{value:g}: must be above 0 and below {_TIMEOUT_S_END}")
    return float(value)


def _security_settings(table: Table) -> Iterator[tuple[str, Any]]:
    """The settings of security: in TOML a name with dots is a table in a table."""
    for name, value in table.values.items():
        # Others than these have no dots.
        if f"{name}.".startswith(PREFIXES) and isinstance(value, dict):
            table.known.append(name)
            yield from _flat(value, f"{name}.")
        elif name.startswith(PREFIXES):
            table.known.append(name)
            yield name, value


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _invalid(reason: str, what: str = "") -> ClientError:
    return ClientError(Failure.INVALID, reason, what=what)
