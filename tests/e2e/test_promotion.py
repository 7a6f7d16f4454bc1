"""`broker-mirror promote` ends mirrors of link flows, and groups continue at the same records (docs/mirror.md)."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition

from broker_cy.admin import AdminClient as OurAdmin
from broker_cy.admin.metadata import TopicPartition as Part
from broker_mirror.cli import command
from tests.broker_mirror.mirror_process import running_mirror
from tests.support.link_sides import LINK, PARTITIONS, PAUSED, WAIT_S, Side, fill, mirrored, produce_one
from tests.support.wait import until

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    east, west = Side(tmp_path_factory.mktemp("east")), Side(tmp_path_factory.mktemp("west"))
    west.link("east", east.broker.bootstrap)
    east.link("west", west.broker.bootstrap)
    try:
        yield east, west
    finally:
        east.broker.close()
        west.broker.close()


@pytest.fixture
def sides(pair: tuple[Side, Side]) -> tuple[Side, Side]:
    """Both with the name of a topic that does not exist yet."""
    pair[0].topic = pair[1].topic = f"t-{uuid.uuid4().hex[:8]}"
    return pair


def settings_of(sides: tuple[Side, Side]) -> dict[str, str]:
    """The settings of MirrorMaker 2's file with a link flow for the topic."""
    east, west = sides
    return {
        "clusters": "east, west",
        "east.bootstrap.servers": east.broker.bootstrap,
        "west.bootstrap.servers": west.broker.bootstrap,
        "east->west.enabled": "true",
        "east->west.brokercy.flow": "link",
        "east->west.topics": east.topic,
        "east->west.replication.factor": "1",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.group.offsets.enabled": "true",
        "brokercy.link.groups.interval.ms": "100",
        "emit.heartbeats.enabled": "false",
    }


def file_of(sides: tuple[Side, Side], directory: Path) -> Path:
    file = directory / "mm2.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in settings_of(sides).items()))
    return file


def promote(*arguments: object) -> tuple[int, Any]:
    return run("promote", *arguments)


