"""The clients that have asked for subscriptions to their metrics (KIP-714), and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.core.clock import Clock

# Kafka's default interval of a subscription, and how many clients it remembers; each takes about 200 bytes.
PUSH_INTERVAL_MS: Final = 300_000
CLIENTS_MAX: Final = 16_384


class ClientInstances:
    """As in Kafka, a client may ask once in each interval; the one that has not asked for the longest is forgotten."""

    def __init__(self, clock: Clock, clients_max: int = CLIENTS_MAX) -> None:
        self._clock = clock
        self._max = clients_max
        self._asked_s: dict[UUID, float] = {}

    def may_ask(self, client_id: UUID) -> bool:
        """Whether a client that asks now is answered; then its next interval begins."""
        now_s = self._clock.monotonic()
        before_s = self._asked_s.get(client_id)
        if before_s is not None and now_s - before_s < PUSH_INTERVAL_MS / 1000:
            return False
        self._asked_s.pop(client_id, None)
        self._asked_s[client_id] = now_s
        if len(self._asked_s) > self._max:
            del self._asked_s[next(iter(self._asked_s))]
        return True
