"""Brokers of one process that replicate a partition over sockets; the test has the part of the controller."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from broker_cy.client.address import Address
from broker_cy.client.connection import open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.client.outgoing import MACHINE
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import list_offsets as _list_offsets  # noqa: F401 (registers it)
from broker_cy.metadata.image import MetadataImage, PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.partition import Partition
from broker_cy.replica.replica import Role
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.replication.alterations import Alterations
from broker_cy.replication.broker_links import BrokerLink
from broker_cy.replication.fetcher import Follower
from broker_cy.replication.fetcher_manager import ReplicaFetcherManager
from broker_cy.replication.links import Link, LinkFailed
from broker_cy.server.jobs import LoopJobs
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.connections.harness import SETTINGS, CoreHarness, produce_request

TOPIC = "t"
LAG_MS = 10_000
CLUSTER_ID = "clusterclusterclustert"
CONFIG = {
    "replica.fetch.max.bytes": 1 << 20,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10 << 20,
    "replica.fetch.backoff.ms": 20,
    "replica.socket.timeout.ms": 10_000,
}


class Cluster:
    """Every broker has `image`, and `give` distributes another one. The class is also the controller."""

    def __init__(self, count: int, config: LogConfig) -> None:
        self.ids = tuple(range(1, count + 1))
        self.topic_id = uuid.uuid4()
        self.broker_statuses = {each: BrokerStatus(100 + each, True) for each in self.ids}
        self.image = PartitionImage(self.ids, self.ids, 1, 0, 0)
        self.nodes = {each: Node(self, each, config) for each in self.ids}

    def give(self, **changes: Any) -> None:
        epoch = self.image.leader_epoch + ("leader" in changes)
        self.image = self.image._replace(partition_epoch=self.image.partition_epoch + 1, leader_epoch=epoch, **changes)
        for node in self.nodes.values():
            node.harness.on_loop(node.take_image)

    async def alter_partition(self, request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        answer = messages.AlterPartitionResponse.PartitionData(partition_index=0)
        if (asked.leader_epoch, asked.partition_epoch) != (self.image.leader_epoch, self.image.partition_epoch):
            answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
        elif asked.leader_recovery_state and len(asked.new_isr_with_epochs) > 1:
            answer.error_code = ErrorCode.INVALID_REQUEST
        else:
            self.image = self.image._replace(
                isr=tuple(each.broker_id for each in asked.new_isr_with_epochs),
                partition_epoch=self.image.partition_epoch + 1,
            )
        answer.isr = list(self.image.isr)
        answer.leader_id, answer.leader_epoch = self.image.leader, self.image.leader_epoch
        answer.partition_epoch = self.image.partition_epoch
        topics = [messages.AlterPartitionResponse.TopicData(topic_id=topic.topic_id, partitions=[answer])]
        return messages.AlterPartitionResponse(topics=topics)

    def is_cut(self, *node_ids: int) -> bool:
        return any(self.nodes[each].is_cut for each in node_ids)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


class Node:
    def __init__(self, cluster: Cluster, node_id: int, config: LogConfig) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.is_cut = False  # other nodes cannot connect to it
        self.links: list[tuple[int, Link]] = []
        self.harness = CoreHarness(real=(ApiKey.LIST_OFFSETS,))
        core = self.harness.core
        broker = cast(Any, core.broker)
        broker.partitions = self.harness.table
        broker.openings = SimpleNamespace(opened=opened)
        broker.loop = self.harness.loop
        broker.image = MetadataImage()
        self.log_config = config
        self.partition: Partition
        self.harness.on_loop(self.make)

    def make(self) -> None:
        core, clock = self.harness.core, self.harness.core.clock
        self.jobs = LoopJobs(self.harness.loop, self.harness.executor)
        directories = open_directories([self.harness.directory.name], self.node_id, lambda: CLUSTER_ID, uuid.uuid4)
        self.logs = LogManager(directories, StorageSettings(), self.jobs)
        self.logs.on_settled = lambda log: self.take_image()
        log = self.logs.create(TOPIC, 0, self.cluster.topic_id, self.log_config, clock.wall_ms())
        self.partition = Partition(
            core, TOPIC, 0, self.cluster.topic_id, None, 0, replication_factor=len(self.cluster.ids)
        )
        self.partition.configure(SETTINGS | {"min.insync.replicas": 2})
        self.harness.table.add(self.partition)
        self.log = log
        self.throttle = ReplicaThrottle(11, 1000)
        core.silence = self.silence = FollowerSilence(0, LAG_MS, self.cluster.broker_statuses)
        core.leader_throttle = ReplicaThrottle(11, 1000)
        follower = Follower(
            self.node_id,
            lambda: self.cluster.broker_statuses[self.node_id].epoch,
            cast(Any, CONFIG),
            clock,
            self.harness.loop,
            self,
            self.logs,
            core.flush,
            self.throttle,
        )
        self.replicas = ReplicaFetcherManager(follower)
        self.alterations = Alterations(self.node_id, follower.broker_epoch, self.harness.loop, self.cluster)
        core.on_alter = self.alterations.add

    def new_in_sync(self) -> InSync:
        return InSync(self.node_id, self.cluster.broker_statuses, LAG_MS, 1, self.silence)

    async def connect(self, broker_id: int) -> Link:
        node = self.cluster.nodes[broker_id]
        if self.cluster.is_cut(broker_id, self.node_id):
            raise LinkFailed("cut")
        address = Address("127.0.0.1", node.harness.listener.port)
        link = BrokerLink(await open_connection(address, "follower", Deadline(10), MACHINE))
        self.links.append((broker_id, link))
        if self.cluster.is_cut(broker_id, self.node_id):
            link.close()  # cut while it was connecting
        return link

    def take_image(self) -> None:
        image = self.cluster.image
        cast(Any, self.harness.core.broker).image.topics.put(TopicImage(TOPIC, self.cluster.topic_id, {0: image}))
        before = self.partition.assigned
        leads = image.leader == self.node_id
        if before is not None and before.leader_epoch < image.leader_epoch and self.log in self.logs.truncations:
            return  # until it is settled, as in PartitionService
        self.harness.core.flush()
        self.partition.assign(image, leads, self.new_in_sync, -1)
        if self.partition.replica.role == Role.OFFLINE:
            self.partition.come_online(self.log)
        if before is None or before.leader_epoch < image.leader_epoch:
            if leads:
                self.replicas.leave(self.partition)
            else:
                self.replicas.follow(self.partition, image.leader)

    def cut(self) -> None:
        """Cut this node off from the others."""
        self.is_cut = True

        for node in self.cluster.nodes.values():
            node.harness.on_loop(partial(node.close_links, self.node_id))

    def close_links(self, broker_id: int) -> None:
        """Close the links of this node to another, or all of its own."""
        for to, link in self.links:
            if broker_id in (to, self.node_id):
                link.close()

    def records(self) -> list[bytes]:
        """The values of the log, and whether it is whole."""

        def read() -> list[bytes]:
            found: list[bytes] = []
            at, log = self.partition.log.log_start_offset, self.partition.log
            while at < log.written_end_offset:
                part = log.read_slice(at)
                assert part is not None
                for batch in decode_batches(part.read()):
                    found += [each.value or b"" for each in batch.records()]
                    at = batch.base_offset + batch.last_offset_delta + 1
            return found

        return cast(list[bytes], self.harness.on_loop(read))

    def wait(self, condition: Callable[[Partition], bool]) -> None:
        self.harness.wait_until(lambda: condition(self.partition))

    def close(self) -> None:
        def stop() -> None:
            self.replicas.close()
            self.alterations.close()
            self.close_links(self.node_id)
            self.jobs.stop()
            for directory in self.logs.data_directories:
                directory.close()

        self.harness.on_loop(stop)
        self.harness.wait_until(lambda: not [each for each in asyncio.all_tasks() if each.get_name() == "fetcher"])
        self.harness.close()


async def opened(_partitions: Any) -> None:
    """Every log is open."""


def batch(value: bytes) -> bytes:
    return encode_batch([Record(0, 1_000, b"k", value, [])])


def produce(cluster: Cluster, node_id: int, value: bytes, acks: int = -1) -> int:
    client = cluster.nodes[node_id].harness.client()
    request = produce_request(TOPIC, 0, batch(value), acks)
    response = client.call(request, ApiKey.PRODUCE, 9, messages.ProduceResponse)
    client.close()
    return int(response.responses[0].partition_responses[0].error_code)
