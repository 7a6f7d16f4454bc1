"""Random acts of brokers and operators on a controller, for the simulation of our controller and for the comparison
with Apache Kafka's.

An act is a small tuple of plain values. `request_of` makes a request of it with what the sender knows, so the same act
can be done to two controllers whose offsets, epochs and topic ids differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from broker_cy.config import BrokerConfig
from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.controller.broker_states import Heartbeat
from broker_cy.controller.config_ops import AlterConfigs, OpType, ResourceChange, SettingChange
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.directories import AssignReplicasToDirectories
from broker_cy.controller.elections import ElectLeaders
from broker_cy.controller.operation import Operation
from broker_cy.controller.producer_ids import AllocateProducerIds
from broker_cy.controller.reassignment import AlterReassignments
from broker_cy.controller.registration import RegisterBroker, UnregisterBroker
from broker_cy.controller.topic_ops import CreatePartitions, DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.metadata import features
from broker_cy.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, MetadataImage, PartitionImage
from broker_cy.wire import messages

BROKERS = (1, 2, 3, 4)
# By broker: two of them are on one host.
HOSTS = {1: "h1", 2: "h2", 3: "h3", 4: "h1"}
TOPICS = ("a", "b")
DIRECTORIES = 2


class Act(NamedTuple):
    kind: str
    args: tuple[Any, ...]


def directory(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=(1 << 100) + broker_id * 10 + number)


def incarnation(broker_id: int, number: int) -> UUID:
    return UUID(int=((1 << 90) + broker_id) * 10_000 + number)


class Draw:
    """Draws acts that fit an image now and then: most are valid, some are stale or wrong."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._incarnations = 0
        self._kinds = (
            ["beat"] * 10
            + ["propose"] * 10
            + ["register"] * 2
            + ["create", "create", "delete", "grow", "unregister", "assign", "ids"]
            + ["elect"] * 3
            + ["reassign"] * 4
            + ["config"] * 2
        )

    def act(self, image: MetadataImage) -> Act:
        """Draw an act. It refers to partitions and brokers of `image`, or to ones that do not exist."""
        kind = self._random.choice(self._kinds)
        found: Act = getattr(self, f"_{kind}")(image)
        return found

    def _broker(self) -> int:
        return self._random.choice(BROKERS)

    def _one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    def _some(self, values: Sequence[int], least: int = 1) -> tuple[int, ...]:
        count = self._random.randint(least, max(least, len(values)))
        return tuple(self._random.sample(list(values), min(count, len(values))))

    def _partition(self, image: MetadataImage) -> tuple[str, int, PartitionImage | None]:
        topics = sorted(topic.name for topic in image.topics)
        if not topics or self._one_in(30):
            return self._random.choice(TOPICS), 9, None
        topic = image.topics.by_name(self._random.choice(topics))
        assert topic is not None
        index = self._random.choice(sorted(topic.partitions))
        return topic.name, index, topic.partitions[index]

    def _register(self, image: MetadataImage) -> Act:
        self._incarnations += 1
        broker_id = self._broker()
        if self._one_in(3):
            known = image.brokers.get(broker_id)
            if known is not None:
                # The same process again.
                return Act("register", (broker_id, known.incarnation_id.int % 10_000, False))
        return Act("register", (broker_id, self._incarnations, self._one_in(2)))

    def _unregister(self, image: MetadataImage) -> Act:
        return Act("unregister", (self._broker(),))

    def _beat(self, image: MetadataImage) -> Act:
        broker_id = self._broker()
        want = self._random.choice(["run"] * 5 + ["fence", "stop", "stop"])
        offline = (1,) if self._one_in(12) else ()
        cordoned = self._random.choice([None] * 6 + [(), (0,), (0, 1)])
        return Act("beat", (broker_id, want, self._one_in(8), offline, cordoned, self._one_in(20)))

    def _create(self, image: MetadataImage) -> Act:
        assignments = tuple(self._some(BROKERS) for _ in range(self._random.randint(1, 2)))
        size = len(assignments[0])
        assignments = tuple(tuple(self._random.sample(BROKERS, size)) for _ in assignments)
        return Act("create", (self._random.choice(TOPICS), assignments, self._random.randint(1, 3), self._one_in(4)))

    def _delete(self, image: MetadataImage) -> Act:
        return Act("delete", (self._random.choice(TOPICS),))

    def _grow(self, image: MetadataImage) -> Act:
        name, _, _ = self._partition(image)
        topic = image.topics.by_name(name)
        count = len(topic.partitions) + 1 if topic else 2
        return Act("grow", (name, min(count, 4), self._some(BROKERS)))

    def _propose(self, image: MetadataImage) -> Act:
        name, index, partition = self._partition(image)
        replicas = partition.replicas if partition else BROKERS[:2]
        leader = partition.leader if partition else 1
        isr = self._some(replicas)
        if leader not in isr and not self._one_in(10):
            isr = (leader, *isr)
        if self._one_in(20):
            isr = (*isr, self._broker())
        wrong = self._random.choice(
            ["right"] * 12 + ["old leader epoch", "new leader epoch", "old partition epoch", "not leader", "old broker"]
        )
        recovery = 1 if self._one_in(12) else 0
        return Act("propose", (name, index, isr, wrong, recovery))

    def _elect(self, image: MetadataImage) -> Act:
        name, index, _ = self._partition(image)
        return Act("elect", (name, index, self._random.choice([0, 0, 1])))

    def _reassign(self, image: MetadataImage) -> Act:
        name, index, partition = self._partition(image)
        cancels = partition is not None and self._one_in(4)
        return Act("reassign", (name, index, None if cancels else self._some(BROKERS), not self._one_in(4)))

    def _assign(self, image: MetadataImage) -> Act:
        name, index, _ = self._partition(image)
        return Act("assign", (self._broker(), name, index, self._random.randrange(DIRECTORIES + 1)))

    def _ids(self, image: MetadataImage) -> Act:
        return Act("ids", (self._broker(),))

    def _config(self, image: MetadataImage) -> Act:
        name, _, _ = self._partition(image)
        key, value = self._random.choice(
            [
                ("min.insync.replicas", "1"),
                ("min.insync.replicas", "2"),
                ("unclean.leader.election.enable", "true"),
                ("unclean.leader.election.enable", "false"),
            ]
        )
        return Act("config", (name, key, value))


