"""One seed of the power cut simulation: a log manager with its cleaner, partitions and their group commit, random work
on them, and ends of the process and of the power in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from broker_cy.replica.group_commit import GroupCommit
from broker_cy.replica.partition import FlushGroup, Partition
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import StorageSettings
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.storage.batches import batch
from tests.broker_cy.storage.managing import Manager, open_manager
from tests.sim.power_model import NEVER, Batch, Model
from tests.support.power import Disk, PowerCut

T = TypeVar("T")
TOPICS = 3
ENDS = 3
KEYS = (b"a", b"b", b"c", b"d")
DELETE_RETENTION_MS = 60
FLUSH_MS = 30


class Work(InlineJobs):
    """Workers that take their time: what they were given is done when the run says so, in any order."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.draw = draw
        self.held: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self.held.append(lambda: super(Work, self).run(work, done))

    def one(self) -> None:
        """Do something that waits, if anything does."""
        if self.held:
            self.held.pop(self.draw.randrange(len(self.held)))()
        elif self.due:
            self.due.pop(0)[1]()

    def all(self) -> None:
        """Everything, and what follows from it."""
        while self.held or self.due:
            self.one()


class Future:
    """What an append is answered by."""

    def __init__(self) -> None:
        self.result: int | None = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: int) -> None:
        self.result = result

    def set_exception(self, error: BaseException) -> None:
        raise error


