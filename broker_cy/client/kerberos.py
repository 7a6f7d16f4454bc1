"""Kerberos of the machine: security contexts of libgssapi_krb5, through python-gssapi (the extra `gssapi`).

Imported only for logins with GSSAPI. Its calls block, and release the GIL meanwhile. A server's calls wait for a key
file and the replay cache; a client's calls also wait for the key distribution center, as long as krb5.conf allows. One
thread may use a context at a time.

The library reads its configuration from /etc/krb5.conf or KRB5_CONFIG. A client with a keytab gets its ticket when it
is first needed, and the next one after half of its lifetime, into a cache in memory.
"""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import gssapi

from broker_cy.security.sasl.gssapi import GssError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.security.sasl.exchange import KerberosLogin

P = ParamSpec("P")
R = TypeVar("R")

# Logins of the process's clients run in these threads: CLIENT_THREADS at a time, independent of its other work.
CLIENT_THREADS: Final = 4
WORKERS: Final = ThreadPoolExecutor(CLIENT_THREADS, thread_name_prefix="kerberos")
REASON_CHARACTERS_MAX: Final = 300
_FLAGS: Final = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
_caches: Final = itertools.count()


def _reason(error: gssapi.exceptions.GSSError) -> str:
    """The reason that Kerberos gives, if any, else that of GSSAPI."""
    major = error.get_all_statuses(error.maj_code, True)
    minor = [text for text in error.get_all_statuses(error.min_code, False) if text not in ("Unknown error", "Success")]
    text = "; ".join(minor or major)[:REASON_CHARACTERS_MAX]
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _checked(call: Callable[P, R]) -> Callable[P, R]:
    """With GssError in place of the errors of the library."""

    @wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except gssapi.exceptions.GSSError as error:
            raise GssError(_reason(error)) from None

    return wrapped


class _SecurityContext(gssapi.SecurityContext):  # type: ignore[misc]
    """Raises an error from the call that has it, and not from the next one (see below)."""


# The class statement itself would not do: its metaclass sets it to True.
_SecurityContext.__DEFER_STEP_ERRORS__ = False


class KerberosContext:
    """One context (security.sasl.gssapi.Context)."""

    def __init__(self, context: gssapi.SecurityContext) -> None:
        self._context = context
        self.is_complete = False

    @_checked
    def step(self, token: bytes) -> bytes:
        answer: bytes | None = self._context.step(token or None)
        if self._context.complete:
            if self._context.mech != gssapi.MechType.kerberos:
                raise GssError("another mechanism than Kerberos")
            self.is_complete = True
        return answer or b""

    @_checked
    def initiator(self) -> str:
        if gssapi.RequirementFlag.anonymity in self._context.actual_flags:
            raise GssError("an anonymous client")
        try:
            return bytes(self._context.initiator_name).decode()
        except UnicodeDecodeError:
            raise GssError("a principal that is not UTF-8") from None

    @_checked
    def wrap(self, message: bytes) -> bytes:
        found: bytes = self._context.wrap(message, False).message
        return found

    @_checked
    def unwrap(self, token: bytes) -> bytes:
        found: bytes = self._context.unwrap(token).message
        return found


def _principal(name: str) -> gssapi.Name:
    return gssapi.Name(name, gssapi.NameType.kerberos_principal)


@_checked
def default_realm() -> str:
    """The default realm of krb5.conf."""
    text: str = bytes(_principal("tmp").canonicalize(gssapi.MechType.kerberos)).decode()
    return text.partition("@")[2]


class Acceptor:
    """The half of a server: it has the key of its principal. Raises GssError, if it does not."""

    @_checked
    def __init__(self, login: KerberosLogin) -> None:
        self._credentials = gssapi.Credentials(
            name=_principal(login.principal),
            mechs=[gssapi.MechType.kerberos],
            usage="accept",
            store={"keytab": login.location} if login.location else None,
        )

    @_checked
    def begin(self) -> KerberosContext:
        return KerberosContext(_SecurityContext(creds=self._credentials, usage="accept"))


class Initiator:
    """The half of a client, for any number of connections. Its `repr` has no key."""

    def __init__(self, login: KerberosLogin) -> None:
        # The threads in which its calls run.
        self.workers = WORKERS
        self._login = login
        # One thread at a time requests tickets; the others then find them in the cache.
        self._lock = threading.Lock()
        if login.uses_tickets:
            self._store = {"ccache": login.location} if login.location else None
        else:
            self._store = {"ccache": f"MEMORY:broker-cy-{next(_caches)}"}
            if login.location:
                self._store["client_keytab"] = login.location

    def __repr__(self) -> str:
        return f"Initiator({self._login.principal})"

    @_checked
    def begin(self, host: str) -> KerberosContext:
        """A context with the server on the host."""
        # Acquired each time, because that is when the library renews a ticket.
        login = self._login
        with self._lock:
            try:
                credentials = gssapi.Credentials(
                    name=_principal(login.principal) if login.principal else None,
                    mechs=[gssapi.MechType.kerberos],
                    usage="initiate",
                    store=self._store,
                )
            except gssapi.exceptions.GSSError as error:
                if login.uses_tickets:
                    raise
                # The library often reports only that no ticket exists yet.
                reason, keytab = _reason(error), login.location or "the default key table"
                if login.location and not os.access(login.location, os.R_OK):
                    reason = "it cannot be read"
                raise GssError(f"no ticket for {login.principal} with the keys in {keytab}: {reason}") from None
        target = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
        return KerberosContext(
            _SecurityContext(
                name=target, creds=credentials, mech=gssapi.MechType.kerberos, flags=_FLAGS, usage="initiate"
            )
        )
