"""Dynamic settings of a running broker that no other part follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from broker_cy.config.definitions import BROKER
from broker_cy.server.node_directories import RECOVERY_THREADS, cleaner_settings

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.connections.answers import ServerCore
    from broker_cy.storage.log_manager import LogManager


def follow_settings(config: BrokerConfig, core: ServerCore, logs: LogManager) -> None:
    """Apply the settings, now and whenever they change."""

    def take_metrics() -> None:
        core.metrics.on = config["brokercy.metrics.enable"]

    def take_verification() -> None:
        core.verifies = config["transaction.partition.verification.enable"]

    def take_expiration() -> None:
        logs.settings = replace(logs.settings, producer_id_expiration_ms=config["producer.id.expiration.ms"])

    def take_recovery_threads() -> None:
        logs.opener.threads = config[RECOVERY_THREADS]

    def take_cleaner() -> None:
        if logs.cleaner is not None:
            logs.cleaner.reconfigure(cleaner_settings(config))

    def follow(take: Callable[[], None], *names: str) -> None:
        config.on_change(lambda _: take(), *names)

    # The others were read when storage was opened.
    take_metrics()
    take_verification()
    follow(take_metrics, "brokercy.metrics.enable")
    follow(take_verification, "transaction.partition.verification.enable")
    follow(take_expiration, "producer.id.expiration.ms")
    follow(take_recovery_threads, RECOVERY_THREADS)
    follow(take_cleaner, *(name for name in BROKER if name.startswith("log.cleaner.")))
