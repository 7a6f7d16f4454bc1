"""The measurements of one operation, such as Produce, by the users of one kind between two reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.measuring.histogram import Histogram

# Names of errors that are counted separately; further ones count as "other".
ERRORS_MAX = 50
OTHER = "other"


class Meter:
    """Counts since the last `take`. Times are nanoseconds of this host's monotonic clock.

    `latency` counts from the time at which the operation was due, and includes failed operations, because clients
    waited for them, too. `service` counts from the time at which the request was sent.

    An operation that was due before `start_ns`, in the warm-up, and ends after it is not counted: it does not belong to
    the measured time. 0: no warm-up.
    """

    def __init__(self, name: str, start_ns: int = 0) -> None:
        self.name, self.start_ns = name, start_ns
        self._clear()

    def _clear(self) -> None:
        self.requests = self.records = self.bytes = 0
        self.errors: dict[str, int] = {}
        self.latency, self.service = Histogram(), Histogram()

    def done(self, due_ns: int, sent_ns: int, now_ns: int, records: int = 1, size_bytes: int = 0) -> None:
        """Count an operation that succeeded."""
        if due_ns < self.start_ns <= now_ns:
            return
        self.requests += 1
        self.records += records
        self.bytes += size_bytes
        self.latency.add(now_ns - due_ns)
        self.service.add(now_ns - sent_ns)

    def failed(self, error: str, due_ns: int, sent_ns: int, now_ns: int) -> None:
        """Count an operation that failed: `error` is Kafka's name of the code, or the reason in a few words."""
        if due_ns < self.start_ns <= now_ns:
            return
        self.latency.add(now_ns - due_ns)
        self.service.add(now_ns - sent_ns)
        self._fail(error, 1)

    def _fail(self, error: str, count: int) -> None:
        if error not in self.errors and len(self.errors) >= ERRORS_MAX:
            error = OTHER
        self.errors[error] = self.errors.get(error, 0) + count

    def add(
        self,
        requests: int,
        records: int,
        size_bytes: int,
        latency: Histogram,
        service: Histogram,
        errors: Mapping[str, int] | None = None,
    ) -> None:
        """Count operations that an engine measured itself, and those that failed by the name of the error."""
        self.requests += requests
        self.records += records
        self.bytes += size_bytes
        self.latency.merge(latency)
        self.service.merge(service)
        for name, count in (errors or {}).items():
            self._fail(name, count)

    def take(self) -> dict[str, Any] | None:
        """Return the state of the interval, which `Operation.add` reads, and begin the next; None if it is empty."""
        if not (self.requests or self.errors or self.latency.count or self.records):
            return None
        state = {
            "requests": self.requests,
            "records": self.records,
            "bytes": self.bytes,
            "errors": self.errors,
            "latency": self.latency.state(),
            "service": self.service.state(),
        }
        self._clear()
        return state
