"""Apache Kafka's own tools on our transactions: the coordinator's log, and the views of administrators."""

from __future__ import annotations

import re
from collections.abc import Callable

from broker_cy.wire import messages
from tests.compat.differential.client import Client
from tests.compat.test_confluent_transactions import new_producer
from tests.compat.test_transactions import committed
from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, send
from tests.support.kafka_dump import dump_log_segments
from tests.support.kafka_tools import run_tool
from tests.support.raw_wire import RawBatch, RawRecord
from tests.support.topics import create_topic
from tests.support.wait import until

MakeBroker = Callable[..., Target]


def test_kafka_reads_the_coordinators_log(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a data directory that is returned to Kafka loses its transactions."""
    broker = make_broker({"transaction.state.log.num.partitions": "1"})
    create_topic(broker.bootstrap, topic, partitions=2)
    producer = new_producer(broker, f"{topic}-id")
    producer.init_transactions(TIMEOUT_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"x", partition=partition)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)
    broker.stop()
    logs = sorted((broker.data_dir / "__transaction_state-0").glob("*.log"))
    dumped = dump_log_segments(logs, "--transaction-log-decoder")
    assert f"{topic}-id" in dumped
    # Kafka's numbers of PrepareCommit, CompleteCommit, PrepareAbort and CompleteAbort, in this order.
    states = [int(number) for number in re.findall(r'"transactionStatus":(\d)', dumped)]
    assert [state for state in states if state >= 2] == [2, 4, 3, 5]
    assert states[0] == 0
    assert topic in dumped


def test_kafka_transactions_tool(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, kafka-transactions does not find hanging transactions."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, f"{topic}-id")
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(TIMEOUT_S)
    tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap)
    listed = run_tool(*tool, "list", "--transactional-id-pattern", f"{topic}.*").stdout.decode()
    assert re.search(rf"{topic}-id\s+1\s+\d+\s+Ongoing", listed)
    described = run_tool(*tool, "describe", "--transactional-id", f"{topic}-id").stdout.decode()
    assert f"{topic}-0" in described
    assert "Ongoing" in described
    producer.abort_transaction(TIMEOUT_S)


def plant_hanging(broker: Target, topic: str) -> int:
    """Open a transaction that is unknown to the coordinator, with a start years ago; returns its producer id."""
    client = Client((broker.host, broker.port))
    producer_id = until(
        lambda: client.ask(messages.InitProducerIdRequest(transactional_id=None), 4).producer_id, "a producer id"
    )
    data = RawBatch(
        records=[RawRecord(value=b"hanging")],
        base_timestamp=1_700_000_000_000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        attributes=0x10,
    ).encode()
    request = messages.ProduceRequest
    topics = [
        request.TopicProduceData(name=topic, partition_data=[request.PartitionProduceData(index=0, records=data)])
    ]
    answer = client.ask(request(transactional_id="lost", acks=-1, timeout_ms=10_000, topic_data=topics), 11)
    client.close()
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
    return int(producer_id)


def test_hanging_transactions_are_found_and_aborted(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, readers of a partition are blocked forever, and its administrator has no way to unblock them."""
    # Without verification a partition accepts batches that no coordinator knows, as before KIP-890.
    broker = make_broker({"transaction.partition.verification.enable": "false"})
    create_topic(broker.bootstrap, topic)
    healthy = new_producer(broker, f"{topic}-id")
    healthy.init_transactions(TIMEOUT_S)
    healthy.begin_transaction()
    healthy.produce(topic, b"healthy", partition=0)
    healthy.flush(TIMEOUT_S)
    producer_id = plant_hanging(broker, topic)
    healthy.commit_transaction(TIMEOUT_S)
    send(broker, topic, [b"behind"])
    assert committed(broker, topic) == [b"healthy"]

    def tool(*arguments: str) -> str:
        tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap)
        return run_tool(*tool, *arguments).stdout.decode()

    found = tool("find-hanging", "--broker-id", "1").splitlines()
    assert len(found) == 2, found
    row = dict(zip(found[0].split(), found[1].split(), strict=False))
    assert (row["Topic"], row["Partition"], row["ProducerId"]) == (topic, "0", str(producer_id))
    of_partition = ("--topic", topic, "--partition", "0")
    described = tool("describe-producers", *of_partition)
    assert re.search(rf"{producer_id}\s+0\s+-1\s+0\s+\d+\s+{row['StartOffset']}\b", described), described
    tool("abort", *of_partition, "--start-offset", row["StartOffset"])
    assert committed(broker, topic) == [b"healthy", b"behind"]
    described = tool("describe-producers", *of_partition)
    assert re.search(rf"{producer_id}\s+0\s+\d+\s+-?\d+\s+\d+\s+None", described), described
    assert len(tool("find-hanging", "--broker-id", "1").splitlines()) == 1


def test_kafka_features_tool(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a cluster formatted for old clients never gets the new protocol, or cannot go back from it."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic)
    tool = ("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", broker.bootstrap)
    name = "transaction.version"

    def epoch_after(transactional_id: str) -> int:
        """Return the epoch of the transactional id after transactions of Kafka's own producer."""
        performance = ("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", broker.bootstrap)
        run_tool(
            *(*performance, "--topic", topic, "--num-records", "3", "--record-size", "9", "--throughput", "-1"),
            *("--transactional-id", transactional_id, "--transaction-duration-ms", "10000"),
        )
        client = Client((broker.host, broker.port))

        def state() -> messages.DescribeTransactionsResponse.TransactionState:
            request = messages.DescribeTransactionsRequest(transactional_ids=[transactional_id])
            found: list[messages.DescribeTransactionsResponse.TransactionState]
            found = client.ask(request, 0).transaction_states
            return found[0]

        try:
            # The producer is answered before the markers are written.
            until(lambda: state().transaction_state == "CompleteCommit", "the end of the transaction", TIMEOUT_S)
            return int(state().producer_epoch)
        finally:
            client.close()

    looked = run_tool(*tool, "downgrade", "--feature", f"{name}=0", "--dry-run").stdout.decode()
    assert f"{name} can be downgraded to 0." in looked
    described = run_tool(*tool, "describe").stdout.decode()
    assert re.search(rf"{name}\s.*FinalizedVersionLevel: 2\b", described), described
    changed = run_tool(*tool, "downgrade", "--feature", f"{name}=0").stdout.decode()
    assert f"{name} was downgraded to 0." in changed
    assert epoch_after("old") == 0
    assert broker.stop() == 0
    broker.restart()
    assert epoch_after("old") == 1, "a second producer, and no epoch for its transaction"
    assert b"was upgraded to 2" in run_tool(*tool, "upgrade", "--feature", f"{name}=2").stdout
    assert epoch_after("old") == 3
    assert len(committed(broker, topic)) == 9
