"""The levels of features that this broker serves, and those of new clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.controller.activation import default_bootstrap
from broker_cy.controller.feature_ops import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from broker_cy.metadata import features, releases, snapshot
from broker_cy.storage_tool import command as storage_tool
from tests.broker_cy.controller.cluster import Cluster

GROUPS = (features.GROUP_VERSION, features.SHARE_VERSION, features.STREAMS_VERSION)


@pytest.fixture
def all_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group protocols are served, as with 1 in each of the constants *_SERVED."""
    for name in GROUPS:
        monkeypatch.setitem(features.SUPPORTED, name, (0, 1))


def of_kafka(metadata_version: int) -> dict[str, int]:
    names = sorted(set(releases.DEFAULTS) - {features.KRAFT_VERSION})
    levels = {name: releases.default_level(name, metadata_version) for name in names}
    return {features.METADATA_VERSION: metadata_version, **{name: level for name, level in levels.items() if level}}


LEVELS = range(features.MV_MIN, features.MV_LATEST + 1)


@pytest.mark.usefixtures("all_served")
def test_a_new_cluster_has_the_levels_of_kafka() -> None:
    """If this fails, clients of a new cluster do not get the group protocols that they get from Kafka's."""
    for metadata_version in LEVELS:
        assert list(releases.of_new_cluster(metadata_version).items()) == list(of_kafka(metadata_version).items())
    assert releases.of_new_cluster(features.MV_LATEST) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


def test_a_new_cluster_has_no_feature_that_is_not_served() -> None:
    """If this fails, clients use a protocol that this broker does not have."""
    for metadata_version in LEVELS:
        wanted = {
            name: level
            for name, level in of_kafka(metadata_version).items()
            if name not in GROUPS or features.SUPPORTED[name][1]
        }
        assert releases.of_new_cluster(metadata_version) == wanted
    assert {each.message.name: each.message.feature_level for each in default_bootstrap()} == wanted


@pytest.mark.usefixtures("all_served")
def test_format_writes_levels_in_the_order_of_kafka(tmp_path: Path) -> None:
    """If this fails, a directory that was formatted here differs from one of Kafka with the same features."""
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/data\nlisteners=PLAINTEXT://:0,C://:0\n"
        "controller.listener.names=C\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT\n"
        "controller.quorum.voters=1@localhost:9093\n"
    )
    options = ["-r", "3.9", "-f", "streams.version=1", "-f", "group.version=1"]
    assert storage_tool.run(["format", "-c", str(file), "-t", "4L6g3nShT-eMCtK--X86sw", *options]) == 0
    records = snapshot.bootstrap_records((tmp_path / "data" / snapshot.BOOTSTRAP_NAME).read_bytes())
    assert [(each.message.name, each.message.feature_level) for each in records] == [
        ("metadata.version", 21),
        ("group.version", 1),
        ("streams.version", 1),
    ]


@pytest.mark.usefixtures("all_served")
def test_served_features_are_finalized_up_and_down() -> None:
    """If this fails, `cluster finalize` cannot enable a group protocol in an upgraded cluster, or disable it again."""
    records = [each for each in default_bootstrap() if each.message.name not in GROUPS]
    cluster = Cluster.started(bootstrap=records)
    up = [FeatureUpdate(name, 1, UPGRADE) for name in GROUPS]
    cluster.run(UpdateFeatures(up, 1))
    assert {name: cluster.image.features.finalized.get(name) for name in GROUPS} == dict.fromkeys(GROUPS, 1)
    down = [FeatureUpdate(name, 0, SAFE_DOWNGRADE) for name in GROUPS]
    cluster.run(UpdateFeatures(down, 1))
    assert not cluster.image.features.finalized.keys() & set(GROUPS)
