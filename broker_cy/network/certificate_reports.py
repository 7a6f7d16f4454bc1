"""Reports on the certificates of a node's listeners, in its log and in events: exchanged, refused, about to expire.

Bounds: the expiry of a certificate is reported once for each number of DAYS, and again after a restart; refusals of the
same kind at a listener once in REFUSED_AGAIN_MS, of REFUSED_MAX different ones in that time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker_cy.core.logs import facts
from broker_cy.metrics.events import CertificateExchanged, CertificateExpires, CertificateRefused, cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.core.clock import Clock
    from broker_cy.metrics.events import Event
    from broker_cy.security.tls.certificate import Certificate

LOGGER = logging.getLogger("broker_cy.server.connections.tls")

# Before the end of a certificate; 0: it has ended.
DAYS: Final = (0, 1, 7, 30)
DAY_MS: Final = 86_400_000
REFUSED_AGAIN_MS: Final = 10_000
REFUSED_MAX: Final = 50


class CertificateReports:
    """The reports of one node; `note` writes an event."""

    def __init__(self, clock: Clock, note: Callable[[Event], None]) -> None:
        self._clock = clock
        self._note = note
        # When it was reported last, by listener and reason.
        self._refused: dict[tuple[str, str], int] = {}
        # By listener: the end of the certificate, and the least number of days that was reported.
        self._reported: dict[str, tuple[int, int]] = {}

    def exchanged(self, listener: str, before: Certificate | None, after: Certificate | None) -> None:
        """A listener uses another key store or trust store from now on. A certificate is None if the node shows none,
        because it only connects to this listener of other nodes.
        """
        subject = "" if after is None else after.subject
        LOGGER.info("certificate exchanged", extra=facts(listener=listener, subject=subject))
        self._note(CertificateExchanged(listener, *_shown(after), *_shown(before)))

    def refused(self, listener: str, reason: str, in_use: Certificate | None) -> None:
        """A key store or trust store is not used, and the one before stays in use."""
        now_ms = self._clock.wall_ms()
        recent = {key: at_ms for key, at_ms in self._refused.items() if 0 <= now_ms - at_ms < REFUSED_AGAIN_MS}
        self._refused = recent
        if (listener, reason) in recent or len(recent) >= REFUSED_MAX:
            return
        recent[listener, reason] = now_ms
        LOGGER.error("changed key store or trust store not used", extra=facts(reason=reason))
        self._note(CertificateRefused(listener, cut(reason), *_shown(in_use)))

    def look(self, listener: str, in_use: Certificate) -> None:
        """Report a certificate that ends soon."""
        left_ms = in_use.not_after_ms - self._clock.wall_ms()
        days = next((each for each in DAYS if left_ms <= each * DAY_MS), None)
        if days is None:
            return
        end_ms, least = self._reported.get(listener, (in_use.not_after_ms, DAYS[-1] + 1))
        if end_ms == in_use.not_after_ms and days >= least:
            return
        self._reported[listener] = in_use.not_after_ms, days
        event = "certificate has ended" if days == 0 else "certificate ends soon"
        LOGGER.log(
            logging.ERROR if days == 0 else logging.WARNING,
            event,
            extra=facts(listener=listener, subject=in_use.subject, days=days),
        )
        self._note(CertificateExpires(listener, cut(in_use.subject), in_use.not_after_ms, days))


def _shown(certificate: Certificate | None) -> tuple[str, int]:
    """Subject and end in an event."""
    return ("", 0) if certificate is None else (cut(certificate.subject), certificate.not_after_ms)
