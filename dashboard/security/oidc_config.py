"""The configuration of an identity provider (OpenID Connect), a table of dashboard.toml:

[oidc]
issuer = "https://id.example.com"
client_id = "broker-dash"
client_secret_file = "client.secret"
redirect_url = "https://dashboard.example.com/oidc/callback"
scopes = ["openid", "profile"]
claim = "groups"
name_claim = "preferred_username"
roles = { "kafka-admins" = "admin", "kafka-team" = "viewer" }

[oidc.patterns.viewer]
topics = ["orders*"]
groups = ["billing*"]
unmasked = false

`roles` maps values of the claim to roles; the highest one counts, and users without a role are denied. The patterns of
a role, by its name, are those of the users file; by default it sees everything, masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from broker_cy.http.addresses import is_loopback
from dashboard.security.fields import Refuse, Table
from dashboard.security.files import read_private
from dashboard.security.roles import Role, Scope
from dashboard.security.users import fingerprint_of

CALLBACK_PATH: Final = "/oidc/callback"
SECRET_BYTES_MAX: Final = 4_096
ROLES_MAX: Final = 1_000
_KNOWN: Final = (
    "issuer",
    "client_id",
    "client_secret_file",
    "redirect_url",
    "scopes",
    "claim",
    "name_claim",
    "roles",
    "patterns",
)
_DEFAULT_SCOPES: Final = ("openid", "profile")


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """An identity provider. `roles` maps values of `claim` to roles; `grants` has what each role may do, by name."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_url: str
    roles: Mapping[str, Role]
    grants: Mapping[str, tuple[Role, Scope]]
    scopes: tuple[str, ...] = _DEFAULT_SCOPES
    claim: str = "groups"
    name_claim: str = "preferred_username"

    @property
    def provider(self) -> str:
        """The provider's name on the login page: its host."""
        return urlsplit(self.issuer).netloc

    def fingerprint(self, role: str) -> str:
        """Return a digest of the role's definition; sessions that were issued with another one have ended."""
        granted, scope = self.grants[role]
        mapped = sorted((value, each.text) for value, each in self.roles.items())
        parts = [self.issuer, self.client_id, self.claim, mapped, granted.text]
        return fingerprint_of([*parts, scope.clusters, scope.topics, scope.groups, scope.unmasked])


def parse_oidc(data: Any, path: Path, refuse: Refuse) -> OidcConfig:
    """Return the configuration of the table `oidc` in the file at `path`, to which the file of the secret is relative.

    Raises the error that `refuse` creates from a reason, and ClientError if other users can read the secret.
    """
    table = Table(data, "oidc", refuse, _KNOWN)
    issuer = table.text("issuer")
    redirect = table.text("redirect_url")
    _check_url(issuer, "oidc.issuer", refuse)
    _check_url(redirect, "oidc.redirect_url", refuse)
    if urlsplit(redirect).path != CALLBACK_PATH:
        raise refuse(f"oidc.redirect_url = {redirect!r}: its path must be {CALLBACK_PATH}")
    scopes = table.texts("scopes", _DEFAULT_SCOPES)
    if "openid" not in scopes:
        raise table.wrong("scopes", '"openid" is missing')
    secret_path = path.parent / Path(table.text("client_secret_file")).expanduser()
    try:
        secret = read_private(secret_path, SECRET_BYTES_MAX)[0].decode().strip()
    except UnicodeDecodeError:
        raise refuse(f"oidc.client_secret_file: {secret_path} is not UTF-8") from None
    if not secret:
        raise refuse(f"oidc.client_secret_file: {secret_path} is empty")
    return OidcConfig(
        issuer,
        table.text("client_id"),
        secret,
        redirect,
        _roles(table, refuse),
        _grants(table, refuse),
        scopes,
        table.text("claim", "groups"),
        table.text("name_claim", "preferred_username"),
    )


def _check_url(url: str, where: str, refuse: Refuse) -> None:
    reason = problem_of_url(url)
    if reason:
        raise refuse(f"{where} = {url!r}: {reason}")


def problem_of_url(url: str) -> str:
    """Return the reason to refuse a URL of the provider or of the dashboard: https is required, except on loopback."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("https", "http") or not host or parts.username or parts.fragment or parts.query:
        return "expected https://HOST/PATH"
    if parts.scheme == "http" and not is_loopback(host):
        return "http is allowed on loopback only; use https"
    return ""


def _roles(table: Table, refuse: Refuse) -> dict[str, Role]:
    found: dict[str, Role] = {}
    for value, text in table.table("roles").items():
        try:
            found[value] = Role.parse(text) if isinstance(text, str) else Role.parse(repr(text))
        except ValueError as error:
            raise refuse(f"oidc.roles.{value}: {error}") from None
    if not found:
        raise table.missing("roles")
    if len(found) > ROLES_MAX:
        raise refuse(f"oidc.roles has {len(found):,} entries: {ROLES_MAX:,} are allowed")
    return found


def _grants(table: Table, refuse: Refuse) -> dict[str, tuple[Role, Scope]]:
    given = Table(table.table("patterns"), "oidc.patterns", refuse, [role.text for role in Role])
    grants = {}
    for role in Role:
        fields = ("clusters", "topics", "groups", "unmasked")
        scope = Table(given.table(role.text), f"oidc.patterns.{role.text}", refuse, fields).scope()
        grants[role.text] = (role, scope)
    return grants
