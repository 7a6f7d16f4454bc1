"""The controller: commits, undone changes, the state after a restart; brokers and producer ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.controller.activation import Activate, default_bootstrap
from broker_cy.controller.broker_states import FenceBrokers
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.operation import RECORDS_PER_STEP_MAX
from broker_cy.controller.producer_ids import AllocateProducerIds
from broker_cy.controller.topic_ops import CreatePartitions, DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features, framing, releases, snapshot
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import RESOURCE_TOPIC, MetadataImage
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.wire import messages
from tests.broker_cy.controller.cluster import LISTENERS, Cluster, Records
from tests.support.images import same_content, topic_in

FIXTURE = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "logdir" / "__cluster_metadata-0"


def create(*names: str, partitions: int = 1) -> CreateTopics:
    topic = messages.CreateTopicsRequest.CreatableTopic
    return CreateTopics(
        messages.CreateTopicsRequest(
            topics=[topic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
        )
    )


def delete(name: str) -> DeleteTopics:
    return DeleteTopics([TopicChoice(name, uuids.ZERO)])


def grow(name: str, count: int) -> CreatePartitions:
    topic = messages.CreatePartitionsRequest.CreatePartitionsTopic
    return CreatePartitions([topic(name=name, count=count, assignments=None)], validate_only=False)


def setting(topic: str, name: str, value: str | None) -> Records:
    record = messages.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic, name=name, value=value)
    return Records(VersionedRecord(record))


def test_a_new_cluster() -> None:
    """If this fails, a new directory would hold something else than Kafka's bootstrap and an unfenced broker."""
    cluster = Cluster.started()
    image = cluster.image
    levels = {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert image.features.levels() == levels
    # As in the fixture of Kafka 4.3.1, whose log has it behind the levels of the features.
    assert image.configs.broker("") == {"min.insync.replicas": "1"}
    broker = image.brokers[1]
    assert (broker.fenced, broker.epoch, broker.listeners) == (False, 9, LISTENERS)
    assert same_content(cluster.replayed(), image)


ELR_BY_DEFAULT = releases.DEFAULTS[features.ELIGIBLE_LEADER_REPLICAS][1]


@pytest.mark.parametrize(("level", "has_elr"), [(ELR_BY_DEFAULT - 1, False), (ELR_BY_DEFAULT, True)])
def test_eligible_leaders_of_a_new_cluster(level: int, has_elr: bool) -> None:
    """If this fails, a new cluster loses records to a power cut that one of Kafka keeps; or its nodes disagree on
    min.insync.replicas, which decides who may lead (KIP-966).
    """
    names = releases.of_new_cluster(level)
    bootstrap = [
        VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=number)) for name, number in names.items()
    ]
    image = Cluster.started({"min.insync.replicas": "2"}, bootstrap).image
    assert image.features.level("eligible.leader.replicas.version") == int(has_elr)
    assert image.configs.broker("") == ({"min.insync.replicas": "2"} if has_elr else {})


def first_transaction(log: bytes) -> list[Any]:
    """The records of the first metadata transaction."""
    found: list[Any] = []
    for batch in framing.batches(log):
        for _, record in framing.records_in(batch) if not batch.is_control else ():
            message: Any = record.message
            found.append(message)
            if type(message).__name__ == "EndTransactionRecord":
                return found
    return found


def test_the_first_records_are_those_of_kafka() -> None:
    """If this fails, a new cluster of ours has other features or settings than one of Kafka 4.3.1."""
    theirs = first_transaction((FIXTURE / "00000000000000000000.log").read_bytes())
    assert len(theirs) == 9
    assert first_transaction(b"".join(Cluster.started().log)) == theirs


def test_operations_see_what_is_not_committed_yet() -> None:
    """If this fails, two clients that create the same topic at the same time would both get success."""
    cluster = Cluster.started()
    first = cluster.accept(create("a"))
    second = cluster.accept(create("a"))
    assert first.topics[0].error_code == 0
    assert second.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert cluster.image.topics.by_name("a") is None
    cluster.commit()
    assert cluster.image.topics.by_name("a") is not None


