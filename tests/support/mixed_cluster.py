"""Nodes of Apache Kafka 4.3.1 and of broker-cy in one cluster: each is broker and controller, and all are voters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.launch.cluster_nodes import voters_of
from bench.launch.nodes import CLUSTER_ID, free_ports
from broker_cy.client.errors import ClientError
from tests.support import kafka_tools
from tests.support.certificates import Authority
from tests.support.cluster import READY_S, ClusterNode, quorum
from tests.support.kafka_peer import KafkaPeer
from tests.support.sasl_broker import ADMIN_PASSWORD, listener_settings
from tests.support.wait import until

# Those fast settings of tests that also have to suit Kafka's brokers.
AS_KAFKA = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    # A broker-cy node becomes a candidate immediately when the active controller dies; Kafka's votes decide the
    # election (`depose`).
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.fetch.timeout.ms": "1000",
}

MixedNode = KafkaPeer | ClusterNode
# Kills of the active controller until a node of the wanted kind becomes it: a single one may be the last.
TURNS_MAX = 5


@contextmanager
def mixed_cluster(
    directory: Path,
    kinds: Sequence[str],
    settings: Mapping[str, str] | None = None,
    *,
    protocol: str = "PLAINTEXT",
    prepare: Callable[[Sequence[MixedNode]], None] = lambda nodes: None,
) -> Iterator[list[MixedNode]]:
    """Start one node for each of `kinds` ("kafka" or "ours"), with the ids from 1 on, and yield them when clients of
    each see all brokers. All nodes have the `settings`; `prepare` changes those of single ones before they are
    formatted. With a SASL `protocol`, they use it to log in to each other, and have authorizers.
    """
    nodes: list[MixedNode] = []
    common = settings or {}
    for number, kind in enumerate(kinds, 1):
        place = directory / f"node-{number}"
        if kind == "kafka":
            nodes.append(KafkaPeer(place, common))
        else:
            nodes.append(ClusterNode(place, number, "broker,controller", {**AS_KAFKA, **common}))
    for node in nodes:
        node.choose_ports()
    logs_in = protocol.startswith("SASL_")
    authority = Authority()
    if logs_in:
        for node in nodes:
            node.settings |= _with_logins(node, protocol)
            if protocol == "SASL_SSL":
                node.settings |= _stores(node, authority)
    prepare(nodes)
    voters = voters_of(nodes)
    added = ("--add-scram", f"SCRAM-SHA-512=[name=admin,password={ADMIN_PASSWORD}]") if logs_in else ()
    with ThreadPoolExecutor(len(nodes)) as pool:
        try:
            for number, node in enumerate(nodes, 1):
                if isinstance(node, KafkaPeer):
                    node.settings |= {"node.id": str(number), "controller.quorum.voters": voters}
                    node._write_properties()
                    arguments = ("format", "-t", CLUSTER_ID, "-c", str(node._properties), *added)
                    kafka_tools.run_tool("kafka.tools.StorageTool", *arguments)
                else:
                    node.write_properties(voters)
                    node.format(*added)
            # A Kafka node is ready only when a majority of controllers have found each other.
            list(pool.map(lambda node: node.start(), nodes))
            until(lambda: all(_brokers(node) == len(nodes) for node in nodes), "all brokers", READY_S)
            yield nodes
        finally:
            for node in nodes:
                node.close()


def _with_logins(node: MixedNode, protocol: str) -> dict[str, str]:
    """Another listener, at which brokers log in with SCRAM; at controllers, nodes log in with PLAIN. Clients need no
    login, and have every permission.
    """
    clients = f"PLAINTEXT://{node.host}:{node.port}"
    inner = f"INNER://{node.host}:{free_ports(1)[0]}"
    controller = f"CONTROLLER://{node.host}:{node.controller_port}"
    logins = listener_settings("INNER") | listener_settings("CONTROLLER")
    return {
        "listeners": f"{clients},{inner},{controller}",
        "advertised.listeners": f"{clients},{inner}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INNER:{protocol},CONTROLLER:{protocol}",
        "inter.broker.listener.name": "INNER",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        # In the format of a Java properties file.
        **{name: value.replace("\\", "\\\\") for name, value in logins.items()},
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }


def _stores(node: MixedNode, authority: Authority) -> dict[str, str]:
    """A certificate of the node, which it also presents to controllers, because they require one."""
    node.directory.mkdir(parents=True, exist_ok=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node").write_pem(node.directory / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(node.directory / "authority.pem")),
        "listener.name.controller.ssl.client.auth": "required",
    }


def _brokers(node: MixedNode) -> int:
    """The number of brokers that clients of this node see; 0 if it cannot be reached."""
    probe = ClusterNode(node.directory, 0, "broker", {})
    probe.port = node.port
    return probe.brokers()


def active_controller(node: MixedNode) -> int:
    """The id of the active controller as a node shows it; -1 if none is active. Raises ClientError."""
    found: int = quorum(node.port).leader_id
    return found


def depose(nodes: Sequence[MixedNode], active: int, between: Callable[[MixedNode, int], None]) -> int:
    """Kill the active controller of two Kafka nodes and a broker-cy node (the last one), so that a node of the other
    kind is elected; call `between` with a running node and the id of the new controller; restart the former one.
    Returns the id of the new controller.
    """
    ours = len(nodes)
    # A Kafka node that has heard from its leader refuses our vote requests until its own fetch timeout, and then
    # requests votes itself: the other Kafka node would always follow. A restarted one has not heard from any leader.
    dead = [active] if active == ours else [active, ours - active]
    for number in dead:
        nodes[number - 1].kill()
    for number in dead[1:]:
        nodes[number - 1].restart()
    left = next(node for number, node in enumerate(nodes, 1) if number != active)

    def another() -> int:
        found = active_controller(left)
        return found if found not in (-1, active) else 0

    found = until(another, "another active controller", READY_S, tolerate=(ClientError, AssertionError))
    between(left, found)
    nodes[active - 1].restart()
    return found


def let_lead(nodes: Sequence[MixedNode], kind: type[MixedNode]) -> None:
    """Make a node of this kind the active controller of a cluster as in `depose`."""
    for _ in range(TURNS_MAX):
        active = until(
            lambda: max(active_controller(nodes[-1]), 0),
            "an active controller",
            READY_S,
            tolerate=(ClientError, AssertionError),
        )
        if isinstance(nodes[active - 1], kind):
            return
        depose(nodes, active, lambda _, __: None)
    raise AssertionError(f"no active controller is a {kind.__name__}")
