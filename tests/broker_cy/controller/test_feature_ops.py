"""Feature levels: the levels that may be set, and the resulting records in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.control.membership.broker_membership import BrokerMembership
from broker_cy.controller.activation import Activate
from broker_cy.controller.feature_ops import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages
from tests.broker_cy.controller.brokers import Brokers
from tests.broker_cy.controller.cluster import DIRECTORY, Cluster, Records
from tests.broker_cy.controller.kafka_controller import CLUSTER_ID, NODE_ID, KafkaController
from tests.support import kafka_tools, needs

NAME = "transaction.version"
ELR = "eligible.leader.replicas.version"


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
    with pytest.raises(
        KafkaError, match=r"version 2 for feature streams\.version\. Local controller 1 only supports versions 0-1"
    ):
        cluster.run(update((NAME, 1, SAFE_DOWNGRADE), ("streams.version", 2, UPGRADE)))
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
    for name, wanted, reason in (
        ("metadata.version", level - 1, "might delete metadata information"),
        ("kraft.version", 0, "Can't downgrade the version of this feature"),
    ):
        with pytest.raises(KafkaError, match=reason) as raised:
            cluster.run(update((name, wanted, SAFE_DOWNGRADE)))
        assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_controller_that_is_not_registered_may_not_support_a_level() -> None:
    """If this fails, a level is finalized that a controller cannot replay when it comes back (KIP-919)."""
    cluster = Cluster.started()
    upgrade = UpdateFeatures([FeatureUpdate("kraft.version", 1, UPGRADE)], 0, voters=(1, 2))
    with pytest.raises(KafkaError, match=r"controller 2 has not registered, and may not support this feature"):
        cluster.run(upgrade)
    for levels, allowed in (((0, 0), False), ((0, 1), True)):
        low, high = levels
        feature = messages.RegisterControllerRecord.ControllerFeature(
            name="kraft.version", min_supported_version=low, max_supported_version=high
        )
        record = messages.RegisterControllerRecord(controller_id=2, features=[feature])
        cluster.run(Records(VersionedRecord(record)))
        if allowed:
            assert cluster.run(upgrade) == 1
        else:
            with pytest.raises(KafkaError, match=r"Controller 2 does not support this feature"):
                cluster.run(upgrade)


def test_eligible_leader_replicas() -> None:
    """If this fails, brokers disagree on who may lead, because each has its own min.insync.replicas (KIP-966)."""
    cluster = Cluster.started({"min.insync.replicas": "2"})
    own = messages.ConfigRecord(resource_type=4, resource_name="7", name="min.insync.replicas", value="1")
    cluster.run(Records(VersionedRecord(own)))
    cluster.run(update((ELR, 1, UPGRADE)))
    assert cluster.image.features.level(ELR) == 1
    assert cluster.image.configs.broker("") == {"min.insync.replicas": "2"}
    assert cluster.image.configs.broker(7) == {}
    size = len(cluster.log)
    cluster.run(update((ELR, 0, SAFE_DOWNGRADE)))
    cluster.run(update((ELR, 1, UPGRADE)))
    assert len(cluster.log) == size + 2
    assert cluster.image.configs.broker("") == {"min.insync.replicas": "2"}


def test_every_member_has_to_support_a_level() -> None:
    """If this fails, a broker in the cluster reads records whose form it does not know."""
    cluster = Brokers.of(1, 2, elr=False)
    old = [f for f in cluster.registration(3).request.features if f.name != ELR]
    cluster.register(3, features=old)
    with pytest.raises(KafkaError, match=r"Broker 3 does not support this feature\."):
        cluster.run(update((ELR, 1, UPGRADE)))
    for feature in cluster.registration(3).request.features:
        if feature.name == NAME:
            feature.max_supported_version = 1
            old = [feature, *(f for f in old if f.name != NAME)]
    cluster.register(3, features=old)
    with pytest.raises(KafkaError, match=r"Broker 3 only supports versions 0-1"):
        cluster.run(update((NAME, 2, UPGRADE)))


def test_eligible_leader_replicas_need_their_records() -> None:
    """If this fails, eligible leaders are written in records that have no field for them."""
    records = [VersionedRecord(messages.FeatureLevelRecord(name="metadata.version", feature_level=22))]
    cluster = Cluster.started(bootstrap=records)
    with pytest.raises(KafkaError, match=r"depends on metadata\.version level 23"):
        cluster.run(update((ELR, 1, UPGRADE)))


def test_a_level_that_is_not_served_can_be_given_up() -> None:
    """If this fails, the log of a newer Kafka keeps a level forever that this broker does not serve."""
    levels = {"metadata.version": 30, "streams.version": 2}
    records = [VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=at)) for name, at in levels.items()]
    cluster = Cluster.started(bootstrap=records)
    cluster.run(update(("streams.version", 0, SAFE_DOWNGRADE)))
    assert cluster.image.features.levels() == {"metadata.version": 30}


class OldKafka(KafkaController):
    """A controller whose cluster began with the oldest metadata.version."""

    def prepare(self) -> None:
        self._write_properties()
        arguments = ("format", "-t", CLUSTER_ID, "-c", self._properties, "-r", "3.3-IV3")
        kafka_tools.run_tool("kafka.tools.StorageTool", *arguments)
        super().prepare()


@pytest.mark.full
@needs.kafka
def test_levels_of_metadata_version_as_in_kafka(tmp_path: Path) -> None:
    """If this fails, kafka-features.sh fails here where it works with Kafka, or loses metadata that Kafka keeps."""
    first = [VersionedRecord(messages.FeatureLevelRecord(name="metadata.version", feature_level=7))]
    cluster = Cluster({"node.id": NODE_ID})
    cluster.run(Activate(first, in_transaction=False))
    kafka = OldKafka(tmp_path)

    def both(*updates: tuple[str, int, int], validate_only: bool = True) -> tuple[Any, Any]:
        """Our answer and Kafka's."""
        ours: tuple[int, str | None] = (0, None)
        try:
            cluster.run(UpdateFeatures([FeatureUpdate(*each) for each in updates], 0, validate_only))
        except KafkaError as error:
            ours = (int(error.code), error.message)
        key = messages.UpdateFeaturesRequest.FeatureUpdateKey
        request = messages.UpdateFeaturesRequest(
            feature_updates=[key(feature=n, max_version_level=to, upgrade_type=kind) for n, to, kind in updates],
            timeout_ms=30_000,
            validate_only=validate_only,
        )
        answer = kafka.ask(request, 2)
        message = (answer.error_message or "").partition("since the following feature had an error: ")[2] or None
        return ours, (answer.error_code, message)

    try:
        kafka.start()
        for level in range(7, 31):
            for other in (*range(6, level + 1), 32, -1):
                ours, theirs = both(("metadata.version", other, SAFE_DOWNGRADE))
                assert ours == theirs, (level, other)
            for update in (
                ("metadata.version", 7, UNSAFE_DOWNGRADE),
                ("metadata.version", level - 1, UPGRADE),
                ("metadata.version", level, 7),
                ("eligible.leader.replicas.version", 1, UPGRADE),
                ("transaction.version", 3, UPGRADE),
                ("transaction.version", -1, SAFE_DOWNGRADE),
                ("transaction.version", 1, SAFE_DOWNGRADE),
            ):
                ours, theirs = both(update)
                assert ours == theirs, (level, update)
            if level < 30:
                assert both(("metadata.version", level + 1, UPGRADE), validate_only=False) == ((0, None), (0, None))
        ours, theirs = both(("metadata.version", 23, SAFE_DOWNGRADE), (ELR, 1, UPGRADE))
        assert ours == theirs
    finally:
        kafka.close()


