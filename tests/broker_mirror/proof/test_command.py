"""`broker-mirror verify` and `drill` between two brokers: verdicts, exit codes and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record
from broker_mirror.formats.checkpoints import Checkpoint
from broker_mirror.formats.offset_syncs import OffsetSync
from broker_mirror.formats.source_offsets import SourcePartition, encode_offset
from broker_mirror.proof import command
from tests.support.broker import BrokerProcess

BASE_MS = 1_700_000_000_000
GROUP = "readers"


class Pair:
    """Two brokers, and the file of a flow from A to B."""

    def __init__(self, a: str, b: str, folder: Path) -> None:
        self.a, self.b = a, b
        self.file = folder / "mm2.properties"

    def configure(self, **more: str) -> Path:
        lines = {
            "clusters": "A,B",
            "A.bootstrap.servers": self.a,
            "B.bootstrap.servers": self.b,
            "A->B.enabled": "true",
            "emit.heartbeats.enabled": "false",
            **{name.replace("__", "."): text for name, text in more.items()},
        }
        self.file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        return self.file

    def run(self, *args: str) -> tuple[int, Any, str]:
        """Run a command with --json; return its exit code, its document and its errors."""
        group = click.Group("broker-mirror")
        command.add(group)
        result = CliRunner().invoke(group, [*args, "--json", "--timeout", "20", "--rate", "0"])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        document = json.loads(result.stdout) if result.stdout.startswith("{") else None
        return result.exit_code, document, result.stderr

    def at(self, bootstrap: str, job: Callable[[AdminClient], Awaitable[None]]) -> None:
        async def done() -> None:
            async with AdminClient(bootstrap, timeout_s=60.0) as client:
                await job(client)

        asyncio.run(done())


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    made = [BrokerProcess(tmp_path_factory.mktemp(name), {}) for name in ("source", "target")]
    try:
        yield made[0].start(), made[1].start()
    finally:
        for each in made:
            each.close()


@pytest.fixture
def pair(brokers: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> Pair:
    return Pair(brokers[0].bootstrap, brokers[1].bootstrap, tmp_path)


def records(first: int, end: int) -> list[Record]:
    return [Record(0, BASE_MS + each, f"key-{each}".encode(), b"v" * 50, [("h", b"1")]) for each in range(first, end)]


async def produce(client: AdminClient, topic: str, wanted: list[Record], codec: Codec = Codec.NONE) -> None:
    for at in range(0, len(wanted), 40):
        await client.records.producer(codec=codec).send(topic, wanted[at : at + 40], partition=0)


async def create(client: AdminClient, topic: str, **configs: str) -> None:
    wanted = {name.replace("_", "."): text for name, text in configs.items()}
    (await client.topics.create([NewTopic(topic, 1, 1, configs=wanted)])).whole()


def fill(pair: Pair, topic: str, mine: list[Record], copies: list[Record], codec: Codec = Codec.NONE) -> None:
    """Create the topic in A with `mine`, and its copy in B with `copies`."""

    async def in_a(client: AdminClient) -> None:
        await create(client, topic)
        await produce(client, topic, mine)

    async def in_b(client: AdminClient) -> None:
        await create(client, f"A.{topic}")
        await produce(client, f"A.{topic}", copies, codec)

    pair.at(pair.a, in_a)
    pair.at(pair.b, in_b)


def reach(pair: Pair, topic: str, offset: int) -> None:
    """Write the offset that the flow has reached, as Kafka Connect does."""

    async def in_b(client: AdminClient) -> None:
        if "mm2-offsets.A.internal" not in await client.topics.names():
            await create(client, "mm2-offsets.A.internal", cleanup_policy="compact")
        key = SourcePartition("A", topic, 0).key()
        await produce(client, "mm2-offsets.A.internal", [Record(0, BASE_MS, key, encode_offset(offset - 1), [])])

    pair.at(pair.b, in_b)


def test_equal_sides_are_equal_as_bytes_and_by_checksums(pair: Pair) -> None:
    """The promise of the command; it fails if batches in another compression count as different."""
    mine = records(0, 200)
    fill(pair, "equal", mine, mine, Codec.ZSTD)
    file = str(pair.configure(topics="equal"))
    code, document, _ = pair.run("verify", file)
    assert code == 0, document
    (part,) = document["flows"][0]["partitions"]
    assert (part["verdict"], part["records"], part["differences"]) == ("equal", 200, [])
    code, document, _ = pair.run("verify", file, "--checksums", "--range", "50")
    found = document["flows"][0]["partitions"][0]["ranges"]
    assert code == 0
    assert [(each["source_records"], each["source"] == each["target"]) for each in found] == [(50, True)] * 4
    assert len({each["source"] for each in found}) == 4


def test_lost_and_repeated_records_are_named(pair: Pair) -> None:
    """The reason for the command: a mirror that lost a record or sent one twice."""
    mine = records(0, 200)
    fill(pair, "lost", mine, mine[:50] + mine[51:120] + mine[119:199])
    reach(pair, "lost", 200)
    code, document, _ = pair.run("verify", str(pair.configure(topics="lost")))
    assert code == 1
    found = document["flows"][0]["partitions"][0]["differences"]
    assert [(each["reason"], each["source_offset"], each["target_offset"]) for each in found] == [
        ("missing", 50, None), ("twice", None, 119), ("missing", 199, None)
    ]  # fmt: skip


def test_a_topic_without_a_copy_is_different(pair: Pair) -> None:
    """A topic that the mirror never created must not count as equal."""

    async def in_a(client: AdminClient) -> None:
        await create(client, "alone")

    pair.at(pair.a, in_a)
    code, document, _ = pair.run("verify", str(pair.configure(topics="alone")))
    assert code == 1
    assert document["flows"][0]["partitions"][0]["problem"] == "A.alone in the target does not exist"


def test_a_drill_counts_what_is_read_again(pair: Pair) -> None:
    """A failover that reads records again or misses some must be known before it happens."""
    mine = records(0, 200)
    fill(pair, "drilled", mine, mine)

    async def in_a(client: AdminClient) -> None:
        (await client.group_offsets.alter(GROUP, {TopicPartition("drilled", 0): 150})).whole()
        await create(client, "mm2-offset-syncs.B.internal")
        sync = OffsetSync("drilled", 0, 149, 149, 100)
        await produce(client, "mm2-offset-syncs.B.internal", [Record(0, 1, sync.key(), sync.value(), sync.headers())])

    pair.at(pair.a, in_a)
    file = str(pair.configure(topics="drilled"))
    code, document, _ = pair.run("drill", file, "--group", GROUP)
    (row,) = document["flows"][0]["partitions"]
    assert code == 0
    assert (row["origin"], row["continues_at"], row["again"], row["missed"], row["lag"]) == (
        "offset sync", 150, 0, 0, 50
    )  # fmt: skip

    async def in_b(client: AdminClient) -> None:
        await create(client, "A.checkpoints.internal")
        for offset in (180, 90):
            each = Checkpoint(GROUP, "A.drilled", 0, offset, offset, "")
            await produce(client, "A.checkpoints.internal", [Record(0, 1, each.key(), each.value(), [])])

    pair.at(pair.b, in_b)
    code, document, _ = pair.run("drill", file, "--group", GROUP, "--commit-as", "rehearsal")
    (row,) = document["flows"][0]["partitions"]
    assert code == 0
    assert (row["origin"], row["continues_at"], row["again"], row["again_ms"]) == ("checkpoint", 90, 60, 59)

    async def committed(client: AdminClient) -> None:
        found = (await client.positions.fetch(["rehearsal", GROUP])).whole()
        assert found["rehearsal"][TopicPartition("A.drilled", 0)].offset == 90
        assert found[GROUP] == {}
        # A group that has gone too far in the target misses records.
        (await client.group_offsets.alter(GROUP, {TopicPartition("A.drilled", 0): 170})).whole()

    pair.at(pair.b, committed)
    code, document, _ = pair.run("drill", file, "--group", GROUP)
    (row,) = document["flows"][0]["partitions"]
    assert code == 1
    assert (row["origin"], row["again"], row["missed"]) == ("offset of the group in the target", 0, 20)


def test_a_partition_without_records_is_no_problem(pair: Pair) -> None:
    """A topic with few keys has such partitions. If this fails, the drill of each of its groups looks dangerous."""
    fill(pair, "hollow", [], [])

    async def in_a(client: AdminClient) -> None:
        (await client.group_offsets.alter("hollow", {TopicPartition("hollow", 0): 0})).whole()

    pair.at(pair.a, in_a)
    code, document, _ = pair.run("drill", str(pair.configure(topics="hollow")), "--group", "hollow")
    (row,) = document["flows"][0]["partitions"]
    assert (code, row["continues_at"], row["again"], row["missed"], row["problem"]) == (0, 0, 0, 0, "")


def test_a_share_group_rehearses_as_a_share_group(pair: Pair) -> None:
    """If this fails, a share group cannot be rehearsed: its offsets become those of a group of consumers."""
    mine = records(0, 60)
    fill(pair, "shared", mine, mine)
    here, there = TopicPartition("shared", 0), TopicPartition("A.shared", 0)

    async def in_a(client: AdminClient) -> None:
        (await client.share_offsets.alter("sharers", {here: 40})).whole()
        if "mm2-offset-syncs.B.internal" not in await client.topics.names():
            await create(client, "mm2-offset-syncs.B.internal")
        sync = OffsetSync("shared", 0, 29, 29, 30)
        await produce(client, "mm2-offset-syncs.B.internal", [Record(0, 1, sync.key(), sync.value(), sync.headers())])

    pair.at(pair.a, in_a)
    file = str(pair.configure(topics="shared"))
    code, document, _ = pair.run("drill", file, "--group", "sharers", "--commit-as", "sharers-rehearsal")
    (row,) = document["flows"][0]["partitions"]
    assert (code, row["continues_at"], row["again"], row["missed"]) == (0, 30, 10, 0)

    async def check(client: AdminClient) -> None:
        found = (await client.share_offsets.describe(["sharers-rehearsal"])).whole()
        assert found["sharers-rehearsal"][there].start == 30

    pair.at(pair.b, check)


def test_a_link_flow_has_equal_offsets(pair: Pair) -> None:
    """A group that fails over in a link flow reads nothing again."""
    mine = records(0, 100)
    fill(pair, "linked", mine, mine)

    async def in_a(client: AdminClient) -> None:
        (await client.group_offsets.alter("linked-readers", {TopicPartition("linked", 0): 70})).whole()

    pair.at(pair.a, in_a)
    file = str(pair.configure(topics="linked", brokercy__flow="link"))
    code, document, _ = pair.run("verify", file)
    assert code == 0, document
    code, document, _ = pair.run("drill", file, "--group", "linked-readers")
    (row,) = document["flows"][0]["partitions"]
    assert code == 0
    assert (row["origin"], row["continues_at"], row["again"], row["missed"]) == ("equal offsets", 70, 0, 0)


def test_a_compacted_topic_is_compared_by_keys(pair: Pair) -> None:
    """Each cluster compacts at its own time, so the logs differ and the tables do not."""
    mine = [Record(0, BASE_MS + each, b"k%d" % (each % 5), b"%d" % each, []) for each in range(20)]

    async def in_a(client: AdminClient) -> None:
        await create(client, "table", cleanup_policy="compact")
        await produce(client, "table", mine)

    async def in_b(client: AdminClient) -> None:
        await create(client, "A.table", cleanup_policy="compact")
        await produce(client, "A.table", mine[7:])

    pair.at(pair.a, in_a)
    pair.at(pair.b, in_b)
    code, document, _ = pair.run("verify", str(pair.configure(topics="table")))
    (part,) = document["flows"][0]["partitions"]
    assert code == 0, document
    assert (part["by_key"], part["records"]) == (True, 5)


def test_a_file_with_both_directions_needs_no_flow(pair: Pair) -> None:
    """Most files copy in both directions. If this fails, a topic or a group of one cluster cannot be examined with
    them, because the other cluster does not have it.
    """
    mine = records(0, 20)
    fill(pair, "oneway", mine, mine)

    async def in_a(client: AdminClient) -> None:
        (await client.group_offsets.alter("oneway", {TopicPartition("oneway", 0): 0})).whole()

    pair.at(pair.a, in_a)
    file = str(pair.configure(**{"B->A.enabled": "true"}))
    code, document, _ = pair.run("verify", file, "--topic", "oneway")
    assert (code, [each["flow"] for each in document["flows"]]) == (0, ["A->B"])
    _, document, _ = pair.run("drill", file, "--group", "oneway")
    assert [each["flow"] for each in document["flows"]] == ["A->B"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["verify", "FILE", "--flow", "B->A"], "--flow B->A: the flows that copy are A->B"),
        (["verify", "FILE", "--topic", "nowhere"], "topic nowhere: A has no such topic"),
        (["drill", "FILE", "--group", "nobody"], "group nobody: A has no offsets of this group"),
        (["drill", "FILE", "--group", "g", "--commit-as", "g"], "--commit-as needs another name"),
        (["verify", "FILE.absent"], "FILE.absent"),
    ],
)
def test_wrong_usage_has_its_own_exit_code(pair: Pair, args: list[str], text: str) -> None:
    """A typing error must not look like equal or different sides."""
    file = str(pair.configure())
    code, document, errors = pair.run(*(each.replace("FILE", file) for each in args))
    assert (code, document) == (2, None)
    assert text.replace("FILE", file) in ": ".join(filter(None, json.loads(errors)["error"].values()))


def test_a_cluster_that_cannot_be_reached_is_named(pair: Pair) -> None:
    """Sides that cannot be compared are neither equal nor different."""
    file = str(pair.configure(**{"B.bootstrap.servers": "127.0.0.1:1"}))
    code, document, errors = pair.run("verify", file)
    assert (code, document) == (3, None)
    assert "127.0.0.1:1" in errors


@pytest.mark.parametrize("args", [("verify",), ("drill", "--group", GROUP)], ids=lambda args: args[0])
def test_a_flow_with_transforms_is_refused(tmp_path: Path, args: tuple[str, ...]) -> None:
    """If this fails, each record that a flow leaves out or changes is reported as a difference."""
    settings = {
        "A->B.transforms": "x",
        "A->B.transforms.x.type": "org.apache.kafka.connect.transforms.DropHeaders",
        "A->B.transforms.x.headers": "h",
    }
    pair = Pair("127.0.0.1:1", "127.0.0.1:1", tmp_path)
    code, _, errors = pair.run(args[0], str(pair.configure(**settings)), *args[1:])
    assert code == 2
    assert "A->B has transforms, so its copies differ from the records of the source: name another --flow" in errors
