"""The records of a panel by the schemas of a registry, without holding up the panel.

A panel shows what is known within QUICK_S, and is computed again when the rest is decoded, or when a registry that did
not answer may be asked again. It rests in proportion to the time of a computation, so that waiting would make it slow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from broker_cy.client.decoded import Decoder, Seen, undecoded
from broker_cy.console.listeners import Listener, Listeners
from broker_cy.console.scan import Row

QUICK_S: Final = 0.05
AGAIN_S: Final = 1.0
"""Between two attempts to decode what a panel shows."""


class DecodedRows:
    """The decoded rows of one panel, and a Source (broker_cy.console.listeners) that calls when more is known.

    `decoder` None: the cluster has no registry.
    """

    error: str | None = None
    age_s: float | None = 0.0

    def __init__(self, decoder: Decoder | None, topic: str) -> None:
        self._decoder = decoder
        self._topic = topic
        self._listeners = Listeners()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        # The panel was shown before the task ended.
        self._is_late = False
        # Decoded rows that were not taken yet: those of one computation.
        self._ready: dict[tuple[int, int], Seen] = {}

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    @property
    def notice(self) -> str:
        """Why records are shown as bytes; empty if the registry answers. The panel is computed again until it does."""
        found = "" if self._decoder is None else self._decoder.notice
        if found:
            self._call_again()
        return found

    async def seen(self, rows: Sequence[Row]) -> list[Seen]:
        """Return rows as they are known by now."""
        if self._decoder is None:
            return [undecoded(row.record) for row in rows]
        lacking = [row for row in rows if _place(row) not in self._ready]
        if self._task is None and lacking:
            self._is_late = False
            self._task = asyncio.create_task(self._decode(self._decoder, lacking))
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=QUICK_S)
            self._is_late = self._task is not None
        ready, self._ready = self._ready, {}
        found = [ready.get(_place(row)) or self._decoder.look(self._topic, row.record) for row in rows]
        if not self._is_late and not all(each.is_final for each in found):
            self._call_again()
        return found

    async def _decode(self, decoder: Decoder, rows: Sequence[Row]) -> None:
        try:
            found = await decoder.seen(self._topic, [row.record for row in rows])
            self._ready |= {_place(row): seen for row, seen in zip(rows, found, strict=True)}
        finally:
            self._task = None
        if self._is_late:
            self._is_late = False
            self._listeners.call()

    def _call_again(self) -> None:
        if self._timer is None and self._listeners and self._decoder is not None:
            delay_s = max(AGAIN_S, self._decoder.retry_in_s)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._call)

    def _call(self) -> None:
        self._timer = None
        self._listeners.call()

    async def close(self) -> None:
        task, self._task = self._task, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _place(row: Row) -> tuple[int, int]:
    return row.partition, row.record.offset
