"""Nodes that must not join a cluster: each is refused with the reason and the remedy, and the other nodes continue."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.launch.nodes import CLUSTER_ID, BrokerCy, broker_command, free_ports
from broker_cy.client.program import EXIT_FAILED, EXIT_USAGE
from broker_cy.controller.activation import default_bootstrap
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import framing, snapshot
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import KRaftState
from broker_cy.wire import messages
from broker_cy.wire.codec import Message
from tests.support.cluster import ClusterNode, cluster, create_topic, topics
from tests.support.forking import run
from tests.support.wait import until

OTHER_CLUSTER_ID = "AAAAAAAAQ0eGGvvK5wD1kg"
CONTROLLER, BROKER = 1, 2
# A broker that is refused because another broker uses its id gives up after this time.
PATIENCE_MS = "6000"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterNode]]:
    """A controller and a broker, with one topic."""
    with cluster(tmp_path_factory.mktemp("nodes"), ("controller", "broker")) as found:
        assert create_topic(found[1].port, "t", 2) is ErrorCode.NONE
        yield found
        assert [node.stop() for node in reversed(found)] == [0, 0]


@pytest.fixture(autouse=True)
def undisturbed(nodes: list[ClusterNode]) -> Iterator[None]:
    """Check that the broker stays in service and keeps its data."""
    life = nodes[1].child.pid
    yield
    assert nodes[1].child.pid == life
    assert [node.child.returncode for node in nodes] == [None, None]
    assert nodes[1].brokers() == 1
    (topic,) = [topic for name, topic in topics(nodes[1].port).items() if name == "t"]
    assert [part.leader_id for part in topic.partitions] == [BROKER] * 2


def another(
    nodes: list[ClusterNode], directory: Path, node_id: int, roles: str, settings: Mapping[str, str] | None = None
) -> ClusterNode:
    """An unformatted node that will join the cluster."""
    patience = {"initial.broker.registration.timeout.ms": PATIENCE_MS}
    node = ClusterNode(directory, node_id, roles, {**patience, **(settings or {})})
    node.choose_ports()
    node.write_properties(f"{CONTROLLER}@127.0.0.1:{nodes[0].controller_port}")
    return node


def find_controllers(node: ClusterNode, line: str) -> None:
    """Make this line the only one in a node's file that locates the controllers."""
    lines = [each for each in node.properties.read_text().splitlines() if not each.startswith("controller.quorum.v")]
    node.properties.write_text("\n".join([*lines, line, ""]))


def refusal(node: ClusterNode, code: int = EXIT_FAILED) -> str:
    """Return the error output of a node that cannot start, and ends with this exit code."""
    done = run([*broker_command(), "start", "--config", node.properties], node.directory, timeout_s=90)
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr
    return done.stderr.decode().strip().splitlines()[-1]