def test_abandoned_operations_leave_nothing() -> None:
    """If this fails, after a full disk the broker would continue with topics that no log contains."""
    cluster = Cluster.started()
    cluster.run(create("kept"))
    before = cluster.image.copy()
    cluster.accept(create("a", "b"))
    cluster.accept(delete("kept"))
    cluster.abandon()
    assert same_content(cluster.image, before)
    assert cluster.controller.state.topics.by_name("kept") is not None
    assert cluster.run(create("a")).topics[0].error_code == 0
    assert same_content(cluster.replayed(), cluster.image)


def test_commit_goes_to_an_offset() -> None:
    """If this fails, an operation that is accepted during a sync is lost or committed too early."""
    cluster = Cluster.started()
    controller = cluster.controller
    cluster.accept(create("a"))
    end_of_a = cluster.next_offset
    cluster.accept(create("b"))
    cluster.accept(delete("a"))
    assert controller.commit(end_of_a - 1, 1) is None
    delta = controller.commit(end_of_a, 1)
    assert delta is not None
    assert [change.after.name for change in delta.topics if change.after] == ["a"]
    assert cluster.image.topics.by_name("a") is not None
    assert cluster.image.topics.by_name("b") is None
    assert (cluster.image.offset, controller.state.offset) == (end_of_a - 1, cluster.next_offset - 1)
    assert controller.state.topics.by_name("a") is None
    assert controller.state.topics.by_name("b") is not None
    controller.commit(cluster.next_offset + 5, 1)
    assert [topic.name for topic in cluster.image.topics] == ["b"]
    assert controller.state.offset == controller.image.offset
    assert controller.commit(cluster.next_offset, 1) is None


def test_a_step_of_several_batches_is_committed_batch_by_batch() -> None:
    """If this fails, the image contains records that are not committed, which another leader may never have had."""
    cluster = Cluster.started()
    start = cluster.next_offset
    names = [f"t{number}" for number in range(RECORDS_PER_STEP_MAX + 1)]
    ids = [cluster.new_uuid() for _ in names]
    topics = [
        VersionedRecord(messages.TopicRecord(name=name, topic_id=topic_id))
        for name, topic_id in zip(names, ids, strict=True)
    ]
    cluster.accept(Records(*topics, atomic=False))
    cluster.controller.commit(start + RECORDS_PER_STEP_MAX, 1)
    assert len(cluster.image.topics) == RECORDS_PER_STEP_MAX
    assert len(cluster.controller.state.topics) == RECORDS_PER_STEP_MAX + 1
    cluster.commit()
    assert len(cluster.image.topics) == RECORDS_PER_STEP_MAX + 1


def test_abandon_keeps_what_is_in_the_log() -> None:
    """If this fails, a write that fails would also undo operations that were written and will be committed."""
    cluster = Cluster.started()
    controller = cluster.controller
    cluster.accept(create("a"))
    end_of_a = cluster.next_offset
    cluster.accept(create("b"))
    controller.abandon(end_of_a)
    assert cluster.image.topics.by_name("a") is None
    assert [topic.name for topic in controller.state.topics] == ["a"]
    assert controller.state.offset == end_of_a - 1
    controller.commit(end_of_a, 1)
    assert [topic.name for topic in cluster.image.topics] == ["a"]


def test_an_atomic_step_has_a_bound() -> None:
    """If this fails, one request could write a batch that is too large for any reader."""
    cluster = Cluster.started()
    noop = VersionedRecord(messages.NoOpRecord())
    with pytest.raises(KafkaError, match="excessively large batch operation"):
        cluster.run(Records(*[noop] * (RECORDS_PER_STEP_MAX + 1)))
    cluster.run(Records(*[noop] * (RECORDS_PER_STEP_MAX + 1), atomic=False))
    assert cluster.replayed().offset == cluster.image.offset


def test_a_step_that_does_not_fit_leaves_nothing() -> None:
    """If this fails, a bug in one operation would leave records in the state that no log contains."""
    cluster = Cluster.started()
    cluster.accept(create("kept"))
    good = VersionedRecord(messages.TopicRecord(name="half", topic_id=cluster.new_uuid()))
    bad = VersionedRecord(messages.RemoveTopicRecord(topic_id=cluster.new_uuid()))
    with pytest.raises(MetadataLogError):
        cluster.accept(Records(good, bad))
    assert cluster.controller.state.topics.by_name("half") is None
    cluster.commit()
    assert [topic.name for topic in cluster.image.topics] == ["kept"]
    assert same_content(cluster.replayed(), cluster.image)


