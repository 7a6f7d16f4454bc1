"""Gathers failed logins, failed TLS handshakes and denied accesses for events: equal ones are one event with a count.

The first denial after a quiet time is written FIRST_S later, with all others of that time. From then on the gathered
denials are written each PERIOD_S, until a period has none. Bounds: KEYS_MAX different denials of a kind in one
period, further ones are only counted, and texts of metrics.events.TEXT_CHARACTERS_MAX. The authorizer explains each
event once, not each denial.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from broker_cy.events.security_changes import acl_of
from broker_cy.metrics.events import AccessDenied, LoginFailed, cut
from broker_cy.security.acls import Permission

if TYPE_CHECKING:
    import asyncio

    from broker_cy.core.clock import Clock
    from broker_cy.metrics.events import Event
    from broker_cy.security.authorizer import Explanation

FIRST_S: Final = 0.2
PERIOD_S: Final = 10.0
KEYS_MAX: Final = 50
NEAR_MAX: Final = 3
# The mechanism of a login that is a handshake.
TLS: Final = "TLS"

E = TypeVar("E", LoginFailed, AccessDenied)


class _Kind(Generic[E]):
    """The denials of one kind that are not written yet."""

    def __init__(self) -> None:
        self.events: dict[Hashable, E] = {}
        self.left_out = 0

    def count(self, key: Hashable, make: Callable[[], E], now_ms: int) -> None:
        event = self.events.get(key)
        if event is None:
            if len(self.events) >= KEYS_MAX:
                self.left_out += 1
                return
            event = self.events[key] = make()
            event.first_ms = now_ms
        event.count += 1

    def take(self) -> list[E]:
        found = list(self.events.values())
        if found:
            found[0].left_out = self.left_out
        self.events, self.left_out = {}, 0
        return found


class Denials:
    """The denials of one broker; `note` writes an event."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop, note: Callable[[Event], None]) -> None:
        self._clock = clock
        self._loop = loop
        self._note = note
        self._logins: _Kind[LoginFailed] = _Kind()
        self._rights: _Kind[AccessDenied] = _Kind()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def login_failed(self, listener: str, host: str, mechanism: str, user: str, reason: str, *, again: bool) -> None:
        """`user` is a name as it is shown (sasl.exchange.shown)."""
        key = (listener, host, mechanism, user, reason, again)

        def make() -> LoginFailed:
            return LoginFailed(listener, host, cut(mechanism), user, cut(reason), again)

        self._logins.count(key, make, self._clock.wall_ms())
        self._expect()

    def handshake_failed(self, listener: str, host: str, reason: str) -> None:
        """A handshake that this node or the client refused; the client is not authenticated yet."""
        self.login_failed(listener, host, TLS, "", reason, again=False)

    def denied(
        self,
        principal: str,
        host: str,
        api: str,
        operation: str,
        resource_type: str,
        name: str,
        explain: Callable[[], Explanation | None],
    ) -> None:
        """`explain` returns why it was refused; None: the ACLs are not loaded yet."""
        key = (principal, host, api, operation, resource_type, name)

        def make() -> AccessDenied:
            event = AccessDenied(cut(principal), host, api, operation, resource_type, cut(name), "not_loaded")
            found = explain()
            if found is not None:
                event.reason = found.reason.name.lower()
                event.rule = None if found.binding is None else acl_of(found.binding)
                allowing = [each for each in found.near if each.permission is Permission.ALLOW]
                event.near = [acl_of(each) for each in allowing[:NEAR_MAX]]
            return event

        self._rights.count(key, make, self._clock.wall_ms())
        self._expect()

    def _expect(self) -> None:
        if self._timer is None and not self._is_stopped:
            self._timer = self._loop.call_later(FIRST_S, self._on_time)

    def _on_time(self) -> None:
        self._timer = self._loop.call_later(PERIOD_S, self._on_time) if self.flush() else None

    def flush(self) -> bool:
        """Write the gathered denials, and return whether any was written."""
        found: list[Event] = [*self._logins.take(), *self._rights.take()]
        for event in found:
            self._note(event)
        return bool(found)

    def stop(self) -> None:
        """Write the gathered denials; later ones are not written."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.flush()
