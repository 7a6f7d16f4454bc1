"""The metadata log and snapshots: files of Apache Kafka 4.3.1 are read, and ours have its format."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.metadata import framing, snapshot
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.wire import messages
from broker_cy.wire.control import KraftVersion, KraftVoters, VoterSetEntry
from broker_cy.wire.records import Record, encode_batch
from tests.support.images import same_content, topic_in

LOGDIR = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "logdir"
METADATA_LOG = (LOGDIR / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
BOOTSTRAP = (LOGDIR / "bootstrap.checkpoint").read_bytes()


def load(content: bytes) -> Loader:
    loader = Loader()
    loader.load_log(content)
    return loader


def data(*records: VersionedRecord, offset: int = 0) -> bytes:
    return framing.data_batch(list(records), offset, 1, 1000)


def record(kind: str, version: int = 0, /, **fields: object) -> VersionedRecord:
    return VersionedRecord(getattr(messages, kind)(**fields), version)


def test_kafkas_log_loads() -> None:
    """If this fails, a directory of Apache Kafka would not open, or open without its topics and settings."""
    loader = load(METADATA_LOG)
    image = loader.image
    assert (image.offset, image.epoch, loader.in_transaction) == (49, 1, False)
    assert {t.name for t in image.topics} == {"sample", "compacted", "__transaction_state", "__consumer_offsets"}
    sample = image.topics.by_name("sample")
    assert sample is not None
    assert uuids.to_text(sample.topic_id) == "fv9LOLxnSJqPLJftUSoyAg"
    partition = sample.partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (), -1)
    assert (partition.elr, partition.leader_epoch, partition.partition_epoch) == ((1,), 1, 1)
    assert image.configs.topic("compacted") == {"cleanup.policy": "compact"}
    assert image.configs.broker("") == {"min.insync.replicas": "1"}
    assert image.next_producer_id == 1000
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown) == (11, True, True)
    assert broker.listeners["PLAINTEXT"] == ("127.0.0.1", 19092, 0)
    assert image.features.metadata_version == 30
    assert 1 in image.controllers


def test_the_features_of_kafka_are_reported() -> None:
    """If this fails, clients do not use protocols that the log of a Kafka has finalized."""
    features = load(METADATA_LOG).image.features
    assert features.finalized == features.levels()
    assert features.finalized["streams.version"] == 1
    assert features.finalized["transaction.version"] == 2


def test_every_record_of_kafka_is_written_back_byte_for_byte() -> None:
    """If this fails, records of this broker differ from Kafka's form of the same records."""
    count = 0
    for content in (METADATA_LOG, BOOTSTRAP):
        for batch in framing.batches(content):
            if not batch.is_control:
                for raw in batch.records():
                    assert raw.value is not None
                    assert framing.frame(framing.unframe(raw.value)) == raw.value
                    count += 1
    assert count == 55


def test_bootstrap_checkpoint_is_kafkas_byte_for_byte_but_for_times() -> None:
    """If this fails, Kafka would not start on a directory that this broker formatted."""
    records = snapshot.bootstrap_records(BOOTSTRAP)
    written = b"".join(snapshot.write(iter(records), KRaftState(), 0, 0, 0))
    for ours, theirs in zip(framing.batches(written), framing.batches(BOOTSTRAP), strict=True):
        assert (ours.base_offset, ours.is_control, ours.leader_epoch) == (
            theirs.base_offset,
            theirs.is_control,
            theirs.leader_epoch,
        )
        assert [(r.key, r.value) for r in ours.records()] == [(r.key, r.value) for r in theirs.records()]


def round_trip(loader: Loader) -> Loader:
    image = loader.image
    snapshot_id = SnapshotId(image.offset + 1, image.epoch)
    content = b"".join(snapshot.write(snapshot.records_of(image), loader.kraft, image.epoch, 5, 6))
    assert snapshot.is_finished(content)
    again = Loader()
    again.load_snapshot(content, snapshot_id)
    assert (again.image.offset, again.image.epoch) == (image.offset, image.epoch)
    return again


def test_snapshot_gives_the_same_image() -> None:
    """If this fails, after the log below a snapshot is deleted, a part of the metadata would be lost with it."""
    loader = load(METADATA_LOG)
    assert same_content(round_trip(loader).image, loader.image)


def test_snapshot_and_tail_skip_what_is_covered() -> None:
    """If this fails, a record in both would be applied twice: epochs would run ahead."""
    batches = list(framing.batches(METADATA_LOG))
    half = batches[len(batches) // 2]
    again = round_trip(load(METADATA_LOG[: half.position]))
    again.load_log(METADATA_LOG)
    assert same_content(again.image, load(METADATA_LOG).image)


KEPT = [
    record(
        "AccessControlEntryRecord", id=uuids.from_text("fv9LOLxnSJqPLJftUSoyAg"), resource_name="t", principal="U:a"
    ),
    record(
        "UserScramCredentialRecord", name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=9
    ),
    record("DelegationTokenRecord", owner="U:a", requester="U:a", renewers=["U:b"], token_id="id"),
    record(
        "ClientQuotaRecord",
        entity=[messages.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)],
        key="producer_byte_rate",
        value=1.5,
    ),
]


def test_records_of_later_parts_survive_snapshots() -> None:
    """If this fails, ACLs, passwords, quotas and tokens of a log written by Kafka would silently vanish with the
    first snapshot.
    """
    loader = load(data(record("FeatureLevelRecord", name="metadata.version", feature_level=30), *KEPT))
    assert (len(loader.image.kept), list(loader.image.tokens)) == (3, ["id"])
    assert same_content(round_trip(loader).image, loader.image)
    removals = [
        record("RemoveAccessControlEntryRecord", id=KEPT[0].message.id),
        record("RemoveUserScramCredentialRecord", name="a", mechanism=1),
        record("RemoveDelegationTokenRecord", token_id="id"),
        record("ClientQuotaRecord", entity=KEPT[3].message.entity, key="producer_byte_rate", remove=True),
    ]
    loader.load_log(data(*removals, offset=5))
    assert (len(loader.image.kept), len(loader.image.tokens)) == (0, 0)


