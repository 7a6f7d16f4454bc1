"""kafka-python's admin client and a broker with two disks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer, TopicPartitionReplica
from kafka.errors import LogDirNotFoundError, NoError, UnknownTopicOrPartitionError

from tests.support.broker import Target
from tests.support.kafka_python import TIMEOUT_S, create
from tests.support.wait import until

PARTITIONS = 4


def places(admin: KafkaAdminClient, topic: str) -> dict[int, str]:
    """The directory of each replica of the one broker, without those on their way."""
    (described,) = admin.describe_log_dirs([topic])
    assert {each["error_code"] for each in described["log_dirs"]} == {0}
    return {
        part["partition_index"]: each["log_dir"]
        for each in described["log_dirs"]
        for found in each["topics"]
        for part in found["partitions"]
        if not part["is_future_key"]
    }


def test_replicas_move_to_the_other_disk(make_broker: Callable[..., Target], tmp_path: Path, topic: str) -> None:
    """If this fails, programs with kafka-python cannot balance the disks of a broker, or do not see what is on them."""
    paths = [str(tmp_path / name) for name in ("a", "b")]
    broker = make_broker({"log.dirs": ",".join(paths)}, tmp_path / "a")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    try:
        create(admin, topic, PARTITIONS)
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(TIMEOUT_S)
        until(lambda: len(places(admin, topic)) == PARTITIONS, "the logs")
        before = places(admin, topic)
        assert set(before.values()) == set(paths)
        broker_id = admin.describe_cluster()["brokers"][0]["broker_id"]

        def move(targets: dict[int, str]) -> set[type[Exception]]:
            keys = {TopicPartitionReplica(topic, index, broker_id): path for index, path in targets.items()}
            found = admin.alter_replica_log_dirs(keys)
            assert found.keys() == keys.keys()
            return set(found.values())

        assert move(before) == {NoError}
        after = {index: paths[1 - paths.index(path)] for index, path in before.items()}
        assert move(after) == {NoError}
        until(lambda: places(admin, topic) == after, "the moves")
        assert move({0: str(tmp_path / "c")}) == {LogDirNotFoundError}
        assert move({PARTITIONS: paths[0]}) == {UnknownTopicOrPartitionError}
    finally:
        producer.close(TIMEOUT_S)
        admin.close()
