"""The configuration of the dashboard: options of the command, dashboard.toml, and defaults, in this order.

listen = "127.0.0.1:8050"
hosts = ["dash.example.com"]          # other names by which browsers reach it
users = "dashboard-users.toml"        # a login is needed if the file exists, and always beyond loopback
state = "/var/lib/broker-dash"        # session key, audit log, history
alerts = "alerts.toml"
report = "report.html"                # of broker-analytics; the page Report shows it
notify = false                        # post alerts to the [webhook] of the rules
readonly = false
tls_certificate = "dash.pem"          # PEM, with the chain
tls_key = "dash.key"
behind_tls_proxy = false              # a proxy before the dashboard ends TLS
trusted_proxies = ["10.0.0.5"]        # addresses or networks whose X-Forwarded-For says who the client is

[environments]                        # colours, by name of a cluster
orders = "production"                 # production, staging, test or development

[oidc]                                # security/oidc_config.py
[[mask]]                              # security/masking.py

Relative paths are relative to the directory of the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from broker_cy.client.clusters import default_path
from broker_cy.client.toml_file import read
from broker_cy.client.toml_values import boolean, list_of, one_of, text, texts
from broker_cy.console.alerts.rules import default_rules_path
from broker_cy.http.addresses import Network, parse_listen, parse_proxies
from dashboard.security import Mask, OidcConfig, parse_masks, parse_oidc
from dashboard.security.users import USERS_FILE, default_users_path

DEFAULT_PORT = 8050
DEFAULT_LISTEN = f"127.0.0.1:{DEFAULT_PORT}"
# The colours of pages (assets/style.css); a cluster without an environment has none.
ENVIRONMENTS = ("production", "staging", "test", "development")


@dataclass(frozen=True, slots=True)
class DashboardConfig:
    """A checked configuration. Paths are absolute; None means no file."""

    host: str = "127.0.0.1"
    port: int = 8050
    hosts: tuple[str, ...] = ()
    users: Path | None = None
    state: Path = field(default_factory=lambda: default_state())
    alerts: Path | None = None
    is_readonly: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    is_behind_tls_proxy: bool = False
    environments: Mapping[str, str] = field(default_factory=dict)
    oidc: OidcConfig | None = None
    masks: tuple[Mask, ...] = ()
    report: Path | None = None
    trusted_proxies: tuple[Network, ...] = ()
    notifies: bool = False

    @property
    def uses_https(self) -> bool:
        """Whether browsers use HTTPS."""
        return self.tls_certificate is not None or self.is_behind_tls_proxy

    def with_options(
        self,
        *,
        listen: str | None,
        users: Path | None,
        state: Path | None,
        alerts: Path | None,
        is_readonly: bool,
        report: Path | None = None,
        notifies: bool = False,
    ) -> DashboardConfig:
        """Return the configuration with the options that were given. Raises ClientError."""
        found = self
        if listen is not None:
            host, port = parse_listen(listen, "--listen", DEFAULT_PORT)
            found = replace(found, host=host, port=port)
        if users is not None:
            found = replace(found, users=users.absolute())
        if state is not None:
            found = replace(found, state=state.absolute())
        if alerts is not None:
            found = replace(found, alerts=alerts.absolute())
        if report is not None:
            found = replace(found, report=report.absolute())
        return replace(found, is_readonly=found.is_readonly or is_readonly, notifies=found.notifies or notifies)


def default_state() -> Path:
    """$XDG_STATE_HOME/broker-dash, else ~/.local/state/broker-dash."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "broker-dash"


def load_config(path: Path | None, clusters: Path | None = None) -> DashboardConfig:
    """Load the file at `path`, or the default file if it exists. Raises ClientError, which names file and field.

    dashboard.toml, dashboard-users.toml and alerts.toml in the directory of the cluster file `clusters` take precedence
    over those in the directory of the default cluster file. Settings and users that the first directory lacks come from
    the second, and so does its login.
    """
    directory = (clusters or default_path()).absolute().parent
    found = _find(directory) if path is None else _load(path)
    rules = default_rules_path(clusters).absolute()
    is_beside = found is not None
    if found is None:
        found = _find(default_path().absolute().parent) or DashboardConfig()
        found = replace(found, alerts=rules if rules.exists() else found.alerts)
    elif rules.exists():
        found = replace(found, alerts=found.alerts or rules)
    users = directory / USERS_FILE
    if users.exists():
        return replace(found, users=users if found.users is None or not is_beside else found.users)
    if path is None and is_beside and found.users is None and found.oidc is None:
        # The directory of `clusters` has no login: that of the other directory, which its dashboard.toml may name,
        # stays in force.
        other = _find(default_path().absolute().parent) or DashboardConfig()
        found = replace(found, users=other.users, oidc=other.oidc)
    default = default_users_path(clusters).absolute()
    return replace(found, users=default) if found.users is None and default.exists() else found


def _find(directory: Path) -> DashboardConfig | None:
    """Load dashboard.toml of the directory; None if it has none. Raises ClientError."""
    file = directory / "dashboard.toml"
    return _load(file) if file.exists() else None


def _load(file: Path) -> DashboardConfig:
    """Raises ClientError."""
    top = read(file)

    def path_of(value: Any) -> Path:
        return file.absolute().parent / Path(text(value)).expanduser()

    environments = top.table("environments")
    of_names = {name: environments.take(name, one_of(*ENVIRONMENTS)) for name in environments.values}
    where = f"{top.error('listen', '').what}: listen"
    host, port = parse_listen(top.take("listen", text, DEFAULT_LISTEN), where, DEFAULT_PORT)
    oidc = top.take("oidc", lambda value: parse_oidc(value, file, top.refuse), None)
    found = DashboardConfig(
        host,
        port,
        top.take("hosts", texts, ()),
        top.take("users", path_of, None),
        top.take("state", path_of, None) or default_state(),
        top.take("alerts", path_of, None),
        top.take("readonly", boolean, False),
        top.take("tls_certificate", path_of, None),
        top.take("tls_key", path_of, None),
        top.take("behind_tls_proxy", boolean, False),
        of_names,
        oidc,
        parse_masks(top.take("mask", list_of, []), top.refuse),
        top.take("report", path_of, None),
        parse_proxies(top.take("trusted_proxies", list_of, []), top.refuse),
        top.take("notify", boolean, False),
    )
    top.finish()
    if (found.tls_certificate is None) != (found.tls_key is None):
        raise top.refuse("tls_certificate and tls_key belong together")
    if found.tls_certificate is not None and found.is_behind_tls_proxy:
        raise top.refuse("behind_tls_proxy is for a proxy that ends TLS: without tls_certificate")
    return found
