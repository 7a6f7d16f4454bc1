"""Apache Kafka's own tools on our transactions: what lies in the coordinator's log, and what admins are shown."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.compat.test_confluent_transactions import new_producer
from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S
from tests.support.kafka_dist import dump_log_segments, run_tool
from tests.support.topics import create_topic

MakeBroker = Callable[..., Target]


def test_kafka_reads_the_coordinators_log(make_broker: MakeBroker, topic: str) -> None:
    """Else: a data directory that goes back to Kafka loses its transactions."""
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
    # By Kafka's numbers: PrepareCommit, CompleteCommit, PrepareAbort and CompleteAbort, in this order.
    states = [int(number) for number in re.findall(r'"transactionStatus":(\d)', dumped)]
    assert [state for state in states if state >= 2] == [2, 4, 3, 5]
    assert states[0] == 0
    assert topic in dumped


def test_kafka_transactions_tool(make_broker: MakeBroker, topic: str) -> None:
    """Else: hanging transactions are not found with the tool that admins know."""
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
