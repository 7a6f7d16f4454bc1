"""Log lines of the server that could come at any rate: limited, with the number of those left out."""

from __future__ import annotations

import logging
import time

LOGGER = logging.getLogger("broker_cy.server")

# At most this many lines of one kind in one window; the rest is counted and told with the next line.
LINES_PER_WINDOW = 10
WINDOW_S = 1.0


class RateLimit:
    """Lets LINES_PER_WINDOW events through per WINDOW_S."""

    def __init__(self) -> None:
        self.window_start = 0.0
        self.passed = 0
        self.suppressed = 0

    def allow(self, now: float) -> int | None:
        """None where the event is to be left out, else how many were left out before it."""
        if now - self.window_start >= WINDOW_S:
            self.window_start, self.passed = now, 0
        if self.passed >= LINES_PER_WINDOW:
            self.suppressed += 1
            return None
        self.passed += 1
        left_out, self.suppressed = self.suppressed, 0
        return left_out


_bad_requests = RateLimit()
_refused = RateLimit()
_full = RateLimit()
_internal_errors = RateLimit()
_disk_errors = RateLimit()
_offline = RateLimit()
_not_created = RateLimit()
_transactions = RateLimit()

# Of a list that a client made, this many are told.
NAMES_TOLD_MAX = 10


def bad_request(host: str, port: int, api: str, reason: str) -> None:
    """One line for a connection that is closed because of what its peer sent."""
    left_out = _bad_requests.allow(time.monotonic())
    if left_out is not None:
        LOGGER.warning(
            "connection closed: bad request",
            extra={"fields": {"peer": f"{host}:{port}", "api": api or "-", "reason": reason, "left_out": left_out}},
        )


def connection_refused(listener: str, host: str, port: int, limit: int) -> None:
    """One line for a connection beyond max.connections.per.ip, which is closed at once."""
    left_out = _refused.allow(time.monotonic())
    if left_out is not None:
        fields = {"listener": listener, "peer": f"{host}:{port}", "limit": limit, "left_out": left_out}
        LOGGER.warning("connection refused: max.connections.per.ip", extra={"fields": fields})


def connections_full(listener: str, connections: int) -> None:
    """One line for a listener that accepts nothing until a connection ends."""
    left_out = _full.allow(time.monotonic())
    if left_out is not None:
        LOGGER.warning(
            "max.connections or the limit of descriptors reached: accepting nothing until a connection ends",
            extra={"fields": {"listener": listener, "connections": connections, "left_out": left_out}},
        )


def internal_error(host: str, port: int, error: BaseException) -> None:
    """A defect of ours met while serving a connection, with its traceback."""
    left_out = _internal_errors.allow(time.monotonic())
    if left_out is not None:
        LOGGER.error(
            "connection closed: internal error",
            exc_info=error,
            extra={"fields": {"peer": f"{host}:{port}", "left_out": left_out}},
        )


def disk_error(partition: str, what: str, error: BaseException) -> None:
    """A log file could not be written or read; producers were told KAFKA_STORAGE_ERROR."""
    left_out = _disk_errors.allow(time.monotonic())
    if left_out is not None:
        LOGGER.error(
            "disk error",
            extra={"fields": {"partition": partition, "what": what, "reason": str(error), "left_out": left_out}},
        )


def partition_offline(partition: str, reason: str, retry_s: float) -> None:
    """A partition has no log for now; its clients are told KAFKA_STORAGE_ERROR."""
    left_out = _offline.allow(time.monotonic())
    if left_out is not None:
        fields = {"partition": partition, "reason": reason, "retry_s": retry_s, "left_out": left_out}
        LOGGER.error("partition offline", extra={"fields": fields})


def topics_not_created(names: list[str], reason: str) -> None:
    """Topics that a client asked for and that could not be created on the side; it was told that they do not exist."""
    left_out = _not_created.allow(time.monotonic())
    if left_out is not None:
        told = (
            names if len(names) <= NAMES_TOLD_MAX else [*names[:NAMES_TOLD_MAX], f"and {len(names) - NAMES_TOLD_MAX}"]
        )
        fields = {"topics": ",".join(told), "reason": reason, "left_out": left_out}
        LOGGER.warning("topics not created", extra={"fields": fields})


def transactions_refused(transactional_id: str, host: str) -> None:
    """A transactional producer, which was told TRANSACTIONAL_ID_AUTHORIZATION_FAILED; few clients show the words."""
    left_out = _transactions.allow(time.monotonic())
    if left_out is not None:
        fields = {"transactional_id": transactional_id, "peer": host, "left_out": left_out}
        LOGGER.warning("producer refused: transactions are not served yet", extra={"fields": fields})
