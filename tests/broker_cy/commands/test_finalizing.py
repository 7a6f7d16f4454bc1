"""The group protocols of a running broker are switched off and on with `cluster finalize`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Message, ShareConsumer

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.broker_cy.commands.conftest import Cli
from tests.compat.test_confluent_share import SETTINGS, configure
from tests.support.broker import new_target
from tests.support.cluster import ask
from tests.support.confluent import send
from tests.support.topics import create_topic
from tests.support.wait import until

TOPIC, GROUP, WAIT_S = "orders", "sharers", 60.0
PROTOCOLS = ("group.version", "share.version", "streams.version")


def codes(port: int) -> tuple[int, int, int]:
    """The errors of members that join with the consumer, share and streams protocol."""
    subscribed: dict[str, Any] = {"member_id": "m", "member_epoch": 0, "subscribed_topic_names": [TOPIC]}
    consumer = m.ConsumerGroupHeartbeatRequest(
        group_id="consumers", rebalance_timeout_ms=10_000, topic_partitions=[], **subscribed
    )
    share = m.ShareGroupHeartbeatRequest(group_id="others", **subscribed)
    streams = m.StreamsGroupHeartbeatRequest(
        group_id="streams",
        member_id="m",
        rebalance_timeout_ms=10_000,
        topology=m.StreamsGroupHeartbeatRequest.Topology(
            subtopologies=[m.StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=[TOPIC])]
        ),
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    return (
        ask(port, consumer, m.ConsumerGroupHeartbeatResponse).error_code,
        ask(port, share, m.ShareGroupHeartbeatResponse).error_code,
        ask(port, streams, m.StreamsGroupHeartbeatResponse).error_code,
    )


def poll(consumer: ShareConsumer) -> list[Message]:
    return [message for message in consumer.poll(0.5) if message.error() is None]


def test_group_protocols_go_off_and_on(bare: Cli, tmp_path: Path) -> None:
    """If this fails, an operator who lowers a feature does not stop its groups, or loses them for good: records that a
    share group had in flight never come again.
    """
    target = new_target(tmp_path / "broker", SETTINGS).start()
    try:
        where = ["--bootstrap", target.bootstrap]
        create_topic(target.bootstrap, TOPIC, 1)
        configure(target, GROUP, "share.auto.offset.reset", "earliest")
        send(target, TOPIC, [b"a", b"b"])
        settings = {"bootstrap.servers": target.bootstrap, "group.id": GROUP, "log_level": 0}
        holder = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
        holder.subscribe([TOPIC])
        first, _ = until(lambda: poll(holder), "the records", WAIT_S)
        holder.acknowledge(first)
        assert list(holder.commit_sync(WAIT_S).values()) == [None]

        other_type = bare("consume", TOPIC, "--group", GROUP, *where, code=1).err
        assert f"group {GROUP}: INCONSISTENT_GROUP_PROTOCOL: the group is of another type" in other_type
        for name in PROTOCOLS:
            said = bare("cluster", "finalize", f"{name}=2", "--dry-run", *where, code=2).err
            assert f"{name}: the broker supports levels 0 to 1, and not 2" in said
        bare("cluster", "finalize", *(f"{name}=0" for name in PROTOCOLS), "--yes", *where)
        refused = int(ErrorCode.UNSUPPORTED_VERSION)
        until(lambda: codes(target.port) == (refused,) * 3, "no protocols", WAIT_S)
        holder.close()
        bare("cluster", "finalize", *(f"{name}=1" for name in PROTOCOLS), "--yes", *where)
        until(lambda: codes(target.port) == (0, 0, 0), "all protocols", WAIT_S)

        # The session of the holder ended with the protocol, and its lock with the session.
        other = ShareConsumer(settings)
        other.subscribe([TOPIC])
        (again,) = until(lambda: poll(other), "the record that was in flight", WAIT_S)
        assert (again.value(), again.delivery_count()) == (b"b", 1)
        other.close()
    finally:
        target.close()
