"""The levels of features that this broker serves, and those of new clusters."""

from __future__ import annotations

from pathlib import Path

from broker_cy.controller.activation import default_bootstrap
from broker_cy.controller.feature_ops import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from broker_cy.metadata import features, releases, snapshot
from broker_cy.storage_tool import command as storage_tool
from tests.broker_cy.controller.cluster import Cluster

GROUPS = (features.GROUP_VERSION, features.SHARE_VERSION, features.STREAMS_VERSION)


def test_a_new_cluster_has_the_levels_of_kafka() -> None:
    """If this fails, clients of a new cluster do not get the group protocols that they get from Kafka's."""
    levels = {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert releases.of_new_cluster(features.MV_LATEST) == levels
    assert {each.message.name: each.message.feature_level for each in default_bootstrap()} == levels
    # The levels of 4.0: the protocols of share and streams groups came later.
    of_4_0 = releases.of_new_cluster(releases.level_of("4.0"))
    assert list(of_4_0) == ["metadata.version", "group.version", "transaction.version"]


def test_each_level_of_kafka_is_served() -> None:
    """If this fails, a broker refuses a cluster that Kafka's tools have formatted."""
    for metadata_version in range(features.MV_MIN, features.MV_LATEST + 1):
        for name, level in releases.of_new_cluster(metadata_version).items():
            low, high = features.SUPPORTED[name]
            assert low <= level <= high


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