class Loop:
    """A turn of it ends when the run says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], Any]] = []

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self.soon.append(callback)

    def create_future(self) -> Future:
        return Future()

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class Broker:
    """What of a broker this is about, from a start to the end of its process."""

    def __init__(self, path: str, run: Run) -> None:
        self.work = Work(run.draw)
        self.loop = Loop()
        self.group = FlushGroup(self.loop)  # type: ignore[arg-type]
        self.group.commit = GroupCommit(self.group, self.work, 2)
        self.partitions: dict[int, Partition] = {}
        self.logs: Manager = open_manager(path, settings=run.settings, now_ms=run.now_ms, load=False, jobs=self.work)
        self.logs.cleaner = LogCleaner(
            self.logs.logs,
            [path],
            CleanerSettings(backoff_ms=0, io_buffer_bytes=1024),
            self.work,
            self.logs.removal.files,
        )

    def serve(self, number: int, leader_epoch: int) -> Partition:
        log = self.logs.get(f"t{number}", 0)
        assert log is not None
        partition = Partition(self.group, f"t{number}", 0, UUID(int=number + 1), log, leader_epoch)
        self.partitions[number] = partition
        return partition

    def high_watermark(self, topic: str, _: int) -> int:
        return self.partitions[int(topic[1:])].high_watermark


class Run:
    """One seed: some operations, an end of the power or of the process, a start; a few times."""

    def __init__(self, seed: int, root: str) -> None:
        self.draw = random.Random(seed)
        self.disk = Disk(root, self.draw)
        self.models: dict[int, Model] = {}
        self.now_ms = 0
        self.start_number = 0
        # Another start of the machine has another boot id.
        self.boot = 0
        self.steps = 0
        self.sequences: dict[int, int] = {}
        self.configs = [self.some_config(number) for number in range(TOPICS)]
        self.settings = StorageSettings(
            note_bytes=self.draw.choice([500, 1 << 30]),
            checkpoint_interval_ms=self.draw.choice([40, 1 << 30]),
            retention_check_interval_ms=0,
        )

    def some_config(self, number: int) -> LogConfig:
        """The first topic promises most; the last one is compacted."""
        flush_messages = 1 if number == 0 else self.draw.choice([1, 3, NEVER])
        return LogConfig(
            segment_bytes=self.draw.choice([300, 900, 5_000]),
            index_interval_bytes=self.draw.choice([0, 150, 4_096]),
            segment_index_bytes=self.draw.choice([64, 4_096]),
            flush_messages=flush_messages,
            flush_ms=self.draw.choice([FLUSH_MS, NEVER]),
            file_delete_delay_ms=0,
            retention_ms=self.draw.choice([50, -1]),
            cleanup_policy=(self.draw.choice([("compact",), ("compact",), ("compact", "delete")]))
            if number == TOPICS - 1
            else ("delete",),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=DELETE_RETENTION_MS,
        )

    def run(self) -> None:
        power_lost = True
        for _ in range(ENDS):
            broker = None
            cut = False
            with self.disk.installed():
                try:
                    broker = self.start(power_lost, self.draw.choice([1 << 30, self.draw.randint(1, 60)]))
                    for _ in range(self.draw.randint(1, 30)):
                        self.step(broker)
                        self.note(broker)
                    if self.draw.random() < 0.2:
                        self.stop(broker)
                        broker = None
                except PowerCut:
                    cut = True
                    if broker is not None:
                        self.note(broker)
            self.disk.cut_at = -1
            if broker is not None:
                broker.logs.crash()
            power_lost = cut or self.draw.random() < 0.7
            if power_lost:
                self.disk.cut()
                self.boot += 1
        with self.disk.installed():
            self.start(power_lost, 1 << 30).logs.crash()

    def start(self, power_lost: bool, syncs: int) -> Broker:
        """A broker that has loaded its logs; with the last of so many syncs the power is cut."""
        self.start_number += 1
        broker = Broker(self.disk.root, self)
        self.disk.cut_at = self.disk.syncs + syncs
        try:
            broker.logs.load(lambda topic: self.configs[int(topic[1:])], self.now_ms)
            assert broker.logs.cleaner is not None
            for number, model in list(self.models.items()):
                key = (f"t{number}", 0)
                assert key not in broker.logs.offline, broker.logs.offline
                log = broker.logs.get(*key)
                if log is None:
                    model.gone(key[0])
                    del self.models[number]
                    continue
                model.now_ms = self.now_ms
                model.check(log, power_lost=power_lost, cleaned_offset=broker.logs.cleaner.policy.cleaned.get(key))
                broker.serve(number, self.start_number)
        except BaseException:
            broker.logs.crash()
            raise
        return broker

    def stop(self, broker: Broker) -> None:
        """A clean stop: all is on the disk then."""
        broker.loop.turn()
        if broker.logs.cleaner is not None:
            broker.logs.cleaner.stop()
        broker.work.all()
        self.note(broker)
        broker.logs.close(broker.high_watermark)
        for number, partition in broker.partitions.items():
            self.models[number].durable_end = partition.log.log_end_offset
            self.models[number].start_floor = partition.log.log_start_offset

    def note(self, broker: Broker) -> None:
        for number, partition in broker.partitions.items():
            self.models[number].note(partition.log, partition.high_watermark)

    def step(self, broker: Broker) -> None:
        self.steps += 1
        self.now_ms += self.draw.randint(0, 20)
        number = self.draw.randrange(TOPICS)
        partition = broker.partitions.get(number)
        if partition is None:
            log = broker.logs.create(f"t{number}", 0, UUID(int=number + 1), self.configs[number], self.now_ms)
            self.models[number] = Model(log)
            partition = broker.serve(number, self.start_number)
        log = partition.log
        steps = ["append", "turn", "work", "tick", "roll", "delete", "flush", "settle"]
        kind = self.draw.choices(steps, [12, 6, 8, 3, 1, 1, 1, 1])[0]
        if kind == "append":
            self.append(partition, self.models[number])
        elif kind == "turn":
            broker.loop.turn()
        elif kind == "work":
            broker.work.one()
        elif kind == "tick":
            broker.loop.turn()
            broker.logs.tick(self.now_ms, broker.high_watermark)
        elif kind == "roll" and log.active.size and not log.staged_batches:
            log.begin_segment(self.now_ms)
        elif kind == "delete" and (not log.config.compact or log.config.delete):
            broker.loop.turn()
            offset = self.draw.randint(log.log_start_offset, max(partition.high_watermark, log.log_start_offset))
            broker.logs.delete_records_before(log, offset, self.now_ms)
        elif kind == "flush":
            broker.logs.flusher.start()
        elif kind == "settle":
            self.settle(broker)

    def settle(self, broker: Broker) -> None:
        """Time for everything that is due: then the topics with flush.ms are on the disk, and log starts are noted."""
        broker.loop.turn()
        self.now_ms += FLUSH_MS
        broker.logs.flush_old(self.now_ms)
        ends = {number: partition.log.written_end_offset for number, partition in broker.partitions.items()}
        starts = {number: partition.log.log_start_offset for number, partition in broker.partitions.items()}
        broker.work.all()
        for number, model in self.models.items():
            model.start_floor = max(model.start_floor, starts[number])
            if self.configs[number].flush_ms == FLUSH_MS:
                model.durable_end = max(model.durable_end, ends[number])

    def append(self, partition: Partition, model: Model) -> None:
        for _ in range(self.draw.randint(1, 3)):
            if partition.log.config.compact:
                written = self.keyed(partition)
            else:
                written = self.plain(partition)
            model.batches.append(written)
            partition.append_records(written.data, self.now_ms)

    def plain(self, partition: Partition) -> Batch:
        base, count = partition.log.log_end_offset, self.draw.randint(1, 3)
        producer = self.draw.choice([-1, 5])
        number = int(partition.topic[1:])
        sequence = self.sequences.get(number, 0)
        data = batch(
            base,
            count,
            timestamp=self.now_ms,
            leader_epoch=partition.leader_epoch,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            sequence=sequence if producer >= 0 else -1,
            payload=self.draw.randbytes(self.draw.randint(0, 250)),
        )
        if producer >= 0:
            self.sequences[number] = sequence + count
        return Batch(base, base + count - 1, data, self.now_ms)

    def keyed(self, partition: Partition) -> Batch:
        base = partition.log.log_end_offset
        records = tuple(
            (base + at, self.draw.choice(KEYS), self.draw.choice([None, b"%d" % base, b"%d" % base + b"v" * 40]))
            for at in range(self.draw.randint(1, 3))
        )
        data = encode_batch(
            [Record(timestamp=self.now_ms, key=key, value=value) for _, key, value in records],
            base_offset=base,
            leader_epoch=partition.leader_epoch,
        )
        return Batch(base, base + len(records) - 1, data, self.now_ms, records)