def run(*arguments: object) -> tuple[int, Any]:
    """Run a command with JSON; returns its exit code, and the document or the error."""
    result = CliRunner().invoke(command, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(
        result.stdout if result.exit_code in (0, 1, 3) and result.stdout else result.stderr
    )


def test_a_planned_failover_loses_nothing(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """If this fails, records from before a planned failover are missing after it, or groups read all of them again."""
    east, west = sides
    file = file_of(sides, tmp_path)
    east.create()
    fill(east, 1_000)
    west.create(**{LINK: "east"})
    west.alter(PAUSED, "true")
    commit(east, "billing", [40, 50])

    code, found = promote(file, "--dry-run")
    (row,) = found["rows"]
    assert (code, row["topic"], row["state"], row["lag"] > 0) == (0, west.topic, "mirror", True)
    assert promote(file)[0] == 4, "without a terminal and --yes"
    code, found = promote(file, "--yes", "--wait", "300ms")
    assert (code, found["is_done"]) == (3, False), "records are missing"
    assert west.settings()[LINK] == "east"

    resumed = threading.Timer(0.3, west.alter, (PAUSED, "false"))
    resumed.start()
    try:
        code, found = promote(file, "--yes", "--wait", "60s")
    finally:
        resumed.join()
    (row,) = found["rows"]
    assert (code, row["state"], row["left"], row["problem"]) == (0, "promoted", 0, "")
    assert found["groups"] == {"billing": 2}
    assert committed(west, "billing") == [40, 50]
    assert west.read() == east.read()
    assert isinstance(produce_one(west, b"promoted"), Message)
    code, found = promote(file, "--topic", west.topic, "--yes")
    assert (code, found["rows"][0]["state"]) == (0, "promoted before")


def test_a_forced_failover_needs_no_source(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """If this fails, producers cannot write after the failure of the source."""
    east, west = sides
    east.create()
    fill(east, 100)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    place = ("--bootstrap", west.broker.bootstrap)
    assert promote(*place, "--topic", "other", "--force", "--yes")[0] == 2
    assert promote(*place, "--topic", west.topic, "--yes")[0] == 2, "no source is named"
    east.broker.kill()
    try:
        code, found = promote(file_of(sides, tmp_path), "--force", "--yes")
    finally:
        east.broker.restart()
    (row,) = found["rows"]
    assert (code, row["state"], row["left"]) == (0, "promoted", None)
    assert isinstance(produce_one(west, b"promoted"), Message)

    # The old source goes on, and becomes the mirror.
    for each in range(3):
        assert isinstance(produce_one(east, b"lost %d" % each), Message)
    file = file_of(sides, tmp_path)
    before = east.read()
    code, found = run("reverse", file, "--flow", "east->west", "--topic", west.topic, "--dry-run")
    (row,) = found["topics"]
    copied = west.ends()[0] - (east.ends()[0] - 3)
    assert (code, row["lost"], row["missing"], row["state"]) == (0, 3, copied, "topic")
    assert east.read() == before
    code, found = run("reverse", file, "--flow", "east->west", "--topic", west.topic, "--yes")
    assert (code, found["topics"][0]["state"]) == (0, "mirror")
    mirrored(west, east)
    until(lambda: east.segments() == west.segments(), "equal bytes")
    code, found = run("reverse", file, "--flow", "east->west", "--topic", west.topic, "--yes")
    assert (code, found["topics"][0]["state"]) == (0, "mirror before")


def test_groups_continue_after_the_source_is_killed(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """If this fails, a group reads records again after a failover, which it had committed before the last turn."""
    east, west = sides
    east.create()
    fill(east, 1_000)
    with running_mirror(settings_of(sides), tmp_path):
        until(lambda: west.admin.list_topics(timeout=WAIT_S).topics.get(west.topic), "the mirror")
        mirrored(east, west)
        commit(east, "billing", [10, 20])
        until(lambda: committed(west, "billing") == [10, 20], "the first offsets")
        end = max(east.ends())
        commit(east, "billing", [30, end + 1_000_000])
        until(lambda: committed(west, "billing") == [30, west.ends()[1]], "offsets up to the end of the mirror")
        commit(east, "billing", [5, 6])
        until(lambda: committed(west, "billing") == [5, 6], "the group went back in the source")


def test_groups_of_a_copy_flow_continue_at_the_same_records(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """If this fails, a planned failover of a copy flow leaves records behind, or groups read some again."""
    east, west = sides
    east.create()
    fill(east, 100)
    settings = settings_of(sides) | {
        "east->west.brokercy.flow": "copy",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        # As by default: the source gets a heartbeat each second, also meanwhile.
        "emit.heartbeats.enabled": "true",
        "heartbeats.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
    }
    with running_mirror(settings, tmp_path) as mirror:
        until(lambda: west.admin.list_topics(timeout=WAIT_S).topics.get(west.topic), "the remote topic")
        until(lambda: len(west.read()) == len(east.read()), "the records")
        until(lambda: "heartbeats" in {each.topic for each in mirror.flow("east->west").partitions}, "heartbeats")
        commit(east, "shipping", [10, 20])
        asyncio.run(share(east, "packing", [30, 40]))
        code, found = promote(tmp_path / "mirror.properties", "--flow", "east->west", "--yes")
    (row,) = found["rows"]
    groups = {"shipping": 2, "packing": 2}
    assert (code, row["state"], row["left"], found["groups"]) == (0, "copied", 0, groups)
    starts = asyncio.run(shared(west, "packing"))
    for partition, offset in enumerate([30, 40]):
        assert rest(east, partition, offset) == rest(west, partition, starts[partition])
    for partition, offset in enumerate([10, 20]):
        ours, theirs = rest(east, partition, offset), rest(west, partition, committed(west, "shipping")[partition])
        assert ours == theirs


async def share(side: Side, group: str, offsets: list[int]) -> None:
    """Set the start offsets of a share group."""
    async with OurAdmin(side.broker.bootstrap, timeout_s=WAIT_S) as client:
        wanted = {Part(side.topic, partition): offset for partition, offset in enumerate(offsets)}
        (await client.share_offsets.alter(group, wanted)).whole()


async def shared(side: Side, group: str) -> list[int]:
    """The start offsets of a share group."""
    async with OurAdmin(side.broker.bootstrap, timeout_s=WAIT_S) as client:
        found = (await client.share_offsets.describe([group])).whole()[group]
        starts = [found[Part(side.topic, partition)].start for partition in range(PARTITIONS)]
        return [-1 if each is None else each for each in starts]


def rest(side: Side, partition: int, offset: int) -> list[bytes | None]:
    """The values of a partition from an offset on."""
    return [value for number, at, value in side.read() if number == partition and at >= offset]


def commit(side: Side, group: str, offsets: list[int]) -> None:
    """Commit for a group without members."""
    consumer = Consumer({"bootstrap.servers": side.broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        wanted = [TopicPartition(side.topic, partition, offset) for partition, offset in enumerate(offsets)]
        consumer.commit(offsets=wanted, asynchronous=False)
    finally:
        consumer.close()


def committed(side: Side, group: str) -> list[int]:
    """The committed offsets of a group, -1001 without one."""
    keys = [TopicPartition(side.topic, partition) for partition in range(PARTITIONS)]
    (future,) = side.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, keys)]).values()
    return [each.offset for each in future.result(WAIT_S).topic_partitions]
