"""The tools of Apache Kafka 4.3.1 for share groups."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.compat.test_confluent_share import SETTINGS, configure, new_topic
from tests.support import kafka_tools, needs
from tests.support.broker import Target, new_target
from tests.support.confluent import send

pytestmark = needs.kafka
TIMEOUT_S = 120.0
GROUP = "tools"


@pytest.fixture(scope="module")
def share_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = new_target(tmp_path_factory.mktemp("share"), SETTINGS)
    try:
        target.start()
        configure(target, GROUP, "share.auto.offset.reset", "earliest")
        yield target
    finally:
        target.close()


def run(broker: Target, tool: str, *arguments: str) -> list[str]:
    done = kafka_tools.run_tool(
        f"org.apache.kafka.tools.{tool}", "--bootstrap-server", broker.bootstrap, *arguments, timeout_s=TIMEOUT_S
    )
    return done.stdout.decode().splitlines()


def test_the_tools_of_kafka_work(share_broker: Target) -> None:
    """If this fails, Kafka's Java share consumer does not get each record once, or its offsets are not shown."""
    topic = new_topic(share_broker, 2)
    values = [[b"%d-%d" % (partition, number) for number in range(300)] for partition in range(2)]
    for partition in range(2):
        send(share_broker, topic, values[partition], partition)
    group = ("--topic", topic, "--group", GROUP)
    read = run(
        share_broker,
        "consumer.ConsoleShareConsumer",
        *group,
        *("--max-messages", "600", "--timeout-ms", "30000", "--formatter-property", "print.delivery=true"),
    )
    assert sorted(read) == sorted(f"Delivery:1\t{value.decode()}" for part in values for value in part)
    for partition in range(2):
        send(share_broker, topic, values[partition], partition)
    figures = run(share_broker, "ShareConsumerPerformance", *group, "--num-records", "600")[-1].split(", ")
    assert figures[5] == "600"
    shown = run(share_broker, "consumer.group.ShareGroupCommand", "--group", GROUP, "--describe", "--verbose")
    # The persisted start offset is one write behind; the lag knows the finished records after it.
    rows = [line.split() for line in shown if line.startswith(GROUP)]
    assert [(row[1], row[2], row[5]) for row in rows] == [(topic, str(partition), "0") for partition in range(2)]


@pytest.mark.full
@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_the_verifiable_share_consumer_acknowledges_each_record(share_broker: Target, mode: str) -> None:
    """If this fails, the program of Kafka's system tests does not get each record once, or cannot acknowledge it."""
    topic = new_topic(share_broker, 2)
    for partition in range(2):
        send(share_broker, topic, [b"%d" % number for number in range(300)], partition)
    shown = run(
        share_broker,
        "VerifiableShareConsumer",
        *("--topic", topic, "--group-id", f"verifiable-{mode}", "--max-messages", "600"),
        *("--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"),
    )
    events = [json.loads(line) for line in shown]
    assert events[-1]["name"] == "shutdown_complete"
    for name in ("records_consumed", "offsets_acknowledged"):
        found = [
            (part["partition"], offset)
            for event in events
            if event["name"] == name
            for part in event["partitions"]
            for offset in part["offsets"]
        ]
        assert sorted(found) == [(partition, offset) for partition in range(2) for offset in range(300)]
    assert all(event.get("success", True) for event in events)