def test_a_broker_registers_its_directories_once_the_log_can_have_them(tmp_path: Path) -> None:
    """If this fails, the controller does not know after an upgrade which replicas a failed disk takes."""
    cluster = Cluster()
    first = [VersionedRecord(messages.FeatureLevelRecord(name="metadata.version", feature_level=16))]
    cluster.run(Activate(first, in_transaction=False))

    class Controller:
        """Runs operations on the cluster."""

        async def run(self, operation: Any, *_: Any) -> Any:
            reply = cluster.run(operation)
            await asyncio.sleep(0)
            return reply

    async def work() -> None:
        config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": "unused"})
        loop = asyncio.get_running_loop()
        membership = BrokerMembership(config, Controller(), loop, CLUSTER_ID, UUID(int=1), lambda: cluster.image, dict)
        await membership.register({}, {DIRECTORY: "/a"})
        membership.run()
        await membership.unfenced()
        known = cluster.image.brokers[1]
        assert known.log_dirs == ()
        cluster.run(update(("metadata.version", 17, UPGRADE)))
        membership.hurry()
        async with asyncio.timeout(30):
            while not cluster.image.brokers[1].log_dirs:
                await asyncio.sleep(0)
        assert cluster.image.brokers[1]._replace(log_dirs=()) == known._replace(log_dirs=())
        await membership.stop()

    asyncio.run(work())
