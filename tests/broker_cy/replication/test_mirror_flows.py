"""The mirrors of a link whose source gives them a reason to wait or to fail: each is named."""

from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode
from broker_cy.core.mirror_settings import MirrorSettings
from broker_cy.metadata.image import PartitionImage
from broker_cy.metrics.events import Event, MirrorFailed
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.mirror import Cause
from broker_cy.replica.partition import Partition
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import LinkThrottle
from broker_cy.replication.fetcher import Follower
from broker_cy.replication.mirror_cluster import LinkSettings, LinkWaits, Origin, SourceCluster, read_link
from broker_cy.replication.mirror_flows import LinkFlows
from broker_cy.replication.mirror_view import MirrorView
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import messages
from broker_cy.wire.records import Record, encode_batch
from tests.sim import power_loop

TOPIC, SOURCE, OTHER = uuid.UUID(int=7), uuid.UUID(int=8), uuid.UUID(int=9)
CONFIG = {"replica.fetch.backoff.ms": 1_000, "replica.fetch.wait.max.ms": 500}
STATUSES = {1: BrokerStatus(7, True)}


class Source:
    """A cluster with one topic, or with `error`; `origins` as in SourceCluster."""

    name = "east"

    def __init__(self, partitions: int, topic_id: uuid.UUID, error: int, origins: dict[str, Origin] | None) -> None:
        self.partitions, self.topic_id, self.error, self.found = partitions, topic_id, error, origins

    async def metadata(self, topics: list[str]) -> messages.MetadataResponse:
        if self.error == UNREACHABLE:
            raise LinkWaits(Cause.UNREACHABLE, "link east: no broker answers")
        kind = messages.MetadataResponse
        parts = [
            kind.MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=0)
            for index in range(self.partitions)
        ]
        topic = kind.MetadataResponseTopic(
            error_code=self.error, name="t", topic_id=self.topic_id, partitions=[] if self.error else parts
        )
        return kind(topics=[topic])

    async def origins(self, topics: list[str]) -> dict[str, Origin] | None:
        return self.found

    async def read_rate(self) -> None:
        pass

    async def connect(self, broker_id: int) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


