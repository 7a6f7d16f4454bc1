"""The time that an instance goes on without progress, while the cluster fails with errors that pass (task.timeout.ms,
KIP-572).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from broker_streams.kernel.errors import StreamsError

_LOG = logging.getLogger("broker_streams")
# Failures further apart than this have nothing to do with each other: a call fails after some 30 s.
APART_S: Final = 300.0
# Between two warnings about one subject.
LOG_S: Final = 10.0
# The subjects of failures, besides tasks.
COMMIT: Final = "a commit"
INPUTS: Final = "reading inputs"
GLOBAL_STORES: Final = "reading topics of global stores"
MEMBERSHIP: Final = "a heartbeat of the group"


class TaskTimeout:
    """Counts the time since the first of several failures, for each subject. One for each instance."""

    def __init__(self, timeout_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._timeout_ms, self._now_s = timeout_ms, now_s
        # The first and the last failure of each subject, and when it was logged. There are few more than tasks.
        self._failing: dict[str, tuple[float, float, float]] = {}

    def failed(self, subject: str, error: Exception) -> None:
        """Raises StreamsError: the subject has failed for longer than task.timeout.ms."""
        now_s = self._now_s()
        first_s, last_s, logged_s = self._failing.get(subject, (now_s, now_s, -math.inf))
        if now_s - last_s > APART_S:
            first_s = now_s
        is_logged = now_s - logged_s >= LOG_S
        self._failing[subject] = first_s, now_s, now_s if is_logged else logged_s
        lasted_ms = round((now_s - first_s) * 1000)
        if lasted_ms > self._timeout_ms:
            raise StreamsError(
                f"{subject} has failed for {lasted_ms} ms, and task.timeout.ms is {self._timeout_ms}: {error}"
            ) from error
        if is_logged:
            _LOG.warning("%s failed and is tried again: %s", subject, error)

    def passed(self, subject: str) -> None:
        self._failing.pop(subject, None)
