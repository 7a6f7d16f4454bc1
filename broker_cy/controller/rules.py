"""The state that elections depend on: the brokers that may lead, the settings of topics, the form of the records.

One `Rules` serves one operation: the state does not change meanwhile, so the settings of a topic are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from broker_cy.config import BrokerConfig, ConfigError
from broker_cy.config.definitions import TOPIC
from broker_cy.core import uuid as uuids
from broker_cy.metadata import features
from broker_cy.metadata.image import BrokerImage, MetadataImage, PartitionImage
from broker_cy.metadata.topics import TopicImage

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

_ALWAYS_ONLINE: Final = frozenset({uuids.UNASSIGNED_DIRECTORY, uuids.MIGRATING_DIRECTORY})


def topic_setting(state: MetadataImage, config: BrokerConfig, topic: str, name: str) -> Any:
    """The value of a topic setting whose broker setting has the same name, as the state has it, committed or not: of
    the topic, of this controller, of all brokers, of the controller's file. Values that do not parse are skipped.
    """
    for settings, has_variables in (
        (state.configs.topic(topic), False),
        (state.configs.broker(config.node_id), True),
        (state.configs.broker(""), True),
        (config.static, False),
    ):
        text = settings.get(name)
        if text is not None:
            try:
                return TOPIC[name].parse(config.resolve(text) if has_variables else text)
            except ConfigError:
                continue
    return TOPIC[name].default


def has_online_directory(broker: BrokerImage, directory: UUID) -> bool:
    """Whether the broker has the directory."""
    return is_online(broker.log_dirs, directory)


def is_online(log_dirs: Sequence[UUID], directory: UUID) -> bool:
    """Whether a broker that registered `log_dirs` has the directory (KIP-858); one that registered none does not track
    directories.
    """
    if directory in _ALWAYS_ONLINE:
        return True
    return directory != uuids.LOST_DIRECTORY and (not log_dirs or directory in log_dirs)


def directory_of(partition: PartitionImage, broker_id: int) -> UUID:
    """The log directory of a replica; MIGRATING_DIRECTORY if the partition has none for it."""
    for replica, directory in zip(partition.replicas, partition.directories, strict=False):
        if replica == broker_id:
            return directory
    return uuids.MIGRATING_DIRECTORY


def default_directory(state: MetadataImage, broker_id: int) -> UUID:
    """The log directory of a new replica: that of a broker that has only one; a broker with several reports later which
    one it uses (KIP-858).
    """
    broker = state.brokers.get(broker_id)
    if broker is None:
        return uuids.UNASSIGNED_DIRECTORY
    if not broker.log_dirs:
        return uuids.MIGRATING_DIRECTORY
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else uuids.UNASSIGNED_DIRECTORY


class Rules:
    """The rules for one operation over `state`.

    `gone` are brokers that must not lead although the state still has them as active, because this operation fences
    them; `back` are those that may lead although the state still has them fenced.
    """

    __slots__ = (
        "_config",
        "_min_isr",
        "_unclean",
        "_usable",
        "back",
        "change_version",
        "elr_enabled",
        "gone",
        "level",
        "state",
    )

    def __init__(
        self,
        state: MetadataImage,
        config: BrokerConfig,
        gone: frozenset[int] = frozenset(),
        back: frozenset[int] = frozenset(),
    ) -> None:
        self.state = state
        self.gone = gone
        self.back = back
        # The brokers that may lead, apart from their directories.
        self._usable = {
            broker.broker_id: broker
            for broker in state.brokers.values()
            if broker.broker_id not in gone and (broker.is_active or broker.broker_id in back)
        }
        self.level = state.features.metadata_version
        self.change_version = features.partition_version(self.level)
        self.elr_enabled = self.level >= features.MV_ELR and state.features.level(features.ELIGIBLE_LEADER_REPLICAS) > 0
        self._config = config
        self._min_isr: dict[UUID, int] = {}
        self._unclean: dict[UUID, bool] = {}

    def may_lead(self, broker_id: int, partition: PartitionImage) -> bool:
        """Whether the broker may lead the partition, apart from the records of its replica: it is neither fenced nor in
        controlled shutdown, and the directory of its replica is online.
        """
        broker = self._usable.get(broker_id)
        if broker is None:
            return False
        return has_online_directory(broker, directory_of(partition, broker_id))

    def min_isr(self, topic: TopicImage) -> int:
        """min.insync.replicas, at most the replication factor of the topic (KIP-966)."""
        found = self._min_isr.get(topic.topic_id)
        if found is None:
            configured = int(topic_setting(self.state, self._config, topic.name, MIN_ISR))
            first = topic.partitions.get(0)
            found = configured if first is None else min(configured, len(first.replicas))
            self._min_isr[topic.topic_id] = found
        return found

    def unclean_allowed(self, topic: TopicImage) -> bool:
        found = self._unclean.get(topic.topic_id)
        if found is None:
            found = bool(topic_setting(self.state, self._config, topic.name, UNCLEAN_ELECTION))
            self._unclean[topic.topic_id] = found
        return found
