"""Rate-limited log lines of the server."""

from __future__ import annotations

import logging

from broker_cy.core.clock import Clock
from broker_cy.core.log_limits import RateLimit

# This many elements of a client's list are logged.
NAMES_SHOWN_MAX = 10


class LogEvents:
    """The log lines of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._bad_requests = RateLimit(clock)
        self._refused = RateLimit(clock)
        self._full = RateLimit(clock)
        self._internal_errors = RateLimit(clock)
        self._disk_errors = RateLimit(clock)
        self._offline = RateLimit(clock)
        self._not_created = RateLimit(clock)
        self._markers = RateLimit(clock)
        self._logins = RateLimit(clock)
        self._handshakes = RateLimit(clock)
        self._denied = RateLimit(clock)

    def bad_request(self, host: str, port: int, api: str, reason: str) -> None:
        """Log that a connection is closed because of bytes that its peer sent."""
        event = "connection closed: bad request"
        self._bad_requests.log(logging.WARNING, event, peer=f"{host}:{port}", api=api or "-", reason=reason)

    def login_failed(
        self, listener: str, host: str, port: int, mechanism: str, user: str, reason: str, *, again: bool
    ) -> None:
        """Log a client that could not log in; `user` is a name as it is shown."""
        self._logins.log(
            logging.WARNING,
            "login failed",
            listener=listener,
            peer=f"{host}:{port}",
            mechanism=mechanism or "-",
            user=user or "-",
            reason=reason,
            again=again,
        )

    def handshake_failed(self, listener: str, host: str, port: int, reason: str) -> None:
        """Log a client whose TLS handshake failed."""
        event = "TLS handshake failed"
        self._handshakes.log(logging.WARNING, event, listener=listener, peer=f"{host}:{port}", reason=reason)

    def connection_refused(self, listener: str, host: str, port: int, limit: int) -> None:
        """Log a connection beyond max.connections.per.ip, which is closed immediately."""
        event = "connection refused: max.connections.per.ip"
        self._refused.log(logging.WARNING, event, listener=listener, peer=f"{host}:{port}", limit=limit)

    def connections_full(self, listener: str, connections: int) -> None:
        """Log that a listener accepts nothing until a connection ends."""
        event = "max.connections or the limit of descriptors reached: accepting nothing until a connection ends"
        self._full.log(logging.WARNING, event, listener=listener, connections=connections)

    def internal_error(self, host: str, port: int, error: BaseException) -> None:
        """Log an internal error while serving a connection, with its traceback."""
        self._internal_errors.log(
            logging.ERROR, "connection closed: internal error", error=error, peer=f"{host}:{port}"
        )

    def disk_error(self, partition: str, what: str, error: BaseException) -> None:
        """Log that a log file could not be written or read; producers received KAFKA_STORAGE_ERROR."""
        self._disk_errors.log(logging.ERROR, "disk error", partition=partition, what=what, reason=str(error))

    def partition_offline(self, partition: str, reason: str, retry_s: float) -> None:
        """Log that a partition is offline; its clients receive KAFKA_STORAGE_ERROR."""
        self._offline.log(logging.ERROR, "partition offline", partition=partition, reason=reason, retry_s=retry_s)

    def topics_not_created(self, names: list[str], reason: str) -> None:
        """Log topics that a client requested and that could not be created automatically; the client received
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        more = [f"and {len(names) - NAMES_SHOWN_MAX}"] if len(names) > NAMES_SHOWN_MAX else []
        listed = ",".join(names[:NAMES_SHOWN_MAX] + more)
        self._not_created.log(logging.WARNING, "could not create topics", topics=listed, reason=reason)

    def denied(self, principal: str, host: str, api: str, operation: str, resource_type: str, name: str) -> None:
        """Log that a client was refused something, as Kafka's authorizer log has it."""
        self._denied.log(
            logging.INFO,
            "not authorized",
            principal=principal,
            host=host,
            api=api,
            operation=operation,
            resource=f"{resource_type}:{name}",
        )

    def markers_not_written(
        self, transactional_id: str, producer_id: int, epoch: int, reason: str, *, fenced: bool
    ) -> None:
        """Log that partitions refused the markers of a transaction. They are retried, unless the producer was
        fenced.
        """
        level, remedy = logging.WARNING, "will retry"
        if fenced:
            level, remedy = logging.ERROR, "gave up; the next start of the broker retries"
        self._markers.log(
            level,
            "could not end a transaction in all partitions",
            transactional_id=transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            reason=reason,
            remedy=remedy,
        )
