"""The guard: which client sends a request, and what it may do. Every request passes it before its body is read.

Refused requests are logged: NOTES_BURST of one address at once, then NOTES_A_MINUTE, so that no client fills the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Protocol

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.login import ClientLogin
from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.limits import Buckets, address_key
from broker_cy.http.logins import Delayed, Logins, NotLoggedIn, Passwords, Tokens, Unchecked, User
from broker_cy.http.password_file import PasswordFile
from broker_cy.security.acls import ANONYMOUS
from broker_cy.security.tls.certificate import CertificateError
from broker_cy.security.tls.principal import CertificatePrincipals, MappingError
from broker_registry.errors import RegistryError, unauthorized
from broker_registry.security.access import EVERYTHING, Access
from broker_registry.security.cluster_acls import ClusterAcls
from broker_registry.security.cluster_users import ClusterUsers
from broker_registry.security.settings import METHOD, USERS_FILE, Method, SecuritySettings

NOTES_BURST: Final = 20
NOTES_A_MINUTE: Final = 20
NOTE_CHARACTERS_MAX: Final = 300
_ANY: Final = "*"
_MS: Final = 1_000

_LOG = logging.getLogger(__name__)


class Sender(Protocol):
    """The parts of a request that the guard reads."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of its path, decoded."""

    @property
    def authorization(self) -> Sequence[bytes]:
        """Its headers Authorization."""

    @property
    def address(self) -> str: ...

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the client, checked, in DER."""


class Guard:
    """Use it as a context manager around the requests. `connect` returns a client of the brokers, with this login or
    (None) that of the registry; `now_s` is a monotonic clock, `wall_s` seconds since 1970.
    """

    def __init__(
        self,
        settings: SecuritySettings,
        connect: Callable[[ClientLogin | None], AdminClient],
        *,
        now_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        """Raises ClientError if a file cannot be used."""
        self._settings = settings
        self._connect = connect
        self._now_s = now_s
        self._wall_s = wall_s
        self._notes = Buckets(now_s, burst=NOTES_BURST, per_minute=NOTES_A_MINUTE)
        self._skipped = tuple(tuple(each.strip("/").split("/")) for each in settings.skip_paths)
        rules = settings.certificate_rules
        self._certificates = None if rules is None else CertificatePrincipals(rules)
        self._cluster_users: ClusterUsers | None = None
        self._logins: Logins | None = None
        self._client: AdminClient | None = None
        self._acls: ClusterAcls | None = None
        self._passwords = self._passwords_of(settings)

    def _passwords_of(self, settings: SecuritySettings) -> Passwords | None:
        if settings.users_mechanism is not None:
            self._cluster_users = ClusterUsers(settings.users_mechanism, self._connect)
            return self._cluster_users
        if settings.users_file is None:
            return None
        try:
            file = PasswordFile(settings.users_file, self._now_s)
        except ConfigError as error:
            raise ClientError(Failure.INVALID, str(error), what=USERS_FILE) from None
        if file.is_open_to_others:
            _LOG.warning("%s can be read by every user of this machine: it has passwords", settings.users_file)
        return file

    @property
    def challenge(self) -> str:
        """The header WWW-Authenticate of an answer to a client that is not logged in; empty without a login."""
        realm = self._settings.realm.replace("\\", "\\\\").replace('"', '\\"')
        if self._settings.method is Method.BASIC:
            return f'Basic realm="{realm}", charset="UTF-8"'
        return f'Bearer realm="{realm}"' if self._settings.method is Method.BEARER else ""

    async def __aenter__(self) -> Guard:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(self) -> None:
        """Read the keys of the provider and the ACLs. Raises ClientError."""
        if self._passwords is not None or self._settings.tokens is not None:
            self._logins = Logins(self._passwords, await self._tokens(), now_s=self._now_s, wall_s=self._wall_s)
        if self._settings.uses_acls:
            self._client = client = self._connect(None)
            self._acls = ClusterAcls(
                client.acls.describe,
                self._settings.super_users,
                allow_if_no_acl=self._settings.allow_if_no_acl,
                now_s=self._now_s,
            )
            await self._acls.open()

    async def _tokens(self) -> Tokens | None:
        if self._settings.tokens is None:
            return None
        # Imported here, because the library is that of another extra, and few need it.
        try:
            from broker_cy.client.jwks import validator_of
        except ModuleNotFoundError as error:
            reason = f"BEARER needs the extra oauth: pip install 'broker-cy[oauth]' (missing: {error.name})"
            raise ClientError(Failure.INVALID, reason, what=METHOD) from None
        try:
            loop = asyncio.get_running_loop()
            return validator_of(self._settings.tokens, loop, lambda: int(self._wall_s() * _MS)).validate
        except ConfigError as error:
            raise ClientError(Failure.INVALID, str(error), what=METHOD) from None

    async def close(self) -> None:
        if self._acls is not None:
            await self._acls.close()
        if self._client is not None:
            await self._client.close()
        if self._cluster_users is not None:
            self._cluster_users.close()

    def known_access_of(self, sender: Sender) -> Access | None:
        """Return what the client may do, as `access_of`; None if that has to be found out."""
        open_access = self._open_access(sender)
        if open_access is not None:
            return open_access
        principal = None
        if self._logins is not None:
            user = self._logins.known_user_of(sender.authorization)
            if user is None or not self._has_role(user):
                return None
            principal = f"User:{user.name}"
        if self._certificates is not None:
            if sender.certificate is None:
                return None
            try:
                principal = self._certificates.of(sender.certificate)
            except (MappingError, CertificateError):
                return None
        return None if principal is None else Access(principal, sender.address, self._acls)

    def _open_access(self, sender: Sender) -> Access | None:
        """Return what the client may do without a login; None if the request needs one."""
        if self._acls is None and self._logins is None and self._certificates is None:
            return EVERYTHING
        if self._is_skipped(sender.segments):
            return Access(ANONYMOUS if self._settings.has_anonymous else None, sender.address, self._acls)
        return None

    async def access_of(self, sender: Sender) -> Access:
        """Return what the client may do. Raises RegistryError if it has to log in, or cannot now."""
        open_access = self._open_access(sender)
        if open_access is not None:
            return open_access
        try:
            principal = await self._principal_of(sender)
        except (NotLoggedIn, MappingError, CertificateError) as error:
            self._note(sender, str(error))
            raise unauthorized() from None
        except Delayed as error:
            raise RegistryError(429, f"Too many logins: {error}", error.wait_s) from None
        except Unchecked as error:
            self._note(sender, f"the login cannot be checked: {error}")
            raise RegistryError(503, "The login cannot be checked at the moment") from None
        return Access(principal, sender.address, self._acls)

    async def _principal_of(self, sender: Sender) -> str:
        principal = None
        if self._logins is not None:
            user = await self._logins.user_of(sender.authorization, sender.address)
            if not self._has_role(user):
                raise NotLoggedIn(f"the user {user.name!r} has none of the roles in authentication.roles")
            principal = f"User:{user.name}"
        if self._certificates is None:
            assert principal is not None  # settings demand a login
            return principal
        if sender.certificate is None:
            raise NotLoggedIn("no certificate")
        return self._certificates.of(sender.certificate)

    def _has_role(self, user: User) -> bool:
        return not self._settings.roles or bool(self._settings.roles & user.roles)

    def _is_skipped(self, segments: tuple[str, ...]) -> bool:
        for wanted in self._skipped:
            if wanted[-1] == _ANY:
                if segments[: len(wanted) - 1] == wanted[:-1]:
                    return True
            elif segments == wanted:
                return True
        return False

    def denied(self, sender: Sender, access: Access, error: RegistryError) -> None:
        """Log that a client was denied an operation."""
        self._note(sender, f"{access.principal}: {error.message}")

    def _note(self, sender: Sender, reason: str) -> None:
        if self._notes.take(address_key(sender.address)):
            # Names in it are those that the client sent.
            text = "".join(each if each.isprintable() else "?" for each in reason[:NOTE_CHARACTERS_MAX])
            _LOG.warning("refused a request from %s: %s", sender.address, text)
