"""The data directories of this broker whose disks have failed, as the controller learns of them (KIP-858).

Heartbeats name them until this process ends, and the next one is sent immediately. The controller then elects other
leaders for their partitions. Like Kafka's, a broker without any data directory left ends as soon as the controller has
fenced it. A broker also ends if the controller does not acknowledge the failure within log.dir.failure.timeout.ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

# How long a broker without a data directory waits for the controller. It has nothing to do, and the others notice soon
# that its process has ended.
LAST_S: Final = 2.0


class FailedDirectories:
    """`directory_ids` are all that the broker has registered. `hurry()` sends a heartbeat; `end(reason)` ends the
    broker, and is called once.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        directory_ids: Sequence[UUID],
        timeout_s: float,
        hurry: Callable[[], object],
        end: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._directory_ids = frozenset(directory_ids)
        self._timeout_s = timeout_s
        self._hurry = hurry
        self._end = end
        self._reasons: dict[UUID, str] = {}
        # The failures that the controller has not acknowledged, each with the time when the broker ends.
        self._timers: dict[UUID, asyncio.TimerHandle] = {}
        self._has_ended = False

    @property
    def ids(self) -> tuple[UUID, ...]:
        """The directories that have failed since the start."""
        return tuple(self._reasons)

    @property
    def has_all(self) -> bool:
        """Whether no data directory is left."""
        return self._directory_ids <= self._reasons.keys()

    def add(self, directory_id: UUID, reason: str) -> None:
        """A directory has failed, for `reason`."""
        self._reasons[directory_id] = reason
        wait_s = min(LAST_S, self._timeout_s) if self.has_all else self._timeout_s
        late = f"{reason}. No active controller has acknowledged that within {wait_s:g} s"
        self._timers[directory_id] = self._loop.call_later(wait_s, self._stop, late)
        self._hurry()

    def acknowledged(self, directory_ids: Iterable[UUID]) -> None:
        """The controller has answered a heartbeat that named these."""
        for each in directory_ids:
            if (timer := self._timers.pop(each, None)) is not None:
                timer.cancel()
        if self.has_all and not self._timers:
            self._stop(f"{self._reasons[next(reversed(self._reasons))]}, and no other one is left (log.dirs)")

    def _stop(self, reason: str) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._end(f"{reason}: replace the disk, and format the new one with broker-cy storage format")
