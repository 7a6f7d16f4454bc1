"""The time that rare operations take on the event loop, and in workers: `python -m bench.studies.loop_costs`.

Each line has the wall-clock time that the loop is blocked, in one turn or in all turns together, and the time of the
job that a worker does instead. Syncs depend on the disk of `--directory`; compare figures of one run.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import decode_offset_value, encode_offset_value
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import snapshot
from broker_cy.metadata.image import ImageDelta, MetadataImage, TopicDelta
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.replay import replay
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.metadata.topics import TopicImage
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings
from broker_cy.wire import codec, messages
from broker_cy.wire.records import Record, encode_batch

T = TypeVar("T")

TOPIC_ID = UUID(int=7)
BATCH = encode_batch([Record(0, 1_000, b"k", b"v", [])])


class Timed:
    """Jobs that run in `settle`; `loop_s` and `worker_s` are the times of both sides."""

    def __init__(self) -> None:
        self.loop_s = self.worker_s = 0.0
        self._due: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        def job() -> None:
            began = time.perf_counter()
            result = work()
            self.worker_s += time.perf_counter() - began
            self.on_loop(lambda: done(result, None))

        self._due.append(job)

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._due.append(lambda: self.on_loop(callback))

    def on_loop(self, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        work()
        self.loop_s += time.perf_counter() - began

    def settle(self) -> None:
        while self._due:
            self._due.pop(0)()


def truncations(directory: str, count: int, truncated: int) -> None:
    root = tempfile.mkdtemp(dir=directory)
    try:
        jobs = Timed()
        directories = open_directories([root], 1, lambda: "clusterclusterclustert", MACHINE_RANDOMNESS.kafka_uuid)
        manager = LogManager(directories, StorageSettings(), jobs)
        logs: list[Log] = []
        for index in range(count):
            log = manager.create("topic", index, TOPIC_ID, LogConfig(), 0)
            for offset in range(4):
                log.append(offset.to_bytes(8, "big") + BATCH[8:], 0)
            logs.append(log)
        jobs.settle()
        single: list[float] = []
        for _ in range(5):
            names = ("recovery-point-offset-checkpoint", "written-point-offset-checkpoint")
            began = time.perf_counter()
            manager.checkpoints.write(manager.checkpoints.collect(names, manager.logs, manager.offline))
            single.append(time.perf_counter() - began)
        jobs.loop_s = jobs.worker_s = 0.0
        for log in logs[:truncated]:
            jobs.on_loop(lambda log=log: manager.truncate_to(log, 2, 0, lambda: None))  # type: ignore[misc]
        jobs.settle()
        one_s = statistics.median(single)
        show(f"{truncated} of {count} logs truncated", jobs.loop_s, jobs.worker_s)
        print(f"{'':44}(a write for each log took {one_s * truncated * 1000:,.1f} ms: {one_s * 1000:.1f} ms each)")
        for each in directories:
            each.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def deleted_topics(topics: int, groups: int, committed: int) -> None:
    """Delete topics in which this many of the groups have committed an offset; all groups have one in another topic."""
    machine = GroupMachine(GroupSettings())
    value = encode_offset_value(1, -1, "", 0, -1, TOPIC_ID.bytes)
    for number in range(groups):
        machine.offsets.replay_commit((f"group-{number}", "kept", 0), decode_offset_value(value))
    for number in range(committed):
        machine.offsets.replay_commit((f"group-{number}", f"topic-{number % topics}", 0), decode_offset_value(value))
    gone = [TopicDelta(TopicImage(f"topic-{number}", TOPIC_ID, {}), None) for number in range(topics)]
    began = time.perf_counter()
    step = machine.metadata_changed(ImageDelta(gone, [], [], []), MetadataImage())
    elapsed_s = time.perf_counter() - began
    assert len(step.records) == committed
    show(f"{topics} topics with {committed} offsets deleted", elapsed_s, 0.0)


def image_of(topics: int, partitions: int) -> MetadataImage:
    image = MetadataImage()
    for topic in range(topics):
        topic_id = UUID(int=topic + 100)
        replay(image, messages.TopicRecord(name=f"topic-{topic}", topic_id=topic_id))
        for index in range(partitions):
            replay(
                image,
                messages.PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1 + index % 3
                ),
            )
    return image


def snapshots(topics: int, partitions: int) -> None:
    image = image_of(topics, partitions)
    content = b"".join(snapshot.write(snapshot.records_of(image), KRaftState(), 1, 0, 0))
    began = time.perf_counter()
    loader = Loader()
    loader.load_snapshot(content, SnapshotId(1_000_000, 1))
    parsed_s = time.perf_counter() - began
    began = time.perf_counter()
    ImageDelta.between(image, loader.image)
    show(f"snapshot of {topics * partitions} partitions fetched", time.perf_counter() - began, parsed_s)
    began = time.perf_counter()
    copy = image.copy()
    show(f"snapshot of {topics * partitions} partitions begun", time.perf_counter() - began, 0.0)
    assert copy.offset == image.offset


def requests(count: int) -> None:
    """Decode requests of the kinds that take longest, with `count` topics, or `count` partitions in topics of 50."""
    topics = [f"topic-{number:05}" for number in range(count)]
    commits, alters, creates = (
        messages.OffsetCommitRequest,
        messages.IncrementalAlterConfigsRequest,
        messages.CreateTopicsRequest,
    )
    commit, config = commits.OffsetCommitRequestPartition, alters.AlterableConfig
    decoded(
        commits(
            group_id="group",
            topics=[
                commits.OffsetCommitRequestTopic(
                    name=name, partitions=[commit(partition_index=index, committed_offset=5) for index in range(50)]
                )
                for name in topics[: count // 50]
            ],
        ),
        9,
    )
    metadata = messages.MetadataRequest
    decoded(metadata(topics=[metadata.MetadataRequestTopic(name=name) for name in topics]), 9)
    decoded(
        creates(
            topics=[creates.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in topics],
        ),
        7,
    )
    decoded(
        alters(
            resources=[
                alters.AlterConfigsResource(
                    resource_type=2, resource_name=name, configs=[config(name="retention.ms", value="1000")]
                )
                for name in topics
            ]
        ),
        1,
    )


def decoded(request: codec.Message, version: int) -> None:
    data = codec.encode(request, version)
    times_s = []
    for _ in range(5):
        began = time.perf_counter()
        codec.decode_request(type(request), version, data)
        times_s.append(time.perf_counter() - began)
    # Other processes can only make it longer.
    show(f"{type(request).__name__}, {len(data) / 1e6:.2f} MB", min(times_s), 0.0)


def show(what: str, loop_s: float, worker_s: float) -> None:
    print(f"{what:44}loop {loop_s * 1000:>9,.1f} ms   worker {worker_s * 1000:>9,.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.studies.loop_costs", description=__doc__)
    parser.add_argument(
        "--directory", default=tempfile.gettempdir(), help="on the disk to measure (default: %(default)s)"
    )
    directory = parser.parse_args().directory
    truncations(directory, 100, 1)
    truncations(directory, 1_000, 1)
    truncations(directory, 1_000, 1_000)
    deleted_topics(1_000, 10_000, 0)
    deleted_topics(1_000, 10_000, 10_000)
    snapshots(1_000, 100)
    requests(20_000)


if __name__ == "__main__":
    main()