class Controller:
    """The controller of a cluster whose topics have one partition. It pins no id, so nothing is fetched."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def pin(self, topic: str, topic_id: uuid.UUID) -> None:
        pass

    async def raise_epochs(self, wanted: dict[Partition, int]) -> None:
        pass

    def partitions(self, topic: str) -> int:
        return 1

    def note(self, event: Event) -> None:
        self.events.append(event)


UNREACHABLE = -100
PROMOTED = {"t": Origin(False, TOPIC)}


def partition_of(path: Path, records: int, index: int) -> Partition:
    group = FlushGroup(cast(Any, power_loop.Loop(power_loop.Work(random.Random(1)))), ManualClock())
    log = Log.create(str(path / f"t-{index}"), "t", index, LogConfig(), 0)
    if records:
        log.append(encode_batch([Record(0, 1_000, b"k", b"v", [])] * records), 0)
    partition = Partition(group, "t", index, TOPIC, None, 0)
    partition.mirror(True, False)
    silence = FollowerSilence(0, 10_000, STATUSES)
    partition.assign(PartitionImage((1,), (1,), 1, 9, 0), True, lambda: InSync(1, STATUSES, 10_000, 1, silence), -1)
    partition.come_online(log)
    return partition


async def view_of(partition: Partition, source: Source, pinned: uuid.UUID | None) -> tuple[MirrorView, list[Event]]:
    """The mirror after one round, and the events."""
    loop, controller = asyncio.get_running_loop(), Controller()
    throttle = LinkThrottle(10, 1_000)
    clock = ManualClock()
    parts: Any = (-1, lambda: -1, CONFIG, clock, loop, source, None, lambda: 0, throttle)
    flows = LinkFlows(Follower(*parts), cast(Any, source), controller)
    try:
        flows.set(partition, MirrorSettings("east", "t", pinned, False))
        for _ in range(10):
            await asyncio.sleep(0)
        (view,) = flows.views(0)
        return view, controller.events
    finally:
        await flows.close()


@pytest.mark.parametrize(
    ("records", "index", "source", "pinned", "state", "cause"),
    [
        (0, 0, Source(1, SOURCE, UNREACHABLE, {}), None, "waiting", "unreachable"),
        (0, 0, Source(1, SOURCE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {}), None, "waiting", "no_topic"),
        (0, 0, Source(1, SOURCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, {}), None, "waiting", "unauthorized"),
        (0, 0, Source(1, SOURCE, ErrorCode.INVALID_TOPIC_EXCEPTION, {}), None, "waiting", "refused"),
        (0, 0, Source(1, TOPIC, 0, {"t": Origin(True, None)}), None, "failed", "itself"),
        (0, 0, Source(1, SOURCE, 0, {"t": Origin(True, None)}), None, "waiting", "circle"),
        (0, 0, Source(1, SOURCE, 0, {"t": Origin(True, TOPIC)}), None, "waiting", "circle"),
        (0, 0, Source(1, SOURCE, 0, {"t": Origin(True, OTHER)}), None, "waiting", ""),
        (0, 1, Source(1, SOURCE, 0, {}), None, "failed", "no_partition"),
        (0, 0, Source(2, SOURCE, 0, {}), None, "waiting", "fewer_partitions"),
        (0, 0, Source(1, SOURCE, 0, {}), OTHER, "failed", "source_recreated"),
        # Records of the topic have to be from the source.
        (1, 0, Source(1, SOURCE, 0, {}), None, "failed", "unrelated_logs"),
        (1, 0, Source(1, SOURCE, 0, {"t": Origin(False, OTHER)}), None, "failed", "unrelated_logs"),
        (1, 0, Source(1, SOURCE, 0, None), None, "waiting", "unreachable"),
        (1, 0, Source(1, SOURCE, 0, PROMOTED), None, "waiting", ""),
        (1, 0, Source(1, SOURCE, 0, {}), SOURCE, "active", ""),
    ],
)
def test_what_a_mirror_waits_for_is_named(
    tmp_path: Path, records: int, index: int, source: Source, pinned: uuid.UUID | None, state: str, cause: str
) -> None:
    """If this fails, nothing says why a mirror stays empty, or a log with other records is truncated."""

    async def job() -> None:
        partition = partition_of(tmp_path, records, index)
        view, events = await view_of(partition, source, pinned)
        assert (view.state, view.cause) == (state, cause), view.reason
        assert partition.log.log_end_offset == records
        assert [isinstance(each, MirrorFailed) and each.cause for each in events] == [cause] * (state == "failed")

    asyncio.run(job())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "east.properties"),
        ("bootstrap.servers=", "bootstrap.servers"),
        ("bootstrap.servers=h:x", "bootstrap.servers"),
        ("bootstrap.servers=h:1\nfetch.max.byte=1", "fetch.max.byte is no setting of a link"),
        ("bootstrap.servers=h:1\nbrokercy.mirror.bytes.per.second=-5", "must be a whole number above 0, not '-5'"),
        ("bootstrap.servers=h:1\nsecurity.protocol=SSLX", "security.protocol"),
    ],
)
def test_a_wrong_file_of_a_link_is_named(tmp_path: Path, text: str | None, reason: str) -> None:
    """If this fails, a mistake in the file of a link is ignored, or its message does not say where it is."""
    if text is not None:
        (tmp_path / "east.properties").write_text(text)
    with pytest.raises(ClientError, match=reason):
        read_link(str(tmp_path), "east")
    (tmp_path / "east.properties").write_text("bootstrap.servers=h:1\nbrokercy.mirror.bytes.per.second=5\n")
    assert read_link(str(tmp_path), "east").bytes_per_s == 5


def test_a_changed_rate_is_taken_over_from_a_file_without_errors(tmp_path: Path) -> None:
    """If this fails, a link keeps its rate until the brokers restart, or loses it by a mistake in the file."""
    file = tmp_path / "east.properties"
    throttle = LinkThrottle(10, 1_000)

    async def read() -> LinkSettings:
        return read_link(str(tmp_path), "east")

    cluster = SourceCluster("east", "id", cast(Any, None), read, throttle)

    def is_limited_by(*lines: str) -> bool:
        file.write_text("\n".join(lines))
        asyncio.run(cluster.read_rate())
        return throttle.is_set

    address, rate = "bootstrap.servers=h:1", "brokercy.mirror.bytes.per.second=5"
    assert not is_limited_by(address)
    assert is_limited_by(address, rate)
    assert is_limited_by(address, "brokercy.mirror.bytes.per.second=x")
    assert not is_limited_by(address)
