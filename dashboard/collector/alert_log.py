"""The alerts of a cluster that began to fire or were resolved since the dashboard started: the newest ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from broker_cy.console.alerts.watch import Notice
from broker_cy.console.listeners import Listener, Listeners, call

# Notices that are kept. A rule announces at most 50 alerts at once, and every alert once.
NOTICES_MAX = 2_000


class AlertLog:
    """`notices` has the newest, the oldest first; `dropped` counts older ones. It is a source of channels."""

    def __init__(self, notices_max: int = NOTICES_MAX) -> None:
        self._notices: deque[Notice] = deque(maxlen=notices_max)
        self._listeners = Listeners()
        self.dropped = 0

    @property
    def notices(self) -> Sequence[Notice]:
        return self._notices

    @property
    def error(self) -> str | None:
        return None

    @property
    def age_s(self) -> float | None:
        return 0.0

    def add(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self.dropped += len(self._notices) == self._notices.maxlen
            self._notices.append(notice)
        self._listeners.call()

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)
