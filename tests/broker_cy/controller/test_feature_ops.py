"""Levels of features: which may be set, and what the log then contains."""

from __future__ import annotations

import pytest

from broker_cy.controller.feature_ops import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages
from tests.broker_cy.controller.cluster import Cluster

NAME = "transaction.version"


def update(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeatures:
    return UpdateFeatures([FeatureUpdate(*each) for each in updates], 1, validate_only)


def test_levels_go_down_and_up_and_are_in_the_log() -> None:
    """If this fails, a restart falls back to the previous level, or a log of older brokers has no new protocol."""
    cluster = Cluster.started()
    for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE), (2, UPGRADE), (2, SAFE_DOWNGRADE)):
        cluster.run(update((NAME, level, kind)))
        assert cluster.image.features.level(NAME) == level
        assert cluster.replayed().features.levels() == cluster.image.features.levels()


def test_looking_changes_nothing() -> None:
    """If this fails, a dry run changes the cluster."""
    cluster = Cluster.started()
    before = cluster.next_offset
    cluster.run(update((NAME, 0, SAFE_DOWNGRADE), validate_only=True))
    assert (cluster.image.features.level(NAME), cluster.next_offset) == (2, before)


def test_all_or_nothing() -> None:
    """If this fails, a request that is refused has changed something."""
    cluster = Cluster.started()
    with pytest.raises(KafkaError, match=r"version 1 for feature group\.version\. Local controller 1 does not support"):
        cluster.run(update((NAME, 1, SAFE_DOWNGRADE), ("group.version", 1, UPGRADE)))
    assert cluster.image.features.level(NAME) == 2


def test_levels_that_are_kept() -> None:
    """If this fails, records are written that other nodes, or a restart, cannot replay; or a request for the
    current level fails.
    """
    cluster = Cluster.started()
    level = cluster.image.features.metadata_version
    before = cluster.next_offset
    cluster.run(update(("metadata.version", level, UPGRADE), ("kraft.version", 1, UPGRADE)))
    assert cluster.next_offset == before + 1, "the quorum's level has no such record"
    for name, wanted in (
        ("metadata.version", level - 1),
        ("kraft.version", 0),
    ):
        with pytest.raises(KafkaError, match=r"changes only transaction\.version") as raised:
            cluster.run(update((name, wanted, SAFE_DOWNGRADE)))
        assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    with pytest.raises(KafkaError, match=r"changes only transaction\.version"):
        cluster.run(update(("eligible.leader.replicas.version", 1, UPGRADE)))


def test_a_level_that_is_not_served_can_be_given_up() -> None:
    """If this fails, the log of an Apache Kafka keeps a feature forever that this broker does not serve."""
    levels = {"metadata.version": 30, "group.version": 1}
    records = [VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=at)) for name, at in levels.items()]
    cluster = Cluster.started(bootstrap=records)
    cluster.run(update(("group.version", 0, SAFE_DOWNGRADE)))
    assert cluster.image.features.levels() == {"metadata.version": 30}