def test_restart_begins_a_new_leader_epoch_everywhere() -> None:
    """If this fails, after a crash, consumers could not tell new records from lost ones at the same offsets
    (KIP-320).
    """
    cluster = Cluster.started()
    cluster.run(create("a", "b", partitions=2))
    old_epoch = cluster.image.brokers[1].epoch
    new_epoch = cluster.start()
    assert new_epoch > old_epoch
    for topic in cluster.image.topics:
        for partition in topic.partitions.values():
            # Without a leader first, as in Kafka.
            assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 2, 2)
    assert same_content(cluster.replayed(), cluster.image)


def test_start_on_kafkas_log_leads_everything_again() -> None:
    """If this fails, a directory of Apache Kafka that was stopped in order has no leaders, and nothing of it could be
    read.
    """
    loader = Loader()
    loader.load_log((FIXTURE / "00000000000000000000.log").read_bytes())
    cluster = Cluster(image=loader.image)
    directories = list(topic_in(cluster.image, "sample").partitions[0].directories)
    cluster.run(Activate([], in_transaction=False))
    assert cluster.register(1, log_dirs=directories, previous_broker_epoch=cluster.image.brokers[1].epoch) == 50
    assert not cluster.beat(1).is_fenced
    for topic in cluster.image.topics:
        (partition,) = topic.partitions.values()
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())
        assert partition.leader_epoch == 2
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.is_active) == (50, True)


def lonely(
    replicas: list[int], isr: list[int], leader: int, elr: list[int] | None = None, *, has_elr: bool = True
) -> tuple[int, tuple[int, ...]]:
    """(leader, isr) after the session of broker 2 has ended and broker 1 has started again."""
    levels = [each for each in default_bootstrap() if has_elr or "eligible" not in each.message.name]
    cluster = Cluster.started(bootstrap=levels)
    cluster.start(broker_id=2)
    topic_id = cluster.new_uuid()
    cluster.run(
        Records(
            VersionedRecord(messages.TopicRecord(name="t", topic_id=topic_id)),
            VersionedRecord(
                messages.PartitionRecord(
                    partition_id=0,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=isr,
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    eligible_leader_replicas=elr,
                ),
                2,
            ),
        )
    )
    cluster.run(FenceBrokers((2,), FenceReason.SESSION_TIMEOUT))
    cluster.start(broker_id=1)
    partition = topic_in(cluster.image, "t").partitions[0]
    return partition.leader, partition.isr


def test_only_what_is_in_sync_is_led() -> None:
    """If this fails, started from the log of a larger cluster, the broker would lead partitions that it has only a
    part of.
    """
    for has_elr in (False, True):
        # With eligible leaders the last one in sync is among them, and the set is empty (KIP-966).
        last = () if has_elr else (2,)
        assert lonely([1, 2], [1, 2], 2, has_elr=has_elr) == (1, (1,))
        assert lonely([1, 2], [2], 2, has_elr=has_elr) == (-1, last)
        assert lonely([2], [2], 2, has_elr=has_elr) == (-1, last)
    assert lonely([1, 2], [], -1, elr=[1]) == (1, (1,))
    assert lonely([1, 2], [], -1, elr=[2]) == (-1, ())


def test_a_stop_fences_the_broker() -> None:
    """If this fails, Apache Kafka would refuse to start on the directory until a session has timed out."""
    cluster = Cluster.started()
    cluster.run(create("a"))
    cluster.stop(1)
    assert cluster.image.brokers[1].fenced
    partition = topic_in(cluster.image, "a").partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))


def test_a_killed_node_does_not_wait_for_its_own_session() -> None:
    """If this fails, a single node that was killed starts only when the session of its former process has ended."""
    cluster = Cluster.started()
    old_epoch = cluster.image.brokers[1].epoch
    assert not cluster.image.brokers[1].fenced
    assert cluster.start() > old_epoch


