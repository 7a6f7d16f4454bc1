"""The requests of mirrors to the source, in each version of Fetch; the codec of the tables reads them."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.core.clock import ManualClock
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.mirror import Mirror, Source
from broker_cy.replica.partition import Partition
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import LinkThrottle, ReplicaThrottle
from broker_cy.replication.mirror_fetch_session import MirrorFetchSession
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import codec, messages
from tests.sim import power_loop

CONFIG = {
    "replica.fetch.max.bytes": 1 << 20,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10 << 20,
}
STATUSES = {1: BrokerStatus(7, True)}


def mirror_partition(path: Path) -> Partition:
    """Return a partition of topic `t` that this broker leads alone, in leader epoch 9."""
    group = FlushGroup(cast(Any, power_loop.Loop(power_loop.Work(random.Random(1)))), ManualClock())
    log = Log.create(str(path / "t-3"), "t", 3, LogConfig(), 0)
    partition = Partition(group, "t", 3, uuid.uuid4(), None, 0)
    partition.mirror(True, False)
    silence = FollowerSilence(0, 10_000, STATUSES)
    partition.assign(PartitionImage((1,), (1,), 1, 9, 0), True, lambda: InSync(1, STATUSES, 10_000, 1, silence), -1)
    partition.come_online(log)
    return partition


@pytest.mark.parametrize("version", range(13, 18))
def test_the_source_sees_a_consumer(tmp_path: Path, version: int) -> None:
    """If this fails, the source takes a mirror for one of its replicas, or cannot read the request."""
    partition, topic_id = mirror_partition(tmp_path), uuid.uuid4()
    assert partition.log.epochs.latest_epoch == -1, "the mirror has begun an epoch that its source does not know"
    mirror = Mirror(9, topic_id)
    mirrors = {partition: mirror}
    session = MirrorFetchSession(cast(Any, CONFIG), ReplicaThrottle(1, 1000), mirrors)
    session.version = version
    session.add(partition)
    assert session.request(-1, 0) is None, "the leader of the source is not known"
    mirror.found(Source(topic_id, 5, 8), -1)
    session.note(partition)
    body = session.request(-1, 0)
    assert body is not None
    request = codec.decode(messages.FetchRequest, version, body)
    assert (request.replica_id, request.replica_state.replica_id) == (-1, -1)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (0, 0, 0)
    (topic,) = request.topics
    (asked,) = topic.partitions
    assert (topic.topic_id, asked.partition) == (topic_id, 3)
    assert (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (8, 0, -1)
    part = messages.FetchResponse.PartitionData(partition_index=3, high_watermark=6, records=b"")
    answered = messages.FetchResponse.FetchableTopicResponse(topic_id=topic_id, partitions=[part])
    answer = codec.encode(messages.FetchResponse(session_id=4, responses=[answered]), version)
    error, (found,) = session.take(memoryview(answer))
    assert (error, found.partition, found.high_watermark) == (0, partition, 6)


def test_a_link_is_not_faster_than_its_rate(tmp_path: Path) -> None:
    """If this fails, a mirror takes the whole line between two sites, although its link has a rate."""
    partition, topic_id = mirror_partition(tmp_path), uuid.uuid4()
    mirror = Mirror(9, topic_id)
    mirror.found(Source(topic_id, 5, 8), -1)
    throttle = LinkThrottle(10, 1_000)
    session = MirrorFetchSession(cast(Any, CONFIG), throttle, {partition: mirror})
    session.version = 17
    session.add(partition)
    throttle.record(5_000, 10_000)
    assert session.request(-1, 10_000) is not None, "the link has no rate"
    session.restart()
    throttle.limit_to(1_000)
    assert session.request(-1, 10_100) is None
    assert session.held_ms(10_100) == 4_900
    assert session.request(-1, 15_000) is not None