def request_of(act: Act, image: MetadataImage, cluster_id: str) -> tuple[Any, int]:
    """Return the request and its version, as a sender that knows `image` builds them."""
    made: tuple[Any, int] = globals()[f"_{act.kind}"](image, cluster_id, *act.args)
    return made


def operation_of(request: Any, version: int, cluster_id: str, config: BrokerConfig) -> Operation[Any]:
    """Return the operation that our handlers derive from the request."""
    match request:
        case messages.BrokerRegistrationRequest():
            return RegisterBroker(request, version, cluster_id)
        case messages.BrokerHeartbeatRequest():
            return Heartbeat(request)
        case messages.UnregisterBrokerRequest():
            return UnregisterBroker(request.broker_id)
        case messages.CreateTopicsRequest():
            return CreateTopics(request)
        case messages.DeleteTopicsRequest():
            return DeleteTopics([TopicChoice(topic.name, topic.topic_id) for topic in request.topics])
        case messages.CreatePartitionsRequest():
            return CreatePartitions(request.topics, request.validate_only)
        case messages.AlterPartitionRequest():
            return AlterPartition(request, version)
        case messages.ElectLeadersRequest():
            return ElectLeaders(request)
        case messages.AlterPartitionReassignmentsRequest():
            return AlterReassignments(request)
        case messages.AssignReplicasToDirsRequest():
            return AssignReplicasToDirectories(request)
        case messages.AllocateProducerIdsRequest():
            return AllocateProducerIds(request.broker_id, request.broker_epoch)
        case messages.IncrementalAlterConfigsRequest():
            changes = [
                ResourceChange(
                    each.resource_type,
                    each.resource_name,
                    [SettingChange(c.name, OpType(c.config_operation), c.value) for c in each.configs],
                )
                for each in request.resources
            ]
            return AlterConfigs(changes, config)
    raise AssertionError(request)


def _epoch(image: MetadataImage, broker_id: int) -> int:
    known = image.brokers.get(broker_id)
    return known.epoch if known else -1


def _register(image: MetadataImage, cluster_id: str, broker_id: int, number: int, clean: bool) -> tuple[Any, int]:
    request = messages.BrokerRegistrationRequest
    return request(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation(broker_id, number),
        rack=f"rack-{broker_id % 2}",
        listeners=[request.Listener(name="PLAINTEXT", host=HOSTS[broker_id], port=9092, security_protocol=0)],
        features=[
            request.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.SUPPORTED.items()
        ],
        log_dirs=[directory(broker_id, n) for n in range(DIRECTORIES)],
        previous_broker_epoch=_epoch(image, broker_id) if clean else -1,
    ), 4


def _beat(
    image: MetadataImage,
    cluster_id: str,
    broker_id: int,
    want: str,
    behind: bool,
    offline: tuple[int, ...],
    cordoned: tuple[int, ...] | None,
    stale: bool,
) -> tuple[Any, int]:
    return messages.BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=_epoch(image, broker_id) - stale,
        current_metadata_offset=0 if behind else image.offset,
        want_fence=want == "fence",
        want_shut_down=want == "stop",
        offline_log_dirs=[directory(broker_id, n) for n in offline],
        cordoned_log_dirs=None if cordoned is None else [directory(broker_id, n) for n in cordoned],
    ), 2