def test_producer_ids_are_never_given_twice() -> None:
    """If this fails, two producers with one id would take each other's records for duplicates."""
    cluster = Cluster.started()
    epoch = cluster.image.brokers[1].epoch
    seen = [cluster.run(AllocateProducerIds(1, epoch)) for _ in range(3)]
    assert seen == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert cluster.replayed().next_producer_id == 3000
    with pytest.raises(KafkaError) as error:
        cluster.run(AllocateProducerIds(1, epoch + 1))
    assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_producer_ids_end() -> None:
    """If this fails, the id after the last would be negative, which means none."""
    cluster = Cluster.started()
    epoch = cluster.image.brokers[1].epoch
    record = messages.ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=2**63 - 900)
    cluster.run(Records(VersionedRecord(record)))
    with pytest.raises(KafkaError, match="Exhausted all producerIds"):
        cluster.run(AllocateProducerIds(1, epoch))


@pytest.mark.parametrize("level", [6, 31])
def test_metadata_version_out_of_range(level: int) -> None:
    """If this fails, the broker would write records that the cluster's other software cannot read."""
    record = messages.FeatureLevelRecord(name="metadata.version", feature_level=level)
    with pytest.raises(MetadataLogError, match=f"metadata.version {level} of this cluster is not supported; 7 to 30"):
        Cluster.started(bootstrap=[VersionedRecord(record)])


@pytest.mark.parametrize("level", [7, 8, 15, 17, 23, 30])
def test_older_metadata_versions(level: int) -> None:
    """If this fails, on a cluster that was never upgraded, records would be written in versions it does not know."""
    record = messages.FeatureLevelRecord(name="metadata.version", feature_level=level)
    cluster = Cluster.started(bootstrap=[VersionedRecord(record)])
    cluster.run(create("a"))
    cluster.start()
    assert same_content(cluster.replayed(), cluster.image)
    assert bool(topic_in(cluster.image, "a").partitions[0].directories) is (level >= 17)
    loader = snapshot_of(cluster.image)
    assert same_content(loader.image, cluster.image)


def test_torn_transaction_is_ended() -> None:
    """If this fails, everything written after a transaction that a crash cut off would count as part of it, and
    vanish.
    """
    cluster = Cluster.started()
    cluster.log.append(b"")
    begin = Records(VersionedRecord(messages.BeginTransactionRecord(name="x")))
    cluster.run(begin)
    torn = Loader()
    for batch in cluster.log:
        torn.load_log(batch)
    assert torn.in_transaction
    cluster.run(Activate([], in_transaction=True))
    cluster.run(create("a"))
    assert cluster.replayed().topics.by_name("a") is not None


def snapshot_of(image: MetadataImage) -> Loader:
    loader = Loader()
    content = b"".join(snapshot.write(snapshot.records_of(image), KRaftState(), max(image.epoch, 0), 0, 0))
    loader.load_snapshot(content, SnapshotId(image.offset + 1, max(image.epoch, 0)))
    return loader


NAMES = st.sampled_from(["a", "b", "c.c", "c_c", "d"])
ACTIONS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 4)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("grow"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("set"), NAMES, st.sampled_from(["1", "2", None])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("ids")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("abandon")),
    st.tuples(st.just("snapshot")),
)


def act(cluster: Cluster, action: tuple[Any, ...]) -> None:
    match action:
        case ("create", name, count):
            cluster.accept(create(name, partitions=count))
        case ("delete", name):
            cluster.accept(delete(name))
        case ("grow", name, count):
            cluster.accept(grow(name, count))
        case ("set", name, value) if cluster.controller.state.topics.by_name(name):
            cluster.accept(setting(name, "retention.ms", value))
        case ("restart",):
            cluster.commit()
            cluster.start()
        case ("ids",):
            cluster.accept(AllocateProducerIds(1, cluster.controller.state.brokers[1].epoch))
        case ("commit",):
            cluster.commit()
        case ("abandon",):
            cluster.abandon()


@settings(deadline=None, max_examples=60)
@given(st.lists(ACTIONS, max_size=25))
def test_replay_gives_the_same_image(actions: list[tuple[Any, ...]]) -> None:
    """If this fails, after a restart the broker would know other topics, settings, epochs or producer ids than
    before.
    """
    cluster = Cluster.started()
    newest: Loader | None = None
    for action in actions:
        if action == ("snapshot",):
            cluster.commit()
            newest = snapshot_of(cluster.image)
        else:
            act(cluster, action)
    cluster.commit()
    replayed = cluster.replayed()
    assert same_content(replayed, cluster.image)
    assert replayed.offset == cluster.image.offset
    if newest is not None:
        for batch in cluster.log:
            newest.load_log(batch)
        assert same_content(newest.image, cluster.image)
