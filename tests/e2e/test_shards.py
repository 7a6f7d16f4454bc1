"""Several brokers on one host under a parent, as real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.launch.nodes import CLUSTER_ID, broker_command, free_ports
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.support import kafka_tools, needs
from tests.support.broker import target_is_kafka
from tests.support.cluster import READY_S, ask, create_topic, in_sync, topics
from tests.support.confluent import read_all, send
from tests.support.kafka_peer import KafkaPeer
from tests.support.shards import ShardedNode
from tests.support.steady_client import SteadyClient
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="Kafka has no shards")
WAIT_S = 120.0
TOPIC = "steady"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ShardedNode]:
    found = ShardedNode(tmp_path / "node").start()
    try:
        yield found
    finally:
        found.close()


def make_topic(node: ShardedNode, name: str, partitions: int, replicas: int) -> None:
    """Create a topic, and wait until both shards know it and all replicas are in sync."""
    assert create_topic(node.port, name, partitions, replicas) is ErrorCode.NONE
    for shard in range(node.count):
        until(lambda shard=shard: in_sync(node.port + shard, name, replicas), "replicas", WAIT_S, 0.1, (ClientError,))  # type: ignore[misc]


def until_served_by_another(node: ShardedNode, shard: int, former: int) -> int:
    """Wait until another process than `former` serves a shard, and return it."""

    def other() -> int:
        pid = node.shard_pid(shard)
        return pid if pid != former and node.sample(f'broker_cy_shard_up{{shard="{shard}"}}') == 1 else 0

    return until(other, f"another process of shard {shard}", WAIT_S, 0.1)


def test_one_host(node: ShardedNode) -> None:
    """If this fails, shards are not brokers of one cluster, their metrics are not those of the node, or the stop is not
    clean: then the next start has to recover logs.
    """
    assert f"ready on 127.0.0.1:{node.port}, 127.0.0.1:{node.port + 1}" in node.stdout()
    # On one host, two replicas cannot be placed otherwise: they are not refused, as with racks in Kafka.
    make_topic(node, "pairs", 2, 2)
    make_topic(node, "singles", 2, 1)
    assert {part.leader_id for part in topics(node.port)["singles"].partitions} == {1, 1001}
    for partition in range(2):
        send(node, "singles", [b"%d" % number for number in range(10)], partition)
    appended = [node.sample(f'broker_cy_partition_appended_records_total{{topic="singles",partition="{each}"}}')
                for each in range(2)]  # fmt: skip
    assert appended == [10, 10]
    assert node.sample('broker_cy_active_controller{shard="0"}') == 1
    assert node.sample("broker_cy_parent_resident_memory_bytes") > 0
    assert "broker_cy_topics" not in node.page("/metrics?topic=singles")
    in_flight = json.loads(node.page("/share-groups?group=none"))
    assert in_flight["partitions"] == []
    assert in_flight["archived"]["reject"] == 0, "no shard answered"
    assert node.page("/readyz") == "ok\n"
    assert node.stop() == 0
    stopped = re.findall(r'event="stopping a shard" shard=(\d)', node.stderr())
    assert stopped == ["1", "0"], "the shard with the controller is the last one"
    for shard in range(2):
        assert (node.data_dir / f"shard-{shard}" / ".kafka_cleanshutdown").exists()
    node.restart()
    for partition in range(2):
        found = until(lambda partition=partition: read_all(node.bootstrap, "singles", partition), "records", WAIT_S)  # type: ignore[misc]
        assert found == [b"%d" % number for number in range(10)]


@pytest.mark.full
def test_killed_under_load(node: ShardedNode, tmp_path: Path) -> None:
    """If this fails, the death of a shard's process loses acknowledged records, or the shard does not come back."""
    make_topic(node, TOPIC, 2, 2)
    servers = f"{node.bootstrap},127.0.0.1:{node.port + 1}"
    client = SteadyClient("librdkafka", servers, TOPIC, 2, tmp_path)
    try:
        client.go_on(WAIT_S)
        for shard in (1, 0, 1):
            until(lambda: in_sync(node.port, TOPIC, 2), "both replicas", WAIT_S, 0.1, (ClientError,))
            client.longest_gap_s = 0.0
            former = node.kill_shard(shard)
            until_served_by_another(node, shard, former)
            client.go_on(WAIT_S)
            print(f"shard {shard} was killed; longest time without an acknowledgement {client.longest_gap_s:.2f} s")
        until(lambda: in_sync(node.port, TOPIC, 2), "both replicas", WAIT_S, 0.1, (ClientError,))
        client.finish()
        parts = sorted(topics(node.port)[TOPIC].partitions, key=lambda part: part.partition_index)
        client.check([node.port + part.leader_id // 1000 for part in parts])
    finally:
        client.close()
    log = node.stderr()
    ends = re.findall(r'event="a shard has ended; it is started again" shard=(\d).* reason="killed by SIGKILL"', log)
    assert ends == ["1", "0", "1"]
    # The parent reported each end to the other shard.
    assert len(re.findall('event="the process of a broker on this host has ended"', log)) == 3
    assert node.sample('broker_cy_shard_starts_total{shard="1"}') == 3


@pytest.mark.full
def test_frozen(node: ShardedNode, tmp_path: Path) -> None:
    """If this fails, clients of a frozen process wait for their own timeouts (librdkafka for a minute)."""
    make_topic(node, TOPIC, 2, 2)
    servers = f"{node.bootstrap},127.0.0.1:{node.port + 1}"
    client = SteadyClient("librdkafka", servers, TOPIC, 2, tmp_path)
    try:
        client.go_on(WAIT_S)
        client.longest_gap_s = 0.0
        former = node.shard_pid(1)
        os.kill(former, signal.SIGSTOP)
        until_served_by_another(node, 1, former)
        client.go_on(WAIT_S)
        print(f"shard 1 stood still; longest time without an acknowledgement {client.longest_gap_s:.2f} s")
        client.finish()
    finally:
        client.close()
    assert re.search(r'event="killing a shard" shard=1 .* reason="a signal has stopped it"', node.stderr())
    assert node.sample('broker_cy_shard_kills_total{shard="1"}') == 1


@pytest.mark.full
def test_another_parent_adopts(node: ShardedNode) -> None:
    """If this fails, a killed parent also ends its shards, or they are started twice."""
    make_topic(node, "kept", 2, 1)
    former = [node.shard_pid(shard) for shard in range(2)]
    second = subprocess.run(node.command(), capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert f"is in use by another parent of shards (process {node.pid}): stop it" in second.stderr
    node.kill()
    send(node, "kept", [b"without a parent"])
    node.restart()
    assert [node.shard_pid(shard) for shard in range(2)] == former
    assert node.stderr().count('event="adopting a shard that runs"') == 2
    # The shard is supervised as before.
    os.kill(former[1], signal.SIGSTOP)
    until_served_by_another(node, 1, former[1])
    assert read_all(node.bootstrap, "kept") == [b"without a parent"]
    # A frozen shard is also adopted, and replaced; the other one gets the settings of the new parent.
    stopped = node.shard_pid(1)
    node.kill()
    os.kill(stopped, signal.SIGSTOP)
    node.settings["log.retention.hours"] = "5"
    node.write()
    node.restart()
    assert until_served_by_another(node, 1, stopped)
    until_served_by_another(node, 0, former[0])
    assert 'reason="it runs with other settings"' in node.stderr()
    assert node.stop() == 0


@pytest.mark.full
def test_a_host_of_a_cluster(tmp_path: Path) -> None:
    """If this fails, two replicas of a partition share a host although a second host exists, or lanes are mixed up."""
    controllers = free_ports(2)
    voters = ",".join(f"{number}@127.0.0.{number}:{port}" for number, port in enumerate(controllers, 1))
    nodes = []
    for number in (1, 2):
        settings = {"node.id": str(number), "controller.quorum.voters": voters, "default.replication.factor": "2"}
        nodes.append(ShardedNode(tmp_path / f"host-{number}", 2, settings, host=f"127.0.0.{number}"))
    try:
        for node, port in zip(nodes, controllers, strict=True):
            node.choose_ports()
            node.controller_port = port
            node.write()
            format_node(node)
            node.launch()
        for node in nodes:
            until(lambda node=node: node.ready(node.child), f"{node.host} is ready", READY_S)  # type: ignore[misc]
        first = nodes[0]
        assert create_topic(first.port, "spread", 8, 2) is ErrorCode.NONE
        until(lambda: in_sync(first.port, "spread", 2), "replicas", WAIT_S, 0.1, (ClientError,))
        placed = [part.replica_nodes for part in topics(first.port)["spread"].partitions]
        assert {tuple(sorted(replicas)) for replicas in placed} == {(1, 2), (1001, 1002)}
        assert sorted(replicas[0] for replicas in placed) == [1, 1, 2, 2, 1001, 1001, 1002, 1002]
        # The controller of this shard may be on the other host.
        former = first.kill_shard(1)
        until_served_by_another(first, 1, former)
        until(lambda: in_sync(first.port, "spread", 2), "replicas", WAIT_S, 0.1, (ClientError,))
        for node in reversed(nodes):
            assert node.stop() == 0
    finally:
        for node in nodes:
            node.close()


def test_a_broker_becomes_shard_0(tmp_path: Path) -> None:
    """If this fails, a node that needs one core pays for a parent, or one that needs more has to copy its data."""
    node = ShardedNode(tmp_path / "node")
    node.choose_ports()
    node.count = 1
    try:
        node.start()
        assert not (node.data_dir / ".shards").exists()
        assert (node.data_dir / "meta.properties").exists()
        assert "broker_cy_shard_up" not in node.page()
        make_topic(node, "kept", 1, 1)
        send(node, "kept", [b"of the single broker"])
        assert node.stop() == 0
        moved = node.data_dir.rename(tmp_path / "moved")
        node.data_dir.mkdir()
        moved.rename(node.data_dir / "shard-0")
        node.count = 2
        node.restart()
        kept = until(lambda: read_all(node.bootstrap, "kept"), "the records", WAIT_S)
        assert kept == [b"of the single broker"]
        make_topic(node, "new", 2, 2)
        assert node.stop() == 0
    finally:
        node.close()


def format_node(node: ShardedNode) -> None:
    """Format the directories of all shards with one command."""
    arguments = ["storage", "format", "-c", str(node.directory / "server.properties"), "-t", CLUSTER_ID]
    subprocess.run([*broker_command(), *arguments, "--shards", str(node.count)], check=True, timeout=60)


def test_what_is_in_the_way(tmp_path: Path) -> None:
    """If this fails, a node starts with wrong directories or ports, or the message does not give the remedy."""

    def refused(*options: object, code: int = 1) -> str:
        done = subprocess.run(
            [*broker_command(), "start", *map(str, options)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    single = tmp_path / "single"
    (single / "shard-7").mkdir(parents=True)
    (single / "shard-7" / "meta.properties").write_text("")
    (port,) = free_ports(1)
    common = ("--listener", f"127.0.0.1:{port}", "--data-dir")
    assert "has the data of shard 7, which would not run with --shards 2: use --shards 8" in refused(
        *common, single, "--shards", 2
    )
    (single / "meta.properties").write_text("")
    message = refused(*common, single, "--shards", 2)
    assert f"is that of a broker without shards: stop the broker, and move its content to {single}/shard-0" in message
    sharded = tmp_path / "sharded"
    (sharded / "shard-0").mkdir(parents=True)
    (sharded / "shard-0" / "meta.properties").write_text("")
    assert "contains those of shards (shard-0): start it with --shards" in refused(*common, sharded)
    assert "port 0" in refused("--listener", "127.0.0.1:0", "--data-dir", tmp_path / "x", "--shards", 2, code=2)
    assert "--shards 0: expected a number from 1 to 256" in refused(*common, tmp_path / "x", "--shards", 0, code=2)


def test_a_shard_that_cannot_start(tmp_path: Path) -> None:
    """If this fails, a node whose second port is in use runs with half of its shards, or retries forever."""
    node = ShardedNode(tmp_path / "node")
    node.choose_ports()
    blocker = ShardedNode(tmp_path / "blocker", 1, {"node.id": "5"})
    blocker.choose_ports()
    blocker.port = node.port + 1
    blocker.write()
    try:
        blocker.start()
        child = node.launch()
        assert child.wait(READY_S) == 1
        assert f"127.0.0.1:{node.port + 1} is in use" in node.stderr()
        assert not any(node.shard_pid(shard) for shard in range(2))
    finally:
        node.close()
        blocker.close()


@pytest.mark.full
@needs.kafka
def test_under_a_controller_of_kafka(tmp_path: Path) -> None:
    """If this fails, clients are sent to a dead shard until its session expires (here ten minutes). Only the other
    shard's report can end the session earlier, because Kafka watches no processes.
    """
    kafka = KafkaPeer(tmp_path / "kafka", {"node.id": "900", "broker.session.timeout.ms": "600000"})
    kafka.choose_ports()
    kafka.settings["controller.quorum.voters"] = f"900@127.0.0.1:{kafka.controller_port}"
    node = ShardedNode(
        tmp_path / "node",
        settings={
            "process.roles": "broker",
            "controller.quorum.voters": kafka.settings["controller.quorum.voters"],
            "broker.heartbeat.interval.ms": "2000",
        },
    )
    try:
        kafka._write_properties()
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(kafka._properties))
        kafka_tools.run_tool("kafka.tools.StorageTool", *arguments)
        kafka.start()
        node.choose_ports()
        format_node(node)
        node.start()

        def in_service() -> set[int]:
            found = ask(kafka.port, messages.MetadataRequest(topics=[]), messages.MetadataResponse)
            return {each.node_id for each in found.brokers}

        until(lambda: in_service() == {900, 1, 1001}, "all brokers", READY_S, 0.1, (ClientError,))
        node.kill_shard(1)
        until(lambda: in_service() == {900, 1}, "the shard is fenced", READY_S, 0.1, (ClientError,))
        assert node.stop() == 0
    finally:
        node.close()
        kafka.close()


@pytest.mark.full
def test_each_shard_uses_all_disks(tmp_path: Path) -> None:
    """If this fails, shards use only the first disk of a host; or the host does not start when another disk is
    missing, or makes its directories on the disk below the mount point.
    """
    paths = tmp_path / "node/data", tmp_path / "node/more"
    node = ShardedNode(tmp_path / "node", settings={"log.dirs": ",".join(map(str, paths))})
    try:
        node.start()
        make_topic(node, "singles", 8, 1)
        places = {
            each.name: (shard, number)
            for number, path in enumerate(paths)
            for shard in range(node.count)
            for each in path.glob(f"shard-{shard}/singles-*")
        }
        assert set(places.values()) == {(shard, number) for shard in (0, 1) for number in (0, 1)}
        send(node, "singles", [b"a"], next(int(name[8:]) for name, place in places.items() if place[1] == 0))
        assert node.stop() == 0
        paths[1].rename(tmp_path / "away")
        node.restart()
        kept = sorted(int(name[8:]) for name, place in places.items() if place[1] == 0)
        until(lambda: led(node, "singles") == kept, "the partitions of the other disk", WAIT_S, 0.1)
        assert not paths[1].exists()
        assert node.stop() == 0
        (tmp_path / "away").rename(paths[1])
        node.restart()
        until(lambda: led(node, "singles") == list(range(8)), "all partitions", WAIT_S, 0.1)
        assert node.stop() == 0
    finally:
        node.close()


def led(node: ShardedNode, topic: str) -> list[int]:
    """The partitions with a leader."""
    return sorted(part.partition_index for part in topics(node.port)[topic].partitions if part.leader_id >= 0)