def test_voters_survive_snapshots() -> None:
    """If this fails, a quorum with dynamic voters (kraft.version 1) would forget them."""
    voters = KraftVoters((VoterSetEntry(1, uuids.from_text("fv9LOLxnSJqPLJftUSoyAg"), (), 0, 1),))
    content = framing.control_batch([KraftVersion(1), voters], 0, 1, 1000)
    loader = load(content + data(record("FeatureLevelRecord", name="metadata.version", feature_level=30), offset=2))
    assert loader.kraft.voter_ids() == (1,)
    again = round_trip(loader)
    assert (again.kraft.kraft_version, again.kraft.voters) == (1, voters)


TOPIC = record("TopicRecord", name="t", topic_id=uuids.from_text("fv9LOLxnSJqPLJftUSoyAg"))


@pytest.mark.parametrize(("end", "expected"), [("End", True), ("Abort", False), (None, False)])
def test_transactions_apply_as_a_whole(end: str | None, expected: bool) -> None:
    """If this fails, half of a change that Kafka made in one transaction (KIP-868) would be applied."""
    content = data(record("BeginTransactionRecord", name="x"), TOPIC)
    if end:
        content += data(record(f"{end}TransactionRecord"), offset=2)
    loader = load(content)
    assert (loader.image.topics.by_name("t") is not None) is expected
    assert loader.in_transaction is (end is None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (data(TOPIC)[:-3], "batch at byte 0 is incomplete: .* bytes are left"),
        (data(TOPIC)[:-1] + b"\xff", "checksum is wrong"),
        (
            encode_batch([Record(value=b"\x02\x02\x00")], leader_epoch=1),
            "offset 0: record frame version 2 is not supported; only 1 is",
        ),
        (encode_batch([Record(value=b"\x01\x63\x00")], leader_epoch=1), "offset 0: record type 99"),
        (encode_batch([Record(value=b"\x01\x02\x00\x05")], leader_epoch=1), "offset 0: TopicRecord"),
        (encode_batch([Record(value=b"")], leader_epoch=1), "record at offset 0: the bytes end inside the varint"),
        (data(TOPIC, TOPIC), "offset 1: TopicRecord for t, which exists already"),
        (data(record("RemoveTopicRecord", topic_id=TOPIC.message.topic_id)), "which does not exist"),
        (data(record("PartitionRecord", topic_id=TOPIC.message.topic_id)), "which does not exist"),
        (data(TOPIC, record("PartitionChangeRecord", topic_id=TOPIC.message.topic_id)), "-1, which does not exist"),
        (data(record("FenceBrokerRecord", id=7, epoch=1)), "broker 7 epoch 1, which is not registered"),
        (data(record("EndTransactionRecord")), "EndTransactionRecord without a Begin"),
        (data(record("AbortTransactionRecord")), "AbortTransactionRecord without a Begin"),
        (
            data(record("BeginTransactionRecord"), record("BeginTransactionRecord")),
            "record at offset 1: BeginTransactionRecord before the end",
        ),
    ],
)
def test_a_log_that_is_not_whole_is_refused(content: bytes, message: str) -> None:
    """If this fails, the broker would start with half of its metadata and delete the partitions it does not find
    there.
    """
    with pytest.raises(MetadataLogError, match=message):
        load(content)


def test_a_snapshot_without_footer_is_not_finished() -> None:
    """If this fails, a snapshot that a crash cut off is treated as complete."""
    parts = list(snapshot.write(snapshot.records_of(load(METADATA_LOG).image), KRaftState(), 1, 0, 0))
    assert not snapshot.is_finished(b"".join(parts[:-1]))


@pytest.mark.parametrize("name", ["00000000000000000000.log", "0-0.checkpoint", "bootstrap.checkpoint", "x"])
def test_other_files_are_no_snapshots(name: str) -> None:
    """If this fails, anything in the directory could be read as a snapshot, or deleted as an old one."""
    assert SnapshotId.of_file(name) is None


def test_snapshot_names() -> None:
    """If this fails, Kafka would not find the snapshots."""
    assert SnapshotId(50, 3).file_name == "00000000000000000050-0000000003.checkpoint"
    assert SnapshotId.of_file("00000000000000000050-0000000003.checkpoint") == (50, 3)


def test_clear_elr() -> None:
    """If this fails, a topic whose eligible leaders Kafka has cleared could still elect one that lost acknowledged
    records.
    """
    loader = load(METADATA_LOG)
    content = data(record("ClearElrRecord", topic_name="sample"), offset=50)
    loader.load_log(content)
    image: MetadataImage = loader.image
    assert topic_in(image, "sample").partitions[0].elr == ()
    assert topic_in(image, "compacted").partitions[0].elr == (1,)
    loader.load_log(data(record("ClearElrRecord", topic_name=""), offset=51))
    assert topic_in(image, "compacted").partitions[0].elr == ()


def test_hundred_thousand_partitions_cost_little() -> None:
    """If this fails, a broker with many partitions would need minutes to start: equal replica lists must be one
    object.
    """
    topic_id = TOPIC.message.topic_id
    records = [
        record("PartitionRecord", 2, partition_id=i, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0)
        for i in range(2000)
    ]
    image = load(data(TOPIC, *records)).image
    partitions = topic_in(image, "t").partitions
    assert len(partitions) == 2000
    assert partitions[0].replicas is partitions[1999].replicas is partitions[7].isr
