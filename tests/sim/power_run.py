"""One seed of the power cut simulation: a broker, random work on its topics, failing disks, and in between ends of the
process and power losses. The file is long because it is one run: each act and each end needs the records and topics
that the earlier ones may have left.
"""

from __future__ import annotations

import os
import random
from typing import Any
from uuid import UUID

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.operation import Operation
from broker_cy.controller.topic_ops import DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.records import MetadataLogError
from broker_cy.quorum.election_state import QuorumError
from broker_cy.replica.partition import Partition
from broker_cy.storage import checkpoints, damage
from broker_cy.storage.data_directory import CLEAN_SHUTDOWN, DataDirectoryError
from broker_cy.storage.errors import StorageError
from broker_cy.storage.offset_checkpoints import STARTS_ARE_SAVED
from broker_cy.storage.settings import StorageSettings
from broker_cy.storage.syncs import FAILED_MARK, has_failed
from broker_cy.storage.written_points import WRITTEN_POINTS, is_same_boot
from broker_cy.wire import messages
from tests.sim.power_broker import Broker
from tests.sim.power_load import DELETE_RETENTION_MS, Load
from tests.sim.power_model import NEVER, Model
from tests.support.power import Disk, PowerCut

TOPICS = ("plain0", "plain1", "keyed", "txn")
KEYED_POLICIES = (("compact",), ("compact",), ("compact", "delete"), ("delete",))
ENDS = 4
FLUSH_MS = 30
# Reasons why a broker does not start while its disk fails.
START_ERRORS = (OSError, StorageError, DataDirectoryError, MetadataLogError, QuorumError, KafkaError)
# Steps with their relative frequencies.
STEPS = {
    "append": 24,
    "turn": 12,
    "work": 16,
    "tick": 6,
    "roll": 2,
    "delete records": 3,
    "flush": 2,
    "settle": 2,
    "create": 3,
    "delete": 2,
    "timers": 1,
    "break": 2,
    "repair": 2,
}
# In every fourth seed topics are deleted and created again all the time, with files and checkpoints of the lives before
# them left: instead of the weights above.
RECREATING = {"append": 16, "create": 14, "delete": 8, "flush": 5, "settle": 4}
# The weights of runs that do little else, with one topic: a checkpoint of one life must not affect the next one.
ONLY_RECREATING = {**RECREATING, "turn": 14, "work": 20, "delete records": 6, "settle": 6, "tick": 2}


class Topic:
    """The guarantees about a topic: whether it exists, and its log. At most one request for it is in progress."""

    def __init__(self) -> None:
        self.model: Model | None = None
        # Requests whose outcome is not known: "create", "delete".
        self.unknown: set[str] = set()
        self.under_way = False


