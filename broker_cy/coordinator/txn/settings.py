"""The settings of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.core.classes import NamedTuple


class TxnSettings(NamedTuple):
    """Defaults are Kafka's. Each field names the broker setting it stands for."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: the longest timeout that a producer may request."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: how long an id without a transaction is kept after its last one."""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`: how often timeouts are checked."""
    expiration_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`: how often expired ids are searched for."""
    add_backoff_ms: int = 20
    """`add.partitions.to.txn.retry.backoff.ms`: interval of attempts to add partitions that a producer writes to."""
    add_backoff_max_ms: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`: time limit of these attempts."""
    request_timeout_ms: int = 30_000
    """`request.timeout.ms`: how long the coordinator waits until a marker is committed."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TxnSettings:
        """From broker settings by their Kafka names, already typed and validated."""
        return cls(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            id_expiration_ms=config["transactional.id.expiration.ms"],
            abort_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            add_backoff_ms=config["add.partitions.to.txn.retry.backoff.ms"],
            # As in Kafka, at most the timeout of requests between brokers.
            add_backoff_max_ms=min(config["add.partitions.to.txn.retry.backoff.max.ms"], config["request.timeout.ms"]),
            request_timeout_ms=config["request.timeout.ms"],
        )
