"""Probes one incarnation of a node repeatedly, on the connection that watches it (broker_watch).

The probe is an ApiVersions request with a special client software name; a node of broker-cy answers it with a feature
of that name. Other nodes are not judged: a broker of Kafka has only its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy import __version__
from broker_cy.client.connection import ConnectionFailed, TimedOut
from broker_cy.client.deadline import Deadline
from broker_cy.controller.pulse import INTERVAL_MS_MIN, LIVENESS, Pulse
from broker_cy.core.errors import WireError
from broker_cy.core.supervision import keep_running
from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from broker_cy.client.connection import Connection

# The version of ApiVersions; each node of this kind knows it.
VERSION: Final = 3
# A question without an answer for this time ends the connection, and another one is made.
ANSWER_S: Final = 60.0


class Liveness:
    """The liveness of one incarnation; it remembers over several connections how fast the node answers. `is_ours` is
    whether the node is one of this kind, None before it has answered.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, interval_ms: int, on_ours: Callable[[], None] = lambda: None
    ) -> None:
        """With an `interval_ms` of 0 the node is only asked which kind it is. `on_ours`: it is one of this kind."""
        self.is_ours: bool | None = None
        self._loop = loop
        self._asks_again = interval_ms > 0
        self._on_ours = on_ours
        self._pulse = Pulse(max(interval_ms, INTERVAL_MS_MIN))
        self._body = codec.encode(
            messages.ApiVersionsRequest(client_software_name=LIVENESS, client_software_version=__version__), VERSION
        )

    async def follow(self, connection: Connection, on_silent: Callable[[bool], None]) -> None:
        """Ask until the connection ends. `on_silent(True)`: the node stands still; `on_silent(False)`: no longer."""
        self._pulse.disconnected()
        asking: asyncio.Task[None] | None = None
        was_silent = False
        try:
            while connection.closed is None and self.is_ours is not False:
                turn = self._pulse.turn(self._now_ms())
                if turn.ask:
                    asking = keep_running(self._loop, lambda: self._ask(connection), "a question of liveness")
                if not self._asks_again:
                    break
                if turn.is_silent != was_silent and self.is_ours:
                    was_silent = turn.is_silent
                    on_silent(was_silent)
                await connection.ended(self._pulse.interval_ms / 1000)
            await connection.ended()
        finally:
            if asking is not None:
                asking.cancel()

    async def _ask(self, connection: Connection) -> None:
        try:
            data = await connection.exchange(ApiKey.API_VERSIONS, VERSION, self._body, Deadline(ANSWER_S))
        except (ConnectionFailed, TimedOut):
            return
        self._pulse.answered(self._now_ms())
        if self.is_ours is None:
            self.is_ours = _is_of_this_kind(data)
            if self.is_ours:
                self._on_ours()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


def _is_of_this_kind(data: memoryview) -> bool:
    try:
        answer = codec.decode(messages.ApiVersionsResponse, VERSION, data)
    except WireError:
        # An answer in version 0: the node does not know this version.
        return False
    return any(each.name == LIVENESS for each in answer.supported_features)