class Run:
    """One seed: some steps, a power loss or an end of the process, and a start, a few times over."""

    # How often the files are replaced by a copy when the process ends and the power stays.
    restored = 0.1

    def __init__(self, seed: int, root: str, *, opens_late: bool = False, recreates: bool = False) -> None:
        """With `opens_late`, logs are opened after a start, in any order; with `recreates` there is work on one topic
        alone, which is deleted and created again all the time.
        """
        self.draw = random.Random(seed)
        # For when logs are opened: separate draws, which do not affect the others.
        self.late = random.Random(seed + (1 << 32))
        self.opens_late = opens_late
        self.disk = Disk(root, self.draw)
        self.clock = ManualClock(0)
        self.topics = {name: Topic() for name in TOPICS}
        self.load = Load(self.draw, self.clock)
        # Each start of the machine has another boot id.
        self.boot = 0
        self.steps = 0
        self.failures_before = 0
        # Logs that lost their first segments begin again: synced records must survive that, too.
        self.are_replicated = seed % 2 == 1
        self.starts_were_saved = False
        # Draws that came later, separate so that the others stay as they are.
        self.more = random.Random(seed + (2 << 32))
        self.weights = {**STEPS, **RECREATING} if self.more.random() < 0.25 else STEPS
        self.names: tuple[str, ...] = TOPICS
        if recreates:
            self.weights, self.names = ONLY_RECREATING, TOPICS[1:2]
        self.settings = {name: self.some_settings(name) for name in TOPICS}
        self.storage = StorageSettings(
            note_bytes=self.draw.choice([500, 1 << 30]),
            checkpoint_interval_ms=self.draw.choice([40, 1 << 30]),
            retention_check_interval_ms=0,
        )
        self.has_failed = False

    def some_settings(self, name: str) -> dict[str, Any]:
        """Settings for one life of a topic. The first topic has the strongest guarantees."""
        draw = self.draw
        return {
            "segment.bytes": draw.choice([300, 900, 5_000]),
            "index.interval.bytes": draw.choice([0, 150, 4_096]),
            "segment.index.bytes": draw.choice([64, 4_096]),
            "flush.messages": 1 if name == TOPICS[0] else draw.choice([1, 3, NEVER]),
            "flush.ms": draw.choice([FLUSH_MS, NEVER]),
            "file.delete.delay.ms": 0,
            "retention.ms": draw.choice([50, -1]),
            "cleanup.policy": draw.choice(KEYED_POLICIES) if name == "keyed" else ("delete",),
            "min.cleanable.dirty.ratio": 0.0,
            "delete.retention.ms": DELETE_RETENTION_MS,
        }

    # --- lives of the process

    def run(self) -> None:
        for _ in range(ENDS):
            self.one_life(self.draw.choice([1 << 30, 1 << 30, self.draw.randint(1, 80)]))
        with self.disk.installed():
            broker = self.start(None)
            assert broker is not None
            broker.logs.opener.start()
            broker.loop.settle()
            assert not broker.logs.unopened
            broker.crash()

    def one_life(self, syncs: int) -> None:
        """Run from a start to an end. The power is cut at the last of `syncs` syncs, unless the run ends before."""
        broker = None
        cut = False
        with self.disk.installed():
            try:
                broker = self.start(syncs)
                if broker is not None:
                    for _ in range(self.draw.randint(1, 45)):
                        self.step(broker)
                        self.note(broker)
                    if self.draw.random() < 0.25:
                        self.stop(broker)
                        broker = None
            except PowerCut:
                cut = True
                if broker is not None:
                    self.note(broker)
        self.disk.cut_at = -1
        if broker is not None:
            broker.crash()
        self.end(power_lost=cut or self.draw.random() < 0.6)

    def end(self, *, power_lost: bool) -> None:
        """Note that the process has ended, with a power loss or without."""
        for topic in self.topics.values():
            topic.under_way = False
        disk_lost = False
        if power_lost:
            self.disk.cut()
            self.boot += 1
        elif self.draw.random() < self.restored:
            self.disk.restore()
            power_lost = True
        else:
            disk_lost = self.disk.kill(evicts=self.has_unnoted_failure())
            if self.draw.random() < 0.1:
                self.damage()
        for name, topic in self.topics.items():
            if topic.model is not None:
                topic.model.state.power_lost |= power_lost
                topic.model.state.disk_lost |= disk_lost
                topic.model.state.sync_failed |= has_failed(f"{self.disk.root}/{name}-0")
                if disk_lost:
                    topic.model.note_is_synced = False

    def has_unnoted_failure(self) -> bool:
        """Whether a sync and the note of its failure failed: nothing makes the next start write those pages again."""
        return any(not os.path.exists(f"{path}/{FAILED_MARK}") for path in self.disk.directories_with_dropped())

    def damage(self) -> None:
        """Change bytes on the disk in a segment that is not the last one of its log."""
        name = self.draw.choice(TOPICS)
        directory = f"{self.disk.root}/{name}-0"
        model = self.topics[name].model
        if model is None or not os.path.isdir(directory):
            return
        if has_failed(directory) or not is_same_boot(f"{self.disk.root}/{WRITTEN_POINTS}"):
            # The next start assumes that unsynced data is lost, because a sync failed, or because the last start could
            # not note on a failing disk that the machine runs. So it treats damage after the recovery point as a torn
            # write.
            return
        paths = [f"{directory}/{each}" for each in sorted(os.listdir(directory)) if each.endswith(".log")]
        filled = [path for path in paths if os.path.getsize(path)][:-1]
        if not filled:
            return
        # In the header of the first batch, after the fields that no checksum covers.
        self.disk.damage(self.draw.choice(filled), self.draw.randint(21, 58), b"\xee\xee\xee")
        model.damaged = True
        model.note_is_synced = False

    def start(self, syncs: int | None) -> Broker | None:
        """Start a broker and load its logs; the power is cut at the last of `syncs` syncs. The disk may fail during the
        start, unless `syncs` is None; if it does, the result may be None.
        """
        broker = Broker(
            self.disk.root, self.draw, self.clock, self.storage, self.settings, self.check_opened,
            are_replicated=self.are_replicated,
        )  # fmt: skip
        if not self.opens_late:
            broker.logs.opens_late = False
        self.has_failed = False
        if syncs is not None:
            self.disk.cut_at = self.disk.syncs + syncs
            if self.draw.random() < 0.1:
                self.break_disk()
        failing = self.disk.faults.active
        self.starts_were_saved = os.path.exists(f"{self.disk.root}/{STARTS_ARE_SAVED}")
        try:
            try:
                broker.start()
            except START_ERRORS:
                if not failing:
                    raise
                broker.crash()
                return None
            self.disk.faults.end()
            self.check(broker, failing=failing)
        except BaseException:
            broker.crash()
            raise
        return broker

    def check(self, broker: Broker, *, failing: bool) -> None:
        """Check the guarantees from before the start."""
        for name, topic in self.topics.items():
            self.check_topic(name, topic, broker.topic_id(name))
            model, partition = topic.model, broker.partition(name)
            if model is None:
                assert partition is None, f"{name}: there is a partition, but no topic"
                continue
            assert partition is not None, f"{name}: there is a topic, but no partition"
            assert partition.topic_id == model.topic_id
            if not partition.unopened:
                self.check_partition(broker, model, partition, failing=failing)
        if broker.logs.unopened and self.late.random() < 0.2:
            broker.logs.opener.start()

    def check_partition(
        self, broker: Broker, model: Model, partition: Partition, *, failing: bool, is_late: bool = False
    ) -> None:
        if partition.offline is not None:
            if not failing:
                model.accept_offline(partition.offline)
                # The start has synced the note of the damage; if a log is opened later, a worker syncs the note later.
                model.note_is_synced = not is_late
            return
        assert broker.logs.cleaner is not None
        model.now_ms = self.clock.wall_ms()
        cleaned = broker.logs.cleaner.policy.cleaned.get((partition.topic, 0))
        knows_start = self.are_replicated and self.starts_were_saved
        if not model.check(partition.log, partition.high_watermark, cleaned_offset=cleaned, knows_start=knows_start):
            partition.log.mark_offline("a consumer found it damaged")
            # A worker syncs the note of that. If the power is lost before, the next start may take the damage for a
            # torn write.
            model.note_is_synced = False
            broker.loop.settle()
            # A disk that fails just then has no note.
            is_broken = self.disk.faults.active or bool(self.disk.broken)
            model.note_is_synced = not is_broken and os.path.exists(f"{partition.log.directory}/{damage.FILE_NAME}")

    def check_opened(self, broker: Broker, name: str) -> None:
        """Check the guarantees from before the start for a log that was opened after it."""
        model, partition = self.topics[name].model, broker.partition(name)
        if model is not None and partition is not None and partition.topic_id == model.topic_id:
            failing = self.disk.faults.active or bool(self.disk.broken)
            self.check_partition(broker, model, partition, failing=failing, is_late=True)

    def check_topic(self, name: str, topic: Topic, found: UUID | None) -> None:
        """Check what the metadata contain for a topic after a start."""
        before = topic.model.topic_id if topic.model is not None else None
        if found is None:
            assert before is None or "delete" in topic.unknown, f"{name} is gone"
        elif found != before:
            assert "create" in topic.unknown, f"{name} has id {found} instead of {before}"
        if found != before:
            self.begin_life(name, topic, found)
        topic.unknown.clear()

    def begin_life(self, name: str, topic: Topic, topic_id: UUID | None) -> None:
        """Note that the topic is another one, or that there is none."""
        topic.model = Model(topic_id) if topic_id is not None else None
        if topic_id is None:
            self.settings[name] = self.some_settings(name)

    def stop(self, broker: Broker) -> None:
        """Stop cleanly: then everything is on disk, if the stop was marked as clean."""
        broker.stop()
        self.note(broker)
        ends = []
        some_are_offline = some_are_unopened = False
        was_clean = broker.logs.was_clean
        for name, topic in self.topics.items():
            partition = broker.partition(name)
            if topic.model is not None and partition is not None:
                if partition.unopened:
                    # It is on disk, too, as the last start found it or the last clean stop left it.
                    some_are_unopened = True
                    ends.append((topic.model, topic.model.written_end, topic.model.start_floor))
                elif partition.offline is None:
                    ends.append((topic.model, partition.log.log_end_offset, partition.log.log_start_offset))
                else:
                    some_are_offline = True
        broker.close()
        is_marked = os.path.exists(f"{self.disk.root}/{CLEAN_SHUTDOWN}")
        if is_marked or not (self.has_failed or some_are_offline):
            for model, log_end_offset, log_start_offset in ends:
                model.durable_end = log_end_offset
                model.start_floor = log_start_offset
        if not is_marked:
            is_unchecked = some_are_unopened and not was_clean
            assert self.has_failed or some_are_offline or is_unchecked, "a clean stop was not marked as clean"

    # --- steps

    def note(self, broker: Broker) -> None:
        """Take over the broker's state after each step."""
        if self.disk.faults.active:
            self.has_failed = True
        for name, topic in self.topics.items():
            found, partition = broker.topic_id(name), broker.partition(name)
            if found != (topic.model.topic_id if topic.model is not None else None):
                self.begin_life(name, topic, found)
                topic.unknown.clear()
                if topic.model is not None and partition is not None and partition.log is not None:
                    topic.model.began(partition.log)
            if topic.model is not None and partition is not None and partition.log is not None:
                topic.model.note(partition.log, partition.high_watermark)

    def step(self, broker: Broker) -> None:
        self.steps += 1
        self.clock.advance_ms(self.draw.randint(0, 20))
        name = self.draw.choice(self.names)
        (kind,) = self.draw.choices(list(self.weights), list(self.weights.values()))
        if kind == "turn":
            broker.loop.turn()
        elif kind == "work":
            broker.work.one()
        elif kind == "tick":
            if self.draw.random() < 0.7:
                broker.loop.turn()
            broker.tick()
        elif kind == "flush":
            broker.logs.flusher.start()
        elif kind == "settle":
            self.settle(broker)
        elif kind == "timers":
            broker.loop.fire_timers()
        elif kind == "break":
            self.break_disk()
        elif kind == "repair":
            self.disk.faults.end()
        elif kind in ("create", "delete"):
            self.request(broker, name, kind)
        else:
            self.on_partition(broker, name, kind)

    def break_disk(self) -> None:
        self.has_failed = True
        self.disk.faults.begin()

    def on_partition(self, broker: Broker, name: str, kind: str) -> None:
        topic, partition = self.topics[name], broker.partition(name)
        if partition is None:
            self.request(broker, name, "create")
            return
        if partition.unopened:
            if self.late.random() < 0.3:
                broker.logs.opener.ask((name, 0))
            return
        if partition.offline is not None or topic.model is None or topic.model.topic_id != partition.topic_id:
            return
        log = partition.log
        if kind == "append":
            self.load.append(partition, topic.model)
        elif kind == "roll" and log.active.size and not log.staged_batches:
            try:
                log.begin_segment(self.clock.wall_ms())
            except OSError:
                assert self.disk.faults.active
        elif kind == "delete records" and (not log.config.compact or log.config.delete):
            self.delete_records(broker, partition)

    def delete_records(self, broker: Broker, partition: Partition) -> None:
        """Delete records as the handler of DeleteRecords does, also while batches are staged."""
        log = partition.log
        end = max(partition.high_watermark, log.log_start_offset)
        offset = self.draw.randint(log.log_start_offset, end)
        if self.more.random() < 0.3:
            offset = end
        try:
            broker.logs.delete_records_before(log, offset, self.clock.wall_ms())
        except StorageError:
            assert self.disk.faults.active

    def request(self, broker: Broker, name: str, kind: str) -> None:
        """Ask the controller to create or delete a topic, unless a request for that topic is in progress."""
        topic = self.topics[name]
        if topic.under_way:
            return
        operation: Operation[Any]
        if kind == "create":
            created = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            operation = CreateTopics(messages.CreateTopicsRequest(topics=[created]))
        else:
            operation = DeleteTopics([TopicChoice(name, uuids.ZERO)])
        try:
            future: Any = broker.controller.submit(operation)
        except KafkaError as error:
            if error.code != ErrorCode.NOT_CONTROLLER:
                raise
            return
        topic.under_way = True
        topic.unknown.add(kind)
        future.add_done_callback(lambda _: setattr(topic, "under_way", False))

    def settle(self, broker: Broker) -> None:
        """Let everything that is due be done: then the topics with flush.ms are on disk, and log starts are noted."""
        broker.loop.turn()
        self.clock.advance_ms(FLUSH_MS)
        broker.logs.flush_old(self.clock.wall_ms())
        served = [
            (topic.model, partition.log, partition.log.written_end_offset, partition.log.log_start_offset)
            for name, topic in self.topics.items()
            if topic.model is not None
            and (partition := broker.partition(name)) is not None
            and partition.offline is None
            and partition.topic_id == topic.model.topic_id
        ]
        if self.has_failed:
            # A write that failed is repeated only with the next change.
            broker.logs.flusher.write_checkpoints(checkpoints.LOG_START_OFFSETS)
        broker.loop.settle()
        for model, log, end, start in served:
            if log.offline is not None or self.has_failed:
                continue
            model.start_floor = max(model.start_floor, start)
            if log.config.flush_ms == FLUSH_MS:
                model.durable_end = max(model.durable_end, end)
