"""Security: the security components of one dashboard.

The state directory holds the key of the sessions (`session.key`), the sessions that were logged out (`revoked`), the
audit log and `dashboard.lock`: one dashboard at a time uses it.
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.http.addresses import Hosts, Network, is_loopback
from dashboard.security.audit import Audit
from dashboard.security.files import make_private_directory, take_lock
from dashboard.security.masking import Mask, Masking
from dashboard.security.oidc_config import OidcConfig
from dashboard.security.roles import LOOPBACK, OIDC, PASSWORD, Identity, Need, Role, Scope, decide
from dashboard.security.sessions import Sessions, Ticket, load_key
from dashboard.security.users import Users

LOCAL_USER: Final = "local"
# It allows everything: a user with access to a loopback address could also use the command line.
_LOCAL_SCOPE: Final = Scope(unmasked=True)


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """The configuration of a dashboard's security.

    The dashboard listens on `host` and `port`; `hosts` are the other names by which browsers reach it, NAME or
    NAME:PORT. `users_path` and `oidc` are None if not configured; one of them is required beyond loopback, and with
    either, every user must log in. `tls`: browsers use https, of the dashboard itself or of a proxy before it.
    `proxies` are trusted to name their clients. `clock` returns seconds since 1970.
    """

    host: str
    port: int
    state_directory: Path
    hosts: tuple[str, ...] = ()
    users_path: Path | None = None
    oidc: OidcConfig | None = None
    masks: tuple[Mask, ...] = ()
    tls: bool = False
    proxies: tuple[Network, ...] = ()
    clock: Callable[[], float] = field(default=time.time, repr=False)


class Security:
    """The security of one dashboard. `close` it before another one uses the same state directory.

    Attributes: `audit`, `masking`, `users` and `oidc`, the configuration of the provider (None if not configured),
    `sessions`, `hosts`, and `login_required`.
    """

    def __init__(self, config: SecurityConfig) -> None:
        """Check the configuration and open the files. Raises ClientError, which says what to change."""
        if not 1 <= config.port <= 65_535:
            raise ClientError(Failure.INVALID, f"port {config.port}: 1 to 65535 are allowed", what="listen")
        self.login_required = config.users_path is not None or config.oidc is not None
        if not self.login_required and not is_loopback(config.host):
            raise ClientError(
                Failure.INVALID,
                f"{config.host} can be reached from other machines, which needs a login: add users with "
                "broker-dash user add, configure [oidc], or listen on 127.0.0.1",
                what="listen",
            )
        self.config = config
        self.clock = config.clock
        self.hosts = Hosts(config.host, config.port, config.hosts, tls=config.tls)
        self.masking = Masking(config.masks)
        self.users: Users | None = None
        self.oidc = config.oidc
        directory = config.state_directory
        make_private_directory(directory)
        self._lock = take_lock(directory / "dashboard.lock", directory, 0)
        try:
            # The port is part of the name, because cookies of one host are shared by all its ports.
            self.sessions = Sessions(
                load_key(directory / "session.key"),
                directory / "revoked",
                name=f"broker_dash_{config.port}",
                is_secure=config.tls,
                clock=config.clock,
            )
            if config.users_path is not None:
                self.users = Users(config.users_path)
            self.audit = Audit(directory, clock=config.clock)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Close the files; the object cannot be used afterwards."""
        self.audit.close()
        if self.users is not None:
            self.users.close()
        os.close(self._lock)

    def identify(self, cookies: Iterable[str], address: str) -> Identity | None:
        """Return the identity of a client with these values of the session's cookie; None if it is not logged in."""
        if not self.login_required:
            return Identity(LOCAL_USER, Role.ADMIN, _LOCAL_SCOPE, LOOPBACK, address)
        for value in cookies:
            ticket = self.sessions.read(value)
            granted = None if ticket is None else self._granted(ticket)
            if ticket is not None and granted is not None:
                return Identity(ticket.name, *granted, ticket.login, address, ticket.session)
        return None

    def _granted(self, ticket: Ticket) -> tuple[Role, Scope] | None:
        """Return what the owner of the session may do now; None if the record of the login is no longer valid."""
        if ticket.login == PASSWORD and self.users is not None:
            user = self.users.get(ticket.name)
            if user is not None and hmac.compare_digest(user.fingerprint(), ticket.session.record):
                return user.role, user.scope
        if ticket.login == OIDC and self.oidc is not None:
            grant = self.oidc.grants.get(ticket.session.role)
            fingerprint = self.oidc.fingerprint(ticket.session.role)
            if grant is not None and hmac.compare_digest(fingerprint, ticket.session.record):
                return grant
        return None

    def current(self, identity: Identity) -> str:
        """Return why the identity is no longer valid; empty if it is. It is for operations that last longer than a
        request.

        It costs about 8 us: the guard calls it for each message of a socket.
        """
        if identity.login == LOOPBACK:
            return "a login is needed" if self.login_required else ""
        if identity.session is None:
            return "there is no session"
        ended = self.sessions.ended(identity.session)
        if ended:
            return f"the session has ended: {ended}"
        if self._granted(Ticket(identity.name, identity.login, identity.session)) != (identity.role, identity.scope):
            return "the session has ended: the user was changed or removed"
        return ""

    def check(self, identity: Identity | None, need: Need, *, act: str, subject: str = "") -> str:
        """Return `decide`'s answer, or why the identity is no longer valid; a denial is in the audit log."""
        reason = decide(identity, need)
        if not reason and identity is not None:
            reason = self.current(identity)
        if reason:
            self.audit.note(
                user="" if identity is None else identity.name,
                address="" if identity is None else identity.address,
                cluster=need.cluster,
                act=act,
                subject=subject or ", ".join((*need.topics, *need.groups)),
                result=f"refused: {reason}",
            )
        return reason

    def csrf_token(self, identity: Identity) -> str:
        """Return the token for a form's hidden field `csrf`; empty for an identity without session."""
        return "" if identity.session is None else self.sessions.csrf_token(identity.session)

    def is_csrf_token(self, identity: Identity, token: str) -> bool:
        return identity.session is not None and self.sessions.is_csrf_token(identity.session, token)
