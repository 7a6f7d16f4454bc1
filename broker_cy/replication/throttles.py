"""The throttles of this broker (KIP-73) with the settings of the metadata log: rates of brokers, and the replicas that
topics list. Copies between data directories have a rate of their own (KIP-113).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy.config.definitions import BROKER_QUOTAS, TOPIC
from broker_cy.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from broker_cy.replica.throttle import UNLIMITED, ReplicaThrottle

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.metadata.image import ImageDelta, MetadataImage

LEADER_RATE: Final = "leader.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class Throttles:
    """`leader` limits what followers fetch here, `follower` what this broker fetches; `limit_moves(bytes_per_s)` copies
    between its data directories.
    """

    def __init__(self, config: BrokerConfig, limit_moves: Callable[[float], None]) -> None:
        self._limit_moves = limit_moves
        windows = config["replication.quota.window.num"]
        window_ms = config["replication.quota.window.size.seconds"] * 1000
        self.leader = ReplicaThrottle(windows, window_ms)
        self.follower = ReplicaThrottle(windows, window_ms)
        self._config = config

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Follow the settings; those of brokers are taken from the configuration, which has applied them before."""
        for kind, name in delta.configs:
            if kind == RESOURCE_BROKER:
                self.leader.limit_to(self._rate(LEADER_RATE))
                self.follower.limit_to(self._rate(FOLLOWER_RATE))
                self._limit_moves(self._rate(MOVE_RATE))
            elif kind == RESOURCE_TOPIC:
                settings = image.configs.topic(name)
                for throttle, setting in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
                    replicas = TOPIC[setting].parse(settings[setting]) if setting in settings else ()
                    throttle.list_replicas(name, replicas, self._config.node_id)

    def _rate(self, name: str) -> int:
        """These settings have no static level: a value in the file of a broker has no effect, as in Kafka."""
        levels = {**self._config.dynamic_default, **self._config.dynamic_broker}
        return int(BROKER_QUOTAS[name].parse(levels[name])) if name in levels else UNLIMITED