def test_voters_with_one_id(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a typing error in controller.quorum.voters makes a quorum that counts a node twice."""
    node = another(nodes, tmp_path, 3, "broker")
    node.write_properties("1@127.0.0.1:1000,1@127.0.0.1:1001")
    assert "names node 1 twice: each voter has its own node.id" in refusal(node, EXIT_USAGE)


def test_a_second_broker_with_the_id_of_one_that_lives(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a node with a copied server.properties takes over the partitions of the original broker."""
    node = another(nodes, tmp_path, BROKER, "broker")
    node.format()
    said = refusal(node)
    assert "DUPLICATE_BROKER_REGISTRATION: another broker with node.id 2 is running" in said
    assert "give one of the two another node.id" in said


@pytest.mark.parametrize("roles", ["controller", pytest.param("broker,controller", marks=pytest.mark.full)])
def test_a_second_voter_with_the_id_of_one_that_lives(nodes: list[ClusterNode], tmp_path: Path, roles: str) -> None:
    """If this fails, a copied server.properties makes a quorum count two processes as one voter."""
    node = another(nodes, tmp_path, CONTROLLER, roles)
    node.format()
    said = refusal(node)
    assert f"another controller answers at 127.0.0.1:{nodes[0].controller_port}, the address of node 1 in" in said
    assert "give this node a node.id and directories of its own" in said


def test_a_directory_that_another_process_uses(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, two processes write to the same logs."""
    node = another(nodes, tmp_path, BROKER, "broker", {"log.dirs": str(nodes[1].data_dir)})
    assert f"is in use by another broker (process {nodes[1].child.pid}): stop it, or choose another" in refusal(node)


@pytest.mark.parametrize("roles", ["broker", pytest.param("broker,controller", marks=pytest.mark.full)])
def test_a_node_of_another_cluster(nodes: list[ClusterNode], tmp_path: Path, roles: str) -> None:
    """If this fails, records of two clusters are mixed, or a wrong address is found only after a minute."""
    node = another(nodes, tmp_path, 3, roles)
    if "controller" in roles:
        voters = f"{CONTROLLER}@127.0.0.1:{nodes[0].controller_port},3@127.0.0.1:{node.controller_port}"
        node.write_properties(voters)
    node.format(cluster_id=OTHER_CLUSTER_ID)
    said = refusal(node)
    assert f"127.0.0.1:{nodes[0].controller_port} belongs to another cluster than this node" in said
    assert OTHER_CLUSTER_ID in said
    assert "correct the address" in said


def test_a_wiped_disk(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a node whose disk was replaced starts a separate cluster, or joins without its records."""
    node = another(nodes, tmp_path, 3, "broker")
    said = refusal(node)
    assert "is not formatted, and this node is one of several: format it with broker-cy storage format" in said
    # A directory copied from another node belongs to that node.
    node.format()
    copied = another(nodes, tmp_path / "copied", 4, "broker")
    shutil.copytree(node.data_dir, copied.data_dir)
    assert "belongs to node.id 3, this broker is 4" in refusal(copied)


def test_voters_that_disagree(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a node considers itself a voter although no other node does."""
    node = another(nodes, tmp_path, 3, "broker,controller")
    mine = f"3@127.0.0.1:{node.controller_port}"
    node.write_properties(f"{CONTROLLER}@127.0.0.1:{nodes[0].controller_port},{mine}")
    node.format()
    said = refusal(node)
    assert "does not have 3@" in said
    assert "among its voters: controller.quorum.voters must be the same on all nodes" in said
    # The voters with which a node has voted override those in its file.
    node.write_properties(mine)
    said = refusal(node)
    assert "the metadata quorum has the voters [1, 3], but controller.quorum.voters names the nodes [3]" in said


def refusal_of_a_cluster_with(nodes: list[ClusterNode], directory: Path, *records: Message) -> str:
    """Return the error output of a broker that stops because its cluster's first metadata contain these records."""
    controller = another(nodes, directory / "controller", 1, "controller")
    controller.write_properties(f"1@127.0.0.1:{controller.controller_port}")
    controller.format()
    first = [*default_bootstrap(), *map(VersionedRecord, records)]
    (controller.data_dir / snapshot.BOOTSTRAP_NAME).write_bytes(
        b"".join(snapshot.write(iter(first), KRaftState(), 0, 0, 0))
    )
    controller.launch()
    try:
        node = another(nodes, directory / "broker", 2, "broker", {"initial.broker.registration.timeout.ms": "60000"})
        node.write_properties(f"1@127.0.0.1:{controller.controller_port}")
        node.format()
        said = refusal(node)
        assert registered(controller) == 0, "the cluster keeps a broker that it has refused"
        return said
    finally:
        controller.close()


def registered(controller: ClusterNode) -> int:
    """Return the number of broker registrations in a controller's metadata log."""
    (log,) = (controller.data_dir / "__cluster_metadata-0").glob("*.log")
    batches = [batch for batch in framing.batches(log.read_bytes()) if not batch.is_control]
    kinds = [type(each.message) for batch in batches for _, each in framing.records_in(batch)]
    assert kinds
    return kinds.count(messages.RegisterBrokerRecord)


@pytest.mark.full
def test_topics_in_remote_storage(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a broker joins a cluster with tiered topics, and consumers can no longer read the records in
    remote storage.
    """
    said = refusal_of_a_cluster_with(
        nodes,
        tmp_path,
        messages.TopicRecord(name="kept-remotely", topic_id=uuid.UUID(int=77)),
        messages.ConfigRecord(
            resource_type=2, resource_name="kept-remotely", name="remote.storage.enable", value="true"
        ),
    )
    assert "broker 2 cannot join the cluster: it has topics with records in remote storage (kept-remotely: " in said
    assert "remote.storage.enable=true" in said


def test_a_version_that_is_too_old(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a broker joins a cluster whose features it does not support, or is refused without a reason."""
    newer = messages.FeatureLevelRecord(name="streams.version", feature_level=2)
    said = refusal_of_a_cluster_with(nodes, tmp_path, newer)
    assert "UNSUPPORTED_VERSION" in said
    assert "streams.version is 2 in the cluster, and this version supports 0 to 1" in said
    assert "Use a version that supports the features of the cluster" in said


@pytest.mark.parametrize(
    "setting", ["controller.quorum.voters", pytest.param("controller.quorum.bootstrap.servers", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("where", ["nobody", pytest.param("clients", marks=pytest.mark.full)])
def test_an_address_where_no_controller_is(nodes: list[ClusterNode], tmp_path: Path, setting: str, where: str) -> None:
    """If this fails, a broker with a wrong port in its file waits, and its log does not show for what."""
    node = another(nodes, tmp_path, 3, "broker")
    port, reason = nodes[1].port, "this is a listener for clients: use the address of a listener that controller"
    if where == "nobody":
        port, reason = free_ports(1)[0], "connection refused: no process listens there"
    prefix = f"{CONTROLLER}@" if setting.endswith("voters") else ""
    find_controllers(node, f"{setting}={prefix}127.0.0.1:{port}")
    node.format()
    done = run([*broker_command(), "start", "--config", node.properties], node.directory, timeout_s=90)
    said = done.stderr.decode()
    (warning,) = [line for line in said.splitlines() if "could not reach a controller" in line]
    assert f"address=127.0.0.1:{port}" in warning
    assert reason in warning
    assert "correct controller.quorum.bootstrap.servers or controller.quorum.voters" in warning
    assert (done.returncode, done.stdout) == (1, b""), "it claims to be ready"
    last = said.strip().splitlines()[-1]
    assert f"No controller answers at 127.0.0.1:{port}: {reason}" in last
    assert "controller.quorum.bootstrap.servers or controller.quorum.voters" in last


def test_a_lone_node_that_is_to_be_a_broker_of_another_cluster(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a node that should join a cluster runs as a separate cluster, and reports that it is ready."""
    alone = BrokerCy(tmp_path / "alone", {"node.id": "3"})
    assert alone.start().stop() == 0
    node = another(nodes, tmp_path / "node", 3, "broker", {"log.dirs": str(alone.data_dir)})
    find_controllers(node, f"controller.quorum.bootstrap.servers=127.0.0.1:{nodes[0].controller_port}")
    said = refusal(node)
    assert "node 3 has been the only controller of its cluster" in said
    assert f"whose controllers are at 127.0.0.1:{nodes[0].controller_port}" in said


def test_a_listener_that_cannot_be_used(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a node runs with an address that other nodes cannot use."""
    node = another(nodes, tmp_path, 3, "broker", {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"})
    assert "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0" in refusal(node, EXIT_USAGE)
    taken = another(nodes, tmp_path / "taken", 3, "broker", {"listeners": f"PLAINTEXT://127.0.0.1:{nodes[1].port}"})
    taken.format()
    assert f"127.0.0.1:{nodes[1].port} is in use" in refusal(taken)


def test_an_address_that_nobody_reaches(nodes: list[ClusterNode], tmp_path: Path) -> None:
    """If this fails, a broker with a wrong port in advertised.listeners leads partitions that clients cannot reach."""
    (nowhere,) = free_ports(1)
    wrong = another(nodes, tmp_path, 3, "broker", {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{nowhere}"})
    wrong.format()
    said = refusal(wrong)
    assert f"listener PLAINTEXT is advertised at 127.0.0.1:{nowhere}, and this machine refuses connections" in said
    assert f"The broker listens at 127.0.0.1:{wrong.port}. Correct advertised.listeners" in said
    # No client was sent to it, as if it had stopped; with the correct port, it serves.
    assert nodes[1].brokers() == 1
    wrong.settings.pop("advertised.listeners")
    wrong.write_properties(f"{CONTROLLER}@127.0.0.1:{nodes[0].controller_port}")
    wrong.start()
    try:
        until(lambda: nodes[1].brokers() == 2, "both brokers", 60)
    finally:
        assert wrong.stop() == 0
    until(lambda: nodes[1].brokers() == 1, "the first broker alone", 60)


@pytest.mark.parametrize("host", ["no-such-host.invalid", pytest.param("192.0.2.1", marks=pytest.mark.full)])
def test_an_address_that_only_others_may_reach(nodes: list[ClusterNode], tmp_path: Path, host: str) -> None:
    """If this fails, a broker behind a NAT or in a container is refused, or its log does not mention a wrong name."""
    node = another(nodes, tmp_path, 3, "broker", {"advertised.listeners": f"PLAINTEXT://{host}:9092"})
    node.format()
    node.start()
    try:
        until(lambda: nodes[1].brokers() == 2, "both brokers", 60)
        said = node.child.stderr()
        assert "this node does not reach itself at the address that it advertises" in said
        assert f"{host}:9092" in said
        assert "correct advertised.listeners, unless" in said
    finally:
        assert node.stop() == 0
    until(lambda: nodes[1].brokers() == 1, "the first broker alone", 60)


def test_the_id_of_the_cluster_is_the_same_everywhere(nodes: list[ClusterNode]) -> None:
    """If this fails, the tests above refuse nodes for another reason."""
    for node in nodes:
        assert f"cluster.id={CLUSTER_ID}" in (node.data_dir / "meta.properties").read_text()
