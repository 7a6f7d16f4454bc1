"""Progress of a run of moves, between brokers (admin.mover) or between directories (admin.directory_mover), and the
clean-up at its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError
from broker_cy.core.classes import dataclass

# Time over which the rate is measured.
RATE_WINDOW_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far a plan is. Bytes are those that replicas copy; `rate` is None until it is known."""

    moves: int
    done: int
    failed: int
    under_way: tuple[TopicPartition, ...]
    copied_bytes: int
    total_bytes: int
    rate_bytes_per_s: float | None

    @property
    def left_s(self) -> float | None:
        """The time until everything is copied; None if it is not known."""
        if not self.rate_bytes_per_s:
            return None
        return max(0, self.total_bytes - self.copied_bytes) / self.rate_bytes_per_s

    @property
    def is_over(self) -> bool:
        return self.done + self.failed == self.moves


class CopyRate:
    """The rate of the last RATE_WINDOW_S."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, now_s: float, copied_bytes: int) -> None:
        samples = self._samples
        samples.append((now_s, copied_bytes))
        while len(samples) > 2 and now_s - samples[0][0] > RATE_WINDOW_S:
            samples.popleft()

    @property
    def bytes_per_s(self) -> float | None:
        if len(self._samples) < 2:
            return None
        (from_s, before), (to_s, after) = self._samples[0], self._samples[-1]
        return max(0, after - before) / (to_s - from_s) if to_s > from_s else None


async def finish(cleaning: Coroutine[Any, Any, None], left_behind: list[ClientError]) -> None:
    """Wait for a clean-up even if the task is cancelled once more meanwhile. Its failure goes to `left_behind`."""
    task = asyncio.ensure_future(cleaning)
    interrupted = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            interrupted = True
        except ClientError as error:
            left_behind.append(error)
    if interrupted:
        raise asyncio.CancelledError
