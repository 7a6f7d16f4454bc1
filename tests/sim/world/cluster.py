"""The nodes of a world that form one cluster: their settings, and their common invariants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker_cy.metadata.partition import NO_LEADER
from broker_cy.replica.replica import Role
from broker_cy.wire.records import decode_batches
from tests.sim.world.committed import Committed
from tests.sim.world.network import PORT

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.metadata.image import MetadataImage
    from broker_cy.metadata.topics import TopicImage
    from broker_cy.storage.log import Log
    from tests.sim.world.machine import Machine
    from tests.sim.world.plan import Plan
    from tests.sim.world.world import World

READ_BYTES = 1 << 20
# Turns of a node between two checks of its leaderships, if its metadata does not change.
LEADERS_EVERY = 10

# The site that the clients of a cluster talk to, and that of the cluster that mirrors it.
CLUSTER, TARGET = "cluster", "target"
CONTROLLER_PORT = 9093
# Short times: a world lasts for seconds.
TIMES = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.request.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "leader.imbalance.check.interval.seconds": "3",
    "offsets.commit.timeout.ms": "300",
}
# A replica that lacks more than some batches is far behind (replication.fetcher_manager).
SIZES = {"replica.fetch.max.bytes": "600"}
# Users of a secured cluster: the nodes; all clients but the one of tests.sim.world.clients.warden; that one.
NODE_USER, CLIENT_USER = "node", "client"
PASSWORDS = {each: f"password of {each}" for each in (NODE_USER, CLIENT_USER, "mallory")}
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{NODE_USER}" '
    f'password="{PASSWORDS[NODE_USER]}" '
) + " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f"{_JAAS};",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.controller.plain.sasl.jaas.config": f"{_JAAS};",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    # With it there are delegation tokens, which are swept later than any world ends.
    "delegation.token.secret.key": "secret of the tokens",
    # Short windows: a client beyond its quota is throttled for a second or two.
    "quota.window.num": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{NODE_USER};User:{CLIENT_USER}",
}


class Site(Protocol):
    """The peer of clients: a machine, or a cluster."""

    @property
    def ends(self) -> int:
        """How often a process ended, or others took its place."""

    def is_calm_since(self, us: int) -> bool:
        """Whether it has run since then without any fault."""


def settings_of(plan: Plan, host: str) -> dict[str, str]:
    """The settings of one node."""
    listeners = {"broker": f"PLAINTEXT://{host}:{PORT}", "controller": f"CONTROLLER://{host}:{CONTROLLER_PORT}"}
    roles = list(listeners) if not plan.controllers else ["controller" if host in plan.controllers else "broker"]
    peers = plan.controllers or plan.peers_of(host)
    controllers = [f"{each}:{CONTROLLER_PORT}" for each in peers]
    if plan.voters:
        quorum = {"controller.quorum.bootstrap.servers": ",".join(controllers)}
    else:
        voters = zip(peers, controllers, strict=True)
        quorum = {"controller.quorum.voters": ",".join(f"{node_of(each)}@{address}" for each, address in voters)}
    replicas = min(3, len(peers))
    return {
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners[role] for role in roles),
        "advertised.listeners": ",".join(listeners[role] for role in roles),
        "controller.listener.names": "CONTROLLER",
        **quorum,
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min(2, replicas)),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
        **TIMES,
        **SIZES,
        **(_secured(plan) if plan.is_secured else {}),
    }


def _secured(plan: Plan) -> dict[str, str]:
    return {**SECURED, "allow.everyone.if.no.acl.found": "true" if plan.allows_unnamed else "false"}


def node_of(host: str) -> int:
    return int(host.removeprefix("broker").removeprefix("controller").removeprefix(TARGET))


class Lagging(NamedTuple):
    """A node or partition that is not in sync yet."""

    name: str


class Cluster:
    """The combined knowledge about the nodes of a cluster, which are `machines` by host."""

    def __init__(self, world: World, machines: dict[str, Machine]) -> None:
        self._world = world
        self.machines = machines
        # The leaders: by (topic id, partition, leader epoch), and by epoch of the metadata quorum.
        self._leaders: dict[tuple[UUID, int, int], str] = {}
        self._controllers: dict[int, str] = {}
        # By (topic id, partition): the epoch of the newest leader.
        self._newest: dict[tuple[UUID, int], int] = {}
        # By offset in the metadata log: a hash of the topics in the image at this offset.
        self._images: dict[int, int] = {}
        self._seen: dict[str, int] = {}
        # How often a node began to lead a partition, and the time of the last one.
        self._moves = self._moved_us = 0
        # The committed part of the metadata log, if its voters may change.
        first = frozenset(world.machines[host].key for host in world.plan.voters)
        self.committed = Committed(world, first) if first else None

    @property
    def ends(self) -> int:
        return self._moves + sum(each.ends for each in self.machines.values())

    def is_calm_since(self, us: int) -> bool:
        return self._moved_us < us and all(each.is_calm_since(us) for each in self.machines.values())

    def active_controller(self) -> Machine | None:
        for machine in self.machines.values():
            if machine.server is not None and machine.is_started and machine.server.broker.controller.is_active:
                return machine
        return None

    # --- after each turn of a node

    def check(self, machine: Machine) -> None:
        """Raises AssertionError if two nodes lead in one epoch, or if a node's knowledge contradicts that of others."""
        assert machine.server is not None
        broker = machine.server.broker
        image = broker.image
        is_new = self._seen.get(machine.host) != image.offset
        # Roles change with the metadata, and when a log has been opened; two leaders of an epoch remain.
        if is_new or machine.turns % LEADERS_EVERY == 0:
            for partition in broker.partitions:
                replica = partition.replica
                if replica.role == Role.LEADER and replica.in_sync is not None:
                    self._note_leader(machine, (partition.topic_id, partition.index, replica.leader_epoch))
        controller = broker.controller
        if controller.is_active:
            leader = self._controllers.setdefault(controller.epoch, machine.host)
            assert leader == machine.host, f"{leader} and {machine.host} are controllers of epoch {controller.epoch}"
        if is_new:
            self._seen[machine.host] = image.offset
            self._check_image(machine.host, image)

    def _note_leader(self, machine: Machine, key: tuple[UUID, int, int]) -> None:
        if key not in self._leaders:
            self._moves += 1
            self._moved_us = self._world.time.now_us
            topic_id, index, epoch = key
            self._newest[topic_id, index] = max(epoch, self._newest.get((topic_id, index), -1))
        leader = self._leaders.setdefault(key, machine.host)
        assert leader == machine.host, f"{leader} and {machine.host} lead {key}"

    def _check_image(self, host: str, image: MetadataImage) -> None:
        found = []
        for topic in _topics(image):
            for index, each in topic.partitions.items():
                name = (host, topic.name, index, each)
                assert set(each.isr) <= set(each.replicas), f"{name}: replicas outside"
                assert each.leader == NO_LEADER or each.leader in each.isr, f"{name}: the leader is not in sync"
                assert each.isr or each.leader == NO_LEADER, name
                assert not set(each.elr) & set(each.isr), f"{name}: eligible and in sync"
                assert len(each.isr) < 2 or not each.leader_recovery_state, f"{name}: others follow, not recovered"
                found.append((topic.topic_id, index, each))
        # Image by image all nodes have the same.
        content = hash(tuple(found))
        assert self._images.setdefault(image.offset, content) == content, (
            f"{host}: another node had other partitions at offset {image.offset} of the metadata"
        )

    def check_leads_nothing(self, machine: Machine) -> None:
        """Raises AssertionError if another node considers `machine` a leader although other replicas are in sync."""
        node = node_of(machine.host)
        for host, other in self.machines.items():
            if other is machine or other.server is None or not other.is_started:
                continue
            for topic in _topics(other.server.broker.image):
                for index, each in topic.partitions.items():
                    assert each.leader != node or len(each.isr) == 1, (
                        f"{host}: {machine.host} still leads {topic.name}-{index}, and its disk died ({each})"
                    )

    def has_deposed_leader(self, topic: str, index: int) -> bool:
        """Whether a node leads a partition and does not know that the partition has a newer leader."""
        partitions = (
            machine.server.broker.partitions.get(topic, index)
            for machine in self.machines.values()
            if machine.server is not None and machine.is_started
        )
        return sum(each is not None and each.replica.role == Role.LEADER for each in partitions) > 1

    def has_newer_leader(self, topic_id: UUID, index: int, epoch: int) -> bool:
        """Whether a node has led a partition in a later epoch."""
        return self._newest.get((topic_id, index), -1) > epoch

    # --- at the end

    def out_of_sync(self) -> list[Lagging]:
        """Return the nodes that lag, and the partitions whose replicas are not all in sync and of the same length."""
        machines = {node_of(host): each for host, each in self.machines.items()}
        down = [Lagging(each.host) for each in machines.values() if each.server is None or not each.is_started]
        if down:
            return down
        images = {node: each.server.broker.image for node, each in machines.items() if each.server is not None}
        if self.committed is not None:
            if others := self.committed.behind():
                return [Lagging(f"the metadata or the voters of {host}") for host in others]
        elif len({image.offset for image in images.values()}) > 1:
            return [Lagging("the metadata")]
        found = []
        for topic in _topics(next(iter(images.values()))):
            for index, each in topic.partitions.items():
                logs = self._logs(topic.name, index, each.replicas)
                is_settled = set(each.isr) == set(each.replicas) and not each.adding_replicas + each.removing_replicas
                if not is_settled or len({None if log is None else log.log_end_offset for log in logs}) > 1:
                    ends = [None if log is None else log.log_end_offset for log in logs]
                    found.append(Lagging(f"{topic.name}-{index} ({each}, ends {ends})"))
        return found

    def _logs(self, topic: str, index: int, replicas: tuple[int, ...]) -> list[Log | None]:
        logs: list[Log | None] = []
        for host, machine in self.machines.items():
            if node_of(host) in replicas:
                assert machine.server is not None
                partition = machine.server.broker.partitions.get(topic, index)
                logs.append(partition.log if partition is not None and partition.offline is None else None)
        return logs

    def compare_logs(self) -> None:
        """Raises AssertionError if two replicas have different records. Those that are compacted are not compared:
        each broker compacts by itself.
        """
        image = next(each.server for each in self.machines.values() if each.server is not None).broker.image
        for topic in _topics(image):
            if not topic.name.startswith(("t", "v", "u", "A.t")):
                continue
            for index, each in topic.partitions.items():
                logs = [log for log in self._logs(topic.name, index, each.replicas) if log is not None]
                start = max(log.log_start_offset for log in logs)
                contents = {tuple(_batches(log, start)) for log in logs}
                assert len(contents) == 1, f"the replicas of {topic.name}-{index} differ: {contents}"


def _batches(log: Log, start: int) -> Iterator[tuple[int, int, int]]:
    """Offset, leader epoch and checksum of each batch."""
    at = start
    while at < log.written_end_offset and (part := log.read_slice(at, None, READ_BYTES, True)) is not None:
        for batch in decode_batches(part.read()):
            if batch.base_offset >= start:
                yield batch.base_offset, batch.leader_epoch, batch.crc
            at = batch.last_offset + 1


def _topics(image: MetadataImage) -> list[TopicImage]:
    return sorted(image.topics, key=lambda each: each.name)
