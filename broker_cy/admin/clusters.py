"""The cluster that the options of a console select, and the cluster file, which every console reads:

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

The settings of security are those of client.security.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_cy.admin.address import Address, parse_addresses
from broker_cy.admin.client import DEFAULT_TIMEOUT_S
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.login import ClientLogin
from broker_cy.client.security import NAMES, PREFIXES, login_of, read_command_config, tls_of

if TYPE_CHECKING:
    import ssl

FILE_VARIABLE = "BROKER_CY_CLUSTERS"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
# Time limits of a call are shorter than this.
_TIMEOUT_S_END = 86_400
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "bootstrap": str,
    "timeout_s": (int, float),
    "readonly": bool,
    "metrics_token_file": str,
}
_EXPECTED = {
    "bootstrap": "a text, HOST:PORT",
    "timeout_s": "a number",
    "readonly": "true or false",
    "metrics_token_file": "a text, the path of a file",
}


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """A named cluster. `is_readonly`: consoles refuse to change it."""

    name: str
    bootstrap: tuple[Address, ...]
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_readonly: bool = False
    # A file with a token for the brokers' metrics (brokercy.metrics.token.file), which consoles show.
    metrics_token_file: Path | None = None
    # The security settings, and their place; the file of --command-config replaces them.
    secured: Mapping[str, str] = field(default_factory=dict, repr=False)
    where: str = ""
    command_config: Path | None = None

    @property
    def login(self) -> ClientLogin | None:
        """The login of its connections; None for a cluster without SASL. The password of an unused cluster may be
        missing. Raises ClientError.
        """
        return login_of(*self._security)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of its connections; None for a cluster without TLS. Reads files now. Raises ClientError."""
        return tls_of(*self._security)

    @property
    def _security(self) -> tuple[Mapping[str, str], str]:
        if self.command_config is not None:
            return read_command_config(self.command_config), str(self.command_config)
        return self.secured, self.where


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
            known = ", ".join(sorted(self.clusters)) or "none"
            raise _invalid(self.path, f"there is no cluster {name!r}; there are: {known}") from None


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
        raise ClientError(Failure.INVALID, f"--timeout {timeout_s:g}: must be above 0 and below {_TIMEOUT_S_END} s")


def find_file(config: Path | None, name: str | None) -> ClusterFile | None:
    """Load the cluster file `config`, or else the default file. Return None if the default file does not exist and no
    cluster `name` of it is selected. Raises ClientError.
    """
    path = config or default_path()
    return load_clusters(path) if name is not None or config is not None or path.exists() else None


def find_cluster(file: ClusterFile | None, bootstrap: str | None, name: str | None) -> ClusterEntry:
    """Return the cluster at `bootstrap`, else the cluster `name` of the file, else the file's default cluster, else
    the one at DEFAULT_BOOTSTRAP. Raises ClientError.
    """
    if bootstrap is None and file is not None:
        chosen = name or file.default
        if chosen is not None:
            return file.entry(chosen)
    address = bootstrap or DEFAULT_BOOTSTRAP
    return ClusterEntry(address, parse_addresses(address))


def load_clusters(path: Path) -> ClusterFile:
    """Load the file at `path`. Raises ClientError, which names file and field, if it is missing or not valid."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _invalid(path, f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(path, f"is no TOML: {error}") from None
    unknown = sorted(set(data) - {"default", "clusters"})
    if unknown:
        raise _invalid(path, f"{unknown[0]!r} is not a known field; the fields are default and clusters")
    tables = data.get("clusters", {})
    if not isinstance(tables, dict):
        raise _invalid(path, "clusters must be a table of tables, [clusters.NAME]")
    clusters = {name: _entry(path, name, table) for name, table in tables.items()}
    default = data.get("default")
    if default is not None and (not isinstance(default, str) or default not in clusters):
        raise _invalid(
            path, f"default = {default!r} names no known cluster; there are: {', '.join(sorted(clusters)) or 'none'}"
        )
    return ClusterFile(path, clusters, default)


def _entry(path: Path, name: str, table: Any) -> ClusterEntry:
    where = f"clusters.{name}"
    if not isinstance(table, dict):
        raise _invalid(path, f"{where} must be a table, [{where}]")
    table, secured = _without_security(path, where, table)
    for field_name, value in table.items():
        if field_name not in _FIELDS:
            raise _invalid(path, f"{where}.{field_name} is not a known field; the fields are {', '.join(_FIELDS)}")
        kind = _FIELDS[field_name]
        # bool is an int in Python, but not a number in a configuration file.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _invalid(path, f"{where}.{field_name} = {value!r}: expected {_EXPECTED[field_name]}")
    if "bootstrap" not in table:
        raise _invalid(path, f"{where}.bootstrap is missing")
    timeout_s = float(table.get("timeout_s", DEFAULT_TIMEOUT_S))
    if not 0 < timeout_s < _TIMEOUT_S_END:
        raise _invalid(path, f"{where}.timeout_s = {timeout_s:g}: must be above 0 and below {_TIMEOUT_S_END}")
    try:
        bootstrap = parse_addresses(table["bootstrap"])
    except ClientError as error:
        raise _invalid(path, f"{where}.bootstrap: {error.reason}") from None
    unknown = sorted(set(secured) - set(NAMES))
    if unknown:
        raise _invalid(path, f"{where}.{unknown[0]} is not supported yet; those of security are {', '.join(NAMES)}")
    token_file = Path(table["metrics_token_file"]) if "metrics_token_file" in table else None
    return ClusterEntry(
        name, bootstrap, timeout_s, table.get("readonly", False), token_file, secured, f"{path}: {where}"
    )


def _without_security(path: Path, where: str, table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The other fields, and the settings of security: in TOML a name with dots is a table in a table."""
    others: dict[str, Any] = {}
    secured: dict[str, str] = {}
    for name, value in _flat(table):
        if not name.startswith(PREFIXES):
            others[name] = value
        elif isinstance(value, str):
            secured[name] = value
        else:
            raise _invalid(path, f"{where}.{name}: a text is expected")
    return others, secured


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        # Others than these have no dots.
        if isinstance(value, dict) and f"{prefix}{name}.".startswith(PREFIXES):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _invalid(path: Path, reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what=str(path))