def _unregister(image: MetadataImage, cluster_id: str, broker_id: int) -> tuple[Any, int]:
    return messages.UnregisterBrokerRequest(broker_id=broker_id), 0


def _create(
    image: MetadataImage,
    cluster_id: str,
    name: str,
    assignments: tuple[tuple[int, ...], ...],
    min_isr: int,
    unclean: bool,
) -> tuple[Any, int]:
    request = messages.CreateTopicsRequest
    topic = request.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(assignments)
        ],
        configs=[
            request.CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr)),
            request.CreatableTopicConfig(name="unclean.leader.election.enable", value=str(unclean).lower()),
        ],
    )
    return request(topics=[topic], timeout_ms=30_000), 7


def _delete(image: MetadataImage, cluster_id: str, name: str) -> tuple[Any, int]:
    request = messages.DeleteTopicsRequest
    return request(topics=[request.DeleteTopicState(name=name, topic_id=uuids.ZERO)], timeout_ms=30_000), 6


def _grow(image: MetadataImage, cluster_id: str, name: str, count: int, replicas: tuple[int, ...]) -> tuple[Any, int]:
    request = messages.CreatePartitionsRequest
    topic = request.CreatePartitionsTopic(
        name=name, count=count, assignments=[request.CreatePartitionsAssignment(broker_ids=list(replicas))]
    )
    return request(topics=[topic], timeout_ms=30_000), 3


def _propose(
    image: MetadataImage, cluster_id: str, name: str, index: int, isr: tuple[int, ...], wrong: str, recovery: int
) -> tuple[Any, int]:
    topic = image.topics.by_name(name)
    partition = topic.partitions.get(index) if topic else None
    leader = partition.leader if partition else 1
    if wrong == "not leader":
        leader = next((b for b in BROKERS if b != leader), leader)
    request = messages.AlterPartitionRequest
    data = request.PartitionData(
        partition_index=index,
        leader_epoch=(partition.leader_epoch if partition else 0)
        + {"old leader epoch": -1}.get(wrong, 0)
        + (wrong == "new leader epoch"),
        partition_epoch=(partition.partition_epoch if partition else 0) - (wrong == "old partition epoch"),
        leader_recovery_state=recovery,
        new_isr_with_epochs=[
            request.BrokerState(broker_id=b, broker_epoch=_epoch(image, b) - (wrong == "old broker")) for b in isr
        ],
    )
    return request(
        broker_id=leader,
        broker_epoch=_epoch(image, leader),
        topics=[request.TopicData(topic_id=topic.topic_id if topic else UUID(int=1 << 99), partitions=[data])],
    ), 3


def _elect(image: MetadataImage, cluster_id: str, name: str, index: int, kind: int) -> tuple[Any, int]:
    request = messages.ElectLeadersRequest
    return request(election_type=kind, topic_partitions=[request.TopicPartitions(topic=name, partitions=[index])]), 2


def _reassign(
    image: MetadataImage, cluster_id: str, name: str, index: int, replicas: tuple[int, ...] | None, any_factor: bool
) -> tuple[Any, int]:
    request = messages.AlterPartitionReassignmentsRequest
    part = request.ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
    return request(
        allow_replication_factor_change=any_factor, topics=[request.ReassignableTopic(name=name, partitions=[part])]
    ), 1


def _assign(
    image: MetadataImage, cluster_id: str, broker_id: int, name: str, index: int, number: int
) -> tuple[Any, int]:
    topic = image.topics.by_name(name)
    request = messages.AssignReplicasToDirsRequest
    topics = [
        request.TopicData(
            topic_id=topic.topic_id if topic else UUID(int=1 << 99),
            partitions=[request.PartitionData(partition_index=index)],
        )
    ]
    return request(
        broker_id=broker_id,
        broker_epoch=_epoch(image, broker_id),
        directories=[request.DirectoryData(id=directory(broker_id, number), topics=topics)],
    ), 0


def _ids(image: MetadataImage, cluster_id: str, broker_id: int) -> tuple[Any, int]:
    return messages.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=_epoch(image, broker_id)), 0


def _config(image: MetadataImage, cluster_id: str, name: str, key: str, value: str) -> tuple[Any, int]:
    request = messages.IncrementalAlterConfigsRequest
    change = request.AlterableConfig(name=key, config_operation=int(OpType.SET), value=value)
    resource_type = RESOURCE_TOPIC if name else RESOURCE_BROKER
    return request(
        resources=[request.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[change])]
    ), 1
