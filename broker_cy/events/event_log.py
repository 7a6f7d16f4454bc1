"""Writes the events of this broker to `__cluster_events` (metrics.events has the types).

Changes of topics, settings and brokers come from the committed metadata, which every broker follows: the one that leads
the topic by that change writes them (cluster_changes.writer). Their author is the client that the handler named with
`acting` while it waited for the change, which only the active controller's node does. For changes that no client
requested `by` is the broker itself; with several brokers, the author may be unknown, and `by` is empty. The author of a
change of ACLs, users, quotas or delegation tokens is in the metadata (events.security_changes).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from broker_cy import __version__
from broker_cy.config.startup import setting_of
from broker_cy.core import uuid as uuids
from broker_cy.core.mirror_settings import MirrorSettings, mirror_settings
from broker_cy.events.cluster_changes import failures, writer
from broker_cy.events.own_topic import OwnTopic
from broker_cy.events.security_changes import security_changes
from broker_cy.metadata.authors import CLUSTER
from broker_cy.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from broker_cy.metadata.topic_names import CLUSTER_EVENTS
from broker_cy.metrics.events import (
    CLASSIC_GROUP,
    GROUP_TYPES,
    BrokerStarted,
    BrokerStopped,
    Client,
    ConfigChange,
    ConfigChanged,
    ControllerChanged,
    Event,
    GroupEpoch,
    MirrorChanged,
    PartitionsAdded,
    Rebalance,
    Stamped,
    TopicCreated,
    TopicDeleted,
    encode,
)

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.events.own_topic_leader import OwnTopicLeader
    from broker_cy.metadata.image import BrokerImage, ImageDelta, MetadataImage
    from broker_cy.metadata.topics import TopicImage
    from broker_cy.replica.partition_table import PartitionTable

RESOURCE_NAMES = {
    RESOURCE_TOPIC: "topic",
    RESOURCE_BROKER: "broker",
    RESOURCE_GROUP: "group",
    RESOURCE_CLIENT_METRICS: "client_metrics",
}
THE_BROKER = Client(*CLUSTER)
UNKNOWN = Client(client_id="", host="", principal="")

Resource = tuple[int, str]


class EventLog:
    """Writes events to the topic; with brokercy.events.enable=false it drops them."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        partitions: PartitionTable,
        submit: Callable[[Any], Awaitable[Any]],
        leader: OwnTopicLeader,
        min_isr: Callable[[str], int],
    ) -> None:
        """`min_isr` returns min.insync.replicas of a topic."""
        self.counts: dict[str, int] = {}
        """Number of events of each type since the start."""
        self.rebalances: dict[str, int] = dict.fromkeys(GROUP_TYPES, 0)
        """Number of rebalances of each type of groups since the start: completed ones of classic groups, and epochs of
        others.
        """
        self._config = config
        self._clock = clock
        self._topic = OwnTopic(CLUSTER_EVENTS, config, clock, loop, partitions, submit, leader)
        self._leader = leader
        self._min_isr = min_isr
        self._brokers: dict[int, BrokerImage] = {}
        self._controller = -1
        self._started_ms = clock.wall_ms()
        # The previous settings, by resource; None until the metadata is loaded.
        self._settings: dict[Resource, dict[str, str]] | None = None
        self._actors: dict[Resource, Client] = {}

    def note(self, event: Event) -> None:
        """Record an event with the current time."""
        self.counts[event.TYPE] = self.counts.get(event.TYPE, 0) + 1
        if isinstance(event, GroupEpoch) or (isinstance(event, Rebalance) and event.group_type == CLASSIC_GROUP):
            self.rebalances[event.group_type] += 1
        if self._config["brokercy.events.enable"]:
            now_ms = self._clock.wall_ms()
            self._topic.write(*encode(Stamped(now_ms, self._config.node_id, event)), now_ms)

    def started(self, *, clean: bool, start_ms: int, partitions: int, cuts: dict[str, int]) -> None:
        self.note(
            BrokerStarted(
                software=f"broker-cy {__version__}",
                clean=clean,
                start_ms=start_ms,
                partitions=partitions,
                truncated_bytes=sum(cuts.values()),
                truncated=cuts,
            )
        )

    async def stop(self) -> None:
        self.note(BrokerStopped(uptime_ms=self._clock.wall_ms() - self._started_ms))
        await self.close()

    async def close(self) -> None:
        """Write the waiting events; later ones are not written."""
        await self._topic.stop()
        await self._leader.close()

    # ---- authors of changes ----

    @contextmanager
    def acting(self, client: Client, resource_type: int, names: Iterable[str]) -> Iterator[None]:
        """While the context is active, changes of these resources are attributed to `client`."""
        keys = [(resource_type, name) for name in names]
        for key in keys:
            self._actors[key] = client
        try:
            yield
        finally:
            for key in keys:
                if self._actors.get(key) is client:
                    del self._actors[key]

    def _by(self, resource_type: int, name: str) -> Client:
        actor = self._actors.get((resource_type, name))
        if actor is None:
            actor = THE_BROKER if len(self._brokers) <= 1 else UNKNOWN
        return actor

    # ---- the metadata ----

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Report the changes of a commit. The first image is the state at the start, and reports nothing."""
        brokers, self._brokers = self._brokers, dict(image.brokers.items())
        if self._settings is None:
            self._settings = {key: image.configs.resource(*key) for key in image.configs.resources()}
            return
        if writer(image) != self._config.node_id:
            for kind, name in delta.configs:
                self._settings[kind, name] = image.configs.resource(kind, name)
            return
        for event in failures(brokers, delta, image, self._min_isr):
            self.note(event)
        for event in security_changes(delta):
            self.note(event)
        fresh = {topic.after.name for topic in delta.topics if topic.before is None and topic.after is not None}
        gone = {topic.before.name for topic in delta.topics if topic.before is not None and topic.after is None}
        for topic in delta.topics:
            self._tell_topic(topic.before, topic.after, image)
        for resource_type, name in delta.configs:
            after = image.configs.resource(resource_type, name)
            before = self._settings.pop((resource_type, name), {})
            if after:
                self._settings[resource_type, name] = after
            if resource_type == RESOURCE_TOPIC and name not in gone:
                self._tell_mirror(name, before, after, image)
            if resource_type == RESOURCE_TOPIC and (name in fresh or name in gone):
                continue  # part of the topic's event
            changes = config_changes(before, after, is_of_broker=resource_type == RESOURCE_BROKER)
            if changes:
                self.note(
                    ConfigChanged(
                        RESOURCE_NAMES.get(resource_type, str(resource_type)),
                        name,
                        changes,
                        self._by(resource_type, name),
                    )
                )
        self._topic.flush()

    def _tell_mirror(self, topic: str, before: dict[str, str], after: dict[str, str], image: MetadataImage) -> None:
        was, now = mirror_settings(topic, before), mirror_settings(topic, after)
        found = now or was
        changed = mirror_change(was, now)
        if found is None or changed is None:
            return
        here = image.topics.by_name(topic)
        count = 0 if here is None else len(here.partitions)
        self.note(MirrorChanged(topic, found.link, found.topic, changed, count, self._by(RESOURCE_TOPIC, topic)))

    def look(self, controller: int, image: MetadataImage) -> None:
        """Report another active controller, which is not part of the metadata; called a few times a second."""
        before = self._controller
        if controller in (-1, before):
            return
        self._controller = controller
        if before >= 0 and writer(image) == self._config.node_id:
            self.note(ControllerChanged(before, controller))

    def _tell_topic(self, before: TopicImage | None, after: TopicImage | None, image: MetadataImage) -> None:
        topic = after or before
        assert topic is not None
        by = self._by(RESOURCE_TOPIC, topic.name)
        topic_id = uuids.to_text(topic.topic_id)
        count = len(topic.partitions)
        if after is None:
            self.note(TopicDeleted(topic.name, topic_id, count, by))
        elif before is None or before.topic_id != after.topic_id:
            replicas = len(after.partitions[0].replicas) if after.partitions else 0
            self.note(TopicCreated(topic.name, topic_id, count, replicas, dict(image.configs.topic(topic.name)), by))
        elif len(before.partitions) != count:
            self.note(PartitionsAdded(topic.name, len(before.partitions), count, by))


def mirror_change(before: MirrorSettings | None, after: MirrorSettings | None) -> str | None:
    """Return what changes of settings mean for the mirror of a topic: MirrorChanged.change, or None."""
    if after is None:
        return None if before is None else "promoted"
    if before is None or (before.link, before.topic) != (after.link, after.topic):
        return "began"
    if before.is_paused != after.is_paused:
        return "paused" if after.is_paused else "resumed"
    return None


def config_changes(before: dict[str, str], after: dict[str, str], *, is_of_broker: bool) -> list[ConfigChange]:
    """Return the settings that changed; the value of a secret is `[hidden]`, and that of a broker's unknown setting, as
    in DescribeConfigs.
    """
    changes = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        # Also with the prefix of a listener: passwords of key stores are changed so.
        setting = setting_of(name)
        is_secret = is_of_broker if setting is None else setting.is_sensitive
        if is_secret:
            old, new = (None if value is None else "[hidden]" for value in (old, new))
        changes.append(ConfigChange(name, old, new))
    return changes
