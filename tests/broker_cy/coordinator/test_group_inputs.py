"""The metadata that a coordinator's machine uses: the settings of groups, and changes of topics."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from broker_cy.config import BrokerConfig
from broker_cy.coordinator.classic.hooks import HookedGroup
from broker_cy.coordinator.settings import (
    ConsumerGroupConfig,
    GroupSettings,
    MigrationPolicy,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from broker_cy.coordinator.subscribers import Subscribers
from broker_cy.metadata.image import RESOURCE_GROUP, ImageDelta, MetadataImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from tests.broker_cy.coordinator.harness import GROUP, Harness

BROKERS = ConsumerGroupConfig(45_000, 5_000, 1_000)


class Marked(HookedGroup):
    """A group that notes that a topic of its has changed."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, None)
        self.marks = 0
        self.before: dict[str, int | None] = {}

    def topics_changed(self, before: Mapping[str, int | None]) -> None:
        self.marks += 1
        self.before |= before


def test_a_group_has_its_own_settings_at_once() -> None:
    """If this fails, a changed session timeout reaches the members of a group only after the coordinator moves."""
    h = Harness()
    image = MetadataImage()
    h.machine.take_image(image)
    assert h.machine.consumer_config(GROUP) == BROKERS
    image.configs.set(RESOURCE_GROUP, GROUP, "consumer.session.timeout.ms", "50000")
    assert h.machine.consumer_config(GROUP) == BROKERS._replace(session_timeout_ms=50_000)
    assert h.machine.consumer_config(GROUP) is h.machine.consumer_config(GROUP)
    assert h.machine.consumer_config("other") == BROKERS
    image.configs.set(RESOURCE_GROUP, GROUP, "consumer.heartbeat.interval.ms", "7000")
    assert h.machine.consumer_config(GROUP) == ConsumerGroupConfig(50_000, 7_000, 1_000)
    # A new broker setting counts for groups that have none of their own.
    consumer = h.machine.settings.consumer._replace(assignment_interval_ms=3)
    limits = dict(h.machine.settings.limits) | {"group.consumer.assignment.interval.ms": 3}
    h.machine.settings = h.machine.settings._replace(consumer=consumer, limits=limits)
    assert h.machine.consumer_config(GROUP) == ConsumerGroupConfig(50_000, 7_000, 3)
    assert h.machine.consumer_config("other").assignment_interval_ms == 3
    image.configs.clear(RESOURCE_GROUP, GROUP)
    assert h.machine.consumer_config(GROUP) == BROKERS._replace(assignment_interval_ms=3)


def test_a_streams_group_has_its_own_settings() -> None:
    """If this fails, an application keeps no copies of its state although its operator has asked for some."""
    h = Harness()
    image = MetadataImage()
    h.machine.take_image(image)
    assert h.machine.streams_config(GROUP) == StreamsGroupConfig(45_000, 5_000, 1_000, 3_000, 0)
    image.configs.set(RESOURCE_GROUP, GROUP, "streams.num.standby.replicas", "7")
    image.configs.set(RESOURCE_GROUP, GROUP, "streams.initial.rebalance.delay.ms", "9")
    # The broker allows 2 copies.
    assert h.machine.streams_config(GROUP) == StreamsGroupConfig(45_000, 5_000, 1_000, 9, 2)
    # A group whose type has changed.
    assert h.machine.consumer_config(GROUP) == BROKERS
    assert h.machine.streams_config(GROUP).standby_replicas == 2


def test_a_share_group_has_its_own_settings() -> None:
    """If this fails, the session timeout of a share group cannot be changed."""
    h = Harness()
    image = MetadataImage()
    h.machine.take_image(image)
    assert h.machine.share_config(GROUP) == ShareGroupConfig(45_000, 5_000, 1_000)
    image.configs.set(RESOURCE_GROUP, GROUP, "share.session.timeout.ms", "99000")
    image.configs.set(RESOURCE_GROUP, GROUP, "share.assignment.interval.ms", "0")
    # The broker allows 60 s.
    assert h.machine.share_config(GROUP) == ShareGroupConfig(60_000, 5_000, 0)
    config = BrokerConfig.from_properties({"group.share.initialize.retry.interval.ms": "1"})
    assert GroupSettings.from_config(config).share.initialize_retry_interval_ms == 5_000


def test_the_defaults_are_those_of_a_broker() -> None:
    """If this fails, tests and simulations run with other settings than brokers."""
    found = GroupSettings.from_config(BrokerConfig.from_properties({}))
    assert found == GroupSettings()
    assert found.consumer_config({}) == BROKERS


def test_the_policy_of_conversions_is_read_in_any_case() -> None:
    """If this fails, a group is converted although the operator has forbidden it."""
    allowed = {}
    for name in ("BiDirectional", "upgrade", "Downgrade", "DISABLED"):
        broker = BrokerConfig.from_properties({"group.consumer.migration.policy": name})
        policy = GroupSettings.from_config(broker).consumer.migration_policy
        allowed[policy] = (policy.is_upgrade_enabled, policy.is_downgrade_enabled)
    assert allowed == {
        MigrationPolicy.BIDIRECTIONAL: (True, True),
        MigrationPolicy.UPGRADE: (True, False),
        MigrationPolicy.DOWNGRADE: (False, True),
        MigrationPolicy.DISABLED: (False, False),
    }


def test_a_changed_topic_marks_the_groups_that_subscribe_to_it() -> None:
    """If this fails, a group does not consume new partitions, or every change of a topic recomputes every group."""
    h = Harness()
    groups = [h.machine.add_group(Marked(name)) for name in ("a", "b", "c")]
    for group_id, topic in (("a", "t"), ("b", "t"), ("c", "u"), ("gone", "t")):
        h.machine.subscribers.subscribe(group_id, topic)
    h.machine.topic_hashes = {"t": 1, "u": 2}
    old, new = TopicImage("t", UUID(int=1), {}), TopicImage("t", UUID(int=2), {})

    image = MetadataImage()

    def change(offset: int, *deltas: TopicDelta) -> list[int]:
        image.offset = offset
        h.take(h.machine.metadata_changed(ImageDelta(list(deltas), [], [], []), image))
        return [group.marks for group in groups]

    assert change(5, TopicDelta(None, old)) == [1, 1, 0]
    assert (h.machine.topics_created_at, h.machine.topic_hashes) == (5, {"u": 2})
    assert change(6, TopicDelta(old, old)) == [2, 2, 0]
    h.machine.subscribers.unsubscribe("b", "t")
    assert change(7, TopicDelta(old, None), TopicDelta(None, new)) == [3, 2, 0]
    assert h.machine.topics_created_at == 7
    assert h.log == []
    assert [group.before for group in groups] == [{"t": None}, {"t": None}, {}]
    change(8, TopicDelta(old, TopicImage("u", UUID(int=3), {})))
    assert groups[2].before == {"u": 2}


def test_subscribers_are_forgotten() -> None:
    """If this fails, memory grows with every topic that any group has ever subscribed to."""
    subscribers = Subscribers()
    subscribers.subscribe("a", "t")
    subscribers.subscribe("a", "t")
    subscribers.subscribe("b", "t")
    assert list(subscribers.of("t")) == ["a", "b"]
    for group_id in ("a", "b", "c"):
        subscribers.unsubscribe(group_id, "t")
    subscribers.unsubscribe("a", "never")
    assert list(subscribers.of("t")) == []
    assert not subscribers._groups
