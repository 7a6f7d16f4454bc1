"""Repeats a request of this node to the active controller until it is no longer needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker_cy.core.errors import KafkaError
from broker_cy.core.logs import facts

LOGGER = logging.getLogger("broker_cy.server.metadata")

# The pause after the first request, which doubles with each further one.
BACKOFF_S: Final = 0.1


class Retries:
    """The pauses between requests of one kind: also after a success, because its effect may have been undone."""

    def __init__(self, failed: str, backoff_s_max: float) -> None:
        """`failed` is the log line of a request that failed; each reason is logged once."""
        self._failed = failed
        self._backoff_s = BACKOFF_S
        self._backoff_s_max = backoff_s_max

    async def run(self, request: Callable[[], Coroutine[Any, Any, object] | None]) -> None:
        """Repeat the request until `request()` returns None."""
        reason = ""
        while (asked := request()) is not None:
            try:
                await asked
            except KafkaError as error:
                if str(error) != reason:
                    reason = str(error)
                    LOGGER.warning(self._failed, extra=facts(reason=reason))
            await asyncio.sleep(self._backoff_s)
            self._backoff_s = min(2 * self._backoff_s, self._backoff_s_max)
