"""Transactions and groups of a real client in a cluster of three processes, with partitions on all of them."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from broker_cy.core.errors import ErrorCode
from tests.support.cluster import cluster, create_topic, topics
from tests.support.wait import until

PARTITIONS = 6
ROUNDS = 4
WAIT_S = 60.0


def consumer(servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def read(servers: str, group: str, count: int) -> tuple[Consumer, list[bytes]]:
    """Read `count` records as the only member of a group; return the member and the records."""
    reader = consumer(servers, group)
    reader.subscribe(["t"])
    found: list[bytes] = []

    def more() -> bool:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return len(found) >= count

    until(more, f"{count} records, and not {len(found)}", WAIT_S)
    return reader, found


def test_transactions_over_all_brokers(tmp_path: Path) -> None:
    """If this fails, a transaction whose coordinator, partitions and group are on different brokers does not end, or
    ends only in some of its partitions.
    """
    with cluster(
        tmp_path, settings={"offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "6"}
    ) as nodes:
        servers = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        assert create_topic(nodes[0].port, "t", PARTITIONS, 1) is ErrorCode.NONE
        until(lambda: all("t" in topics(node.port) for node in nodes), "the topic at each node")
        leaders = {part.leader_id for part in topics(nodes[0].port)["t"].partitions}
        assert leaders == {1, 2, 3}
        # Several ids, so that each broker coordinates some of them.
        producers = [
            Producer({"bootstrap.servers": servers, "transactional.id": f"id-{number}", "linger.ms": 0})
            for number in range(3)
        ]
        expected: list[bytes] = []
        for number, producer in enumerate(producers):
            producer.init_transactions(WAIT_S)
            for turn in range(ROUNDS):
                producer.begin_transaction()
                values = [b"%d-%d-%d" % (number, turn, partition) for partition in range(PARTITIONS)]
                for partition, value in enumerate(values):
                    producer.produce("t", value, partition=partition)
                if turn % 2:
                    producer.abort_transaction(WAIT_S)
                else:
                    producer.commit_transaction(WAIT_S)
                    expected += values
        reader, found = read(servers, "readers", len(expected))
        assert sorted(found) == sorted(expected)

        # The offsets of the group are part of a transaction.
        producer = producers[0]
        producer.begin_transaction()
        positions = [TopicPartition("t", partition, 2) for partition in range(PARTITIONS)]
        producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), WAIT_S)
        producer.produce("t", b"last", partition=0)
        producer.commit_transaction(WAIT_S)
        committed = until(
            lambda: {each.partition: each.offset for each in reader.committed(positions, WAIT_S)},
            "committed offsets",
            WAIT_S,
        )
        assert committed == dict.fromkeys(range(PARTITIONS), 2)
        reader.close()
        assert [node.stop() for node in nodes] == [0, 0, 0]
