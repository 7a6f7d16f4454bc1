"""Topics that become mirrors and are promoted by their settings, and leader epochs that leaders raise."""

from __future__ import annotations

import pytest

from broker_cy.controller import mirror_ops
from broker_cy.controller.config_ops import AlterConfigs, OpType, Outcome, ResourceChange, SettingChange
from broker_cy.controller.mirror_ops import PROMOTION_EPOCHS
from broker_cy.controller.producer_ids import PRODUCER_ID_RANGE_BITS, AllocateProducerIds
from broker_cy.core.errors import ErrorCode
from broker_cy.core.mirror_settings import LINK, SOURCE_TOPIC_ID
from broker_cy.metadata.image import RESOURCE_TOPIC
from tests.broker_cy.controller.brokers import Brokers
from tests.support.images import same_content


@pytest.fixture
def cluster() -> Brokers:
    found = Brokers.of(1, 2, 3)
    found.create("t", [1, 2, 3], [2, 3, 1])
    return found


def alter(cluster: Brokers, topic: str, name: str, value: str | None) -> Outcome:
    change = SettingChange(name, OpType.DELETE if value is None else OpType.SET, value)
    (outcome,) = cluster.run(AlterConfigs([ResourceChange(RESOURCE_TOPIC, topic, [change])], cluster.config))
    return outcome


def test_a_promotion_raises_every_leader_epoch_with_the_setting(cluster: Brokers) -> None:
    """If this fails, brokers take the role of a promoted leader without a new leader epoch, or write in an epoch of the
    source.
    """
    before = [cluster.partition("t", index) for index in (0, 1)]
    assert alter(cluster, "t", LINK, "east").code is ErrorCode.NONE
    mirrors = [cluster.partition("t", index) for index in (0, 1)]
    assert [each.leader_epoch for each in mirrors] == [each.leader_epoch + 1 for each in before]
    size = len(cluster.log)
    assert alter(cluster, "t", LINK, "west").code is ErrorCode.NONE
    assert len(cluster.log) == size + 1, "another link is no promotion"
    assert alter(cluster, "t", LINK, None).code is ErrorCode.NONE
    after = [cluster.partition("t", index) for index in (0, 1)]
    for old, new in zip(mirrors, after, strict=True):
        epochs = old.leader_epoch + PROMOTION_EPOCHS, old.partition_epoch + 1
        assert new == old._replace(leader_epoch=epochs[0], partition_epoch=epochs[1])
    assert same_content(cluster.replayed(), cluster.image)


def test_replaced_settings_promote_no_mirror(cluster: Brokers) -> None:
    """If this fails, a tool that writes all settings of a topic (AlterConfigs) promotes a mirror by accident."""
    alter(cluster, "t", LINK, "east")
    before = cluster.partition("t")
    changes = [SettingChange("retention.ms", OpType.SET, "1000")]
    (outcome,) = cluster.run(AlterConfigs([ResourceChange(RESOURCE_TOPIC, "t", changes, replace=True)], cluster.config))
    assert outcome.code is ErrorCode.NONE
    assert cluster.image.configs.topic("t") == {LINK: "east", "retention.ms": "1000"}
    assert cluster.partition("t") == before
    changes.append(SettingChange(LINK, OpType.SET, ""))
    cluster.run(AlterConfigs([ResourceChange(RESOURCE_TOPIC, "t", changes, replace=True)], cluster.config))
    assert cluster.partition("t").leader_epoch == before.leader_epoch + PROMOTION_EPOCHS


def test_the_leader_of_a_mirror_raises_its_epoch(cluster: Brokers) -> None:
    """If this fails, a mirror waits forever after an election of its source, or a leader raises its epoch at will."""
    tags = mirror_ops.tag_of(41)
    assert cluster.propose("t", [1, 2, 3], _unknown_tags=tags) is ErrorCode.NONE
    assert cluster.partition("t").leader_epoch == 0, "the topic is no mirror"
    alter(cluster, "t", LINK, "east")
    before = cluster.partition("t")
    (topic,) = cluster.run(cluster.proposal("t", [1, 2, 3], _unknown_tags=tags)).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_epoch) == (0, 41)
    assert cluster.partition("t") == before._replace(leader_epoch=41, partition_epoch=before.partition_epoch + 1)
    for useless in (mirror_ops.tag_of(40), mirror_ops.tag_of(mirror_ops.EPOCH_MAX + 1), ((mirror_ops.TAG, b"?"),)):
        size = len(cluster.log)
        assert cluster.propose("t", [1, 2, 3], _unknown_tags=useless) is ErrorCode.NONE
        assert len(cluster.log) == size
    # With a change of the set in the same request.
    assert cluster.propose("t", [1, 2], _unknown_tags=mirror_ops.tag_of(50)) is ErrorCode.NONE
    assert (cluster.partition("t").isr, cluster.partition("t").leader_epoch) == ((1, 2), 50)
    assert same_content(cluster.replayed(), cluster.image)


def test_producer_ids_leave_the_range_of_other_clusters(cluster: Brokers) -> None:
    """If this fails, a producer of this cluster is taken for one of the source, and its records for duplicates."""
    epoch = cluster.image.brokers[1].epoch
    first = cluster.run(AllocateProducerIds(1, epoch)).first
    alter(cluster, "t", LINK, "east")
    own = cluster.run(AllocateProducerIds(1, epoch)).first
    assert first >> PRODUCER_ID_RANGE_BITS == 0 < own >> PRODUCER_ID_RANGE_BITS
    cluster.create("u", [1])
    alter(cluster, "u", LINK, "east")
    assert cluster.run(AllocateProducerIds(1, epoch)).first == own + 1_000


@pytest.mark.parametrize(
    ("topic", "name", "value"),
    [
        ("t", LINK, "../secret"),
        ("t", LINK, "a" * 101),
        ("t", SOURCE_TOPIC_ID, "no id"),
        ("__consumer_offsets", LINK, "east"),
    ],
)
def test_settings_that_name_no_mirror_are_refused(cluster: Brokers, topic: str, name: str, value: str) -> None:
    """If this fails, a link reads a file outside its directory, or a topic of the brokers becomes a mirror."""
    cluster.create("__consumer_offsets", [1])
    size = len(cluster.log)
    assert alter(cluster, topic, name, value).code is ErrorCode.INVALID_CONFIG
    assert len(cluster.log) == size


def test_the_start_of_a_promotion_is_found_in_the_log() -> None:
    """If this fails, a leader aborts transactions of its own cluster, or leaves those of the source open."""
    far = PROMOTION_EPOCHS
    assert mirror_ops.promotion_start([]) == -1
    assert mirror_ops.promotion_start([(0, 0), (7, 30)]) == -1
    assert mirror_ops.promotion_start([(0, 0), (7, 30), (7 + far, 40), (8 + far, 50)]) == 40
    assert mirror_ops.promotion_start([(far + 2, 40)]) == 40
    assert mirror_ops.promotion_start([(far, 40), (2 * far + 9, 60)]) == 60
