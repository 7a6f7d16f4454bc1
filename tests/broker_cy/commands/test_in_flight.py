"""`broker-cy groups in-flight`, with a share consumer of librdkafka that holds records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from bench.launch.nodes import free_ports
from tests.broker_cy.commands.conftest import Cli
from tests.support.broker import Target, new_target
from tests.support.confluent import TIMEOUT_S, send
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import FakeGroups
from tests.support.topics import create_topic

TOPIC, GROUP = "orders", "checkout"
LIMIT = 3


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Target]:
    """A broker with a share group that holds two records of four: one was accepted, and one rejected."""
    settings = {
        "brokercy.metrics.listener": f"127.0.0.1:{free_ports(1)[0]}",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.heartbeat.interval.ms": "200",
        "group.share.delivery.count.limit": str(LIMIT),
    }
    target = new_target(tmp_path, settings)
    consumer: ShareConsumer | None = None
    try:
        target.start()
        create_topic(target.bootstrap, TOPIC, 1)
        consumer = ShareConsumer(
            {
                "bootstrap.servers": target.bootstrap,
                "client.id": "till",
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe([TOPIC])
        yield _Held(target, consumer).take()
    finally:
        if consumer is not None:
            consumer.close()
        target.close()


class _Held:
    def __init__(self, target: Target, consumer: ShareConsumer) -> None:
        self.target, self.consumer = target, consumer

    def take(self) -> Target:
        """Get records until four of one poll arrived, and acknowledge the first two."""
        deadline = time.monotonic() + TIMEOUT_S
        found: list[Message] = []
        # The group begins at the end of the log, once the member has its partitions.
        while not found:
            assert time.monotonic() < deadline
            send(self.target, TOPIC, [b"a", b"b", b"c", b"d"])
            found = list(self.consumer.poll(1.0))
        self.consumer.acknowledge(found[0], AcknowledgeType.ACCEPT)
        self.consumer.acknowledge(found[1], AcknowledgeType.REJECT)
        assert all(error is None for error in self.consumer.commit_sync(TIMEOUT_S).values())
        return self.target


def test_holders_and_causes_are_shown(bare: Cli, held: Target) -> None:
    """If this fails, an operator does not see which consumer holds the records that a share group does not finish."""
    command = ("groups", "in-flight", GROUP, "--bootstrap", held.bootstrap)
    page = bare(*command, "--json").json
    assert page["brokers"]
    assert page["archived"] == {"reject": 1, "limit": 0, "missing": 0, "aborted": 0}
    (delivered,) = (each for each in page["runs"] if each["state"] == "acquired")
    assert (delivered["deliveries"], delivered["partition"]) == (1, {"topic": TOPIC, "partition": 0})
    assert 0 < delivered["lock_left_ms"] <= 30_000
    assert page["by_deliveries"] == {"1": delivered["last_offset"] - delivered["first_offset"] + 1}
    assert (page["last_attempts"], page["left_out"], page["blocked"]) == (0, 0, [])
    shown = bare(*command).out.splitlines()
    assert shown[0].startswith("in flight: ")
    assert "archived: 1 rejected" in shown
    assert shown[-1].split()[:2] == [f"{TOPIC}-0", str(delivered["first_offset"])]
    assert "till" in shown[-1]


def test_groups_and_brokers_without_records_in_flight(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group of another type, or a broker that reports nothing, looks like one without records."""
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(FakeGroups()))
    command = ("groups", "in-flight", "--bootstrap", "a:1")
    assert "only share groups have records in flight" in bare(*command, "billing", code=2).err
    assert "no broker answers at its brokercy.metrics.listener" in bare(*command, GROUP, code=1).err
    assert "GROUP_ID_NOT_FOUND" in bare(*command, "no-such-group", code=1).err
