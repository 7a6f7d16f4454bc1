"""Partitions of the broker itself (broker_cy.replica.partition) on logs in a directory in memory, without a server.

`crash` ends the process: the written records exist afterwards, recovered as a start does it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from broker_cy.coordinator.step import Record as CoordinatorRecord
from broker_cy.core.clock import ManualClock
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition import Partition
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch
from tests.broker_cy.storage.managing import Manager, open_manager
from tests.sim.power_loop import Loop, Work

Place = tuple[str, int]
MEMORY = Path("/dev/shm")
# Small, so that transactions and producers extend over several segments.
CONFIG = LogConfig(segment_bytes=16_384)
READ_BYTES = 1 << 20


@contextmanager
def new_directory() -> Iterator[str]:
    """A directory, in memory if possible: these tests are not about disks."""
    with tempfile.TemporaryDirectory(prefix="sim-", dir=MEMORY if MEMORY.is_dir() else None) as root:
        yield root


class Partitions:
    """`topics` has the number of partitions of each topic."""

    def __init__(self, root: str, topics: Mapping[str, int]) -> None:
        self.root = root
        self.leader_epoch = 0
        self._open()
        for number, (topic, count) in enumerate(topics.items()):
            for index in range(count):
                self.manager.create(topic, index, UUID(int=number + 1), CONFIG, 0)
        self._serve()

    def _open(self) -> None:
        self.loop = Loop(Work(random.Random(0)))
        self.group = FlushGroup(self.loop, ManualClock())  # type: ignore[arg-type]
        # As by default in the broker: a transactional batch has to be verified by the coordinator.
        self.group.verifies = True
        self.manager: Manager = open_manager(self.root, config=CONFIG)

    def _serve(self) -> None:
        self.leader_epoch += 1
        self.partitions = {
            place: Partition(self.group, *place, UUID(int=1), log, self.leader_epoch)
            for place, log in self.manager.logs.items()
        }

    def __getitem__(self, place: Place) -> Partition:
        return self.partitions[place]

    def crash(self) -> None:
        """End the process as kill -9 does, and start again."""
        self.manager.crash()
        self._open()
        assert not self.manager.offline, self.manager.offline
        self._serve()

    def close(self) -> None:
        self.manager.crash()

    def elect(self, place: Place) -> None:
        """Let the partition be led in the next epoch."""
        self.leader_epoch += 1
        self[place].lead(self.leader_epoch)

    def turn(self) -> None:
        """End a turn of the loop, which writes the staged batches."""
        self.loop.turn()

    def append(self, place: Place, new: Iterable[CoordinatorRecord], now_ms: int) -> None:
        """Write a coordinator's records."""
        batch = encode_batch([Record(timestamp=now_ms, key=key, value=value) for key, value in new])
        self[place].append_records(batch, now_ms)
        self.turn()

    def batches(self, place: Place, start: int = 0) -> Iterator[Batch]:
        """The batches of the log from an offset on."""
        log = self[place].log
        assert log is not None
        while start < log.written_end_offset:
            part = log.read_slice(start, None, READ_BYTES, True)
            assert part is not None, f"{place} has nothing at offset {start}"
            for batch in decode_batches(part.read()):
                yield batch
                start = batch.last_offset + 1

    def records(self, place: Place) -> list[CoordinatorRecord]:
        """A coordinator's records, as a start finds them."""
        found = []
        for batch in self.batches(place):
            for record in batch.records():
                assert record.key is not None
                found.append(CoordinatorRecord(record.key, record.value))
        return found
