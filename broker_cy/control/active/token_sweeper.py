"""Removes delegation tokens that have expired, every delegation.token.expiry.check.interval.ms, while this node is the
active controller. Until then they do not count, and are only listed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker_cy.controller.token_ops import SweepTokens
from broker_cy.core.errors import KafkaError
from broker_cy.core.logs import facts

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.control.active.active_controller import ActiveController

LOGGER = logging.getLogger("broker_cy.server.metadata")

# The time between two sweeps if the first one left some tokens.
STEP_S: Final = 1.0


class TokenSweeper:
    """Runs until `stop`."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, active: ActiveController) -> None:
        self._interval_s: float = config["delegation.token.expiry.check.interval.ms"] / 1000
        self._loop = loop
        self._active = active
        self._is_running = True
        self._timer = loop.call_later(self._interval_s, self._sweep)

    def stop(self) -> None:
        self._is_running = False
        self._timer.cancel()

    def _sweep(self) -> None:
        self._again(self._interval_s)
        try:
            self._active.submit(SweepTokens()).add_done_callback(self._swept)
        except KafkaError as error:
            # It is tried again after the interval.
            LOGGER.warning("could not remove expired delegation tokens", extra=facts(reason=error))

    def _swept(self, done: asyncio.Future[bool]) -> None:
        if not done.cancelled() and done.exception() is None and done.result() and self._is_running:
            self._again(min(STEP_S, self._interval_s))

    def _again(self, after_s: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(after_s, self._sweep)
