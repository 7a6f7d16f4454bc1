"""Logs through power cuts, in a seeded simulation: what was synced is there, and nothing wrong is read.

`POWER_SEEDS=5000 python -m pytest tests/sim/test_power_cut.py` runs more; a failing seed is printed with the command
that replays it.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.storage import written_points
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import StorageSettings
from tests.broker_cy.storage.batches import batch, split
from tests.broker_cy.storage.managing import Manager, open_manager
from tests.support.power import Disk, PowerCut

SEEDS = int(os.environ.get("POWER_SEEDS", "200"))
SOAK_SEEDS = int(os.environ.get("POWER_SEEDS", "5000"))
FIRST_SEED = int(os.environ.get("POWER_FIRST_SEED", "0"))
MEMORY = "/dev/shm"
CUTS = 3


class Model:
    """What was written to a partition, and what of it has to be there."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.durable_end = 0
        # Records before it may be gone.
        self.deleted_before = 0

    def lose_from(self, offset: int) -> None:
        self.batches = [found for found in self.batches if found[1] < offset]
        self.durable_end = min(self.durable_end, offset)


class Run:
    """One seed: some operations, a power cut, a start; a few times."""

    def __init__(self, seed: int, root: str) -> None:
        self.draw = random.Random(seed)
        self.root = root
        self.models: dict[int, Model] = {}
        self.now_ms = 0
        self.boot = 0
        self.sequences: dict[tuple[int, int], int] = {}
        self.configs = [
            LogConfig(
                segment_bytes=self.draw.choice([300, 900, 5_000]),
                index_interval_bytes=self.draw.choice([0, 150, 4_096]),
                segment_index_bytes=self.draw.choice([64, 4_096]),
                flush_messages=flush_messages,
                file_delete_delay_ms=0,
                retention_ms=self.draw.choice([50, -1]),
            )
            for flush_messages in (1, 3, (1 << 63) - 1)
        ]
        self.settings = StorageSettings(note_bytes=self.draw.choice([500, 1 << 30]), checkpoint_interval_ms=40)

    def run(self) -> None:
        path = f"{self.root}/0"
        os.mkdir(path)
        for number in range(1, CUTS + 1):
            disk = Disk(path, self.draw)
            # What the cut before left is on the disk.
            disk.sync_all(path)
            disk.cut_at = disk.syncs + self.draw.choice([1 << 30, self.draw.randint(1, 60)])
            manager: Manager | None = None
            self.boot = number
            with disk.installed():
                try:
                    manager = self.start(path)
                    for _ in range(self.draw.randint(1, 30)):
                        self.step(manager)
                except PowerCut:
                    pass
            path = f"{self.root}/{number}"
            disk.cut(path)
            if manager is not None:
                manager.crash()
        self.boot = CUTS + 1
        self.start(path).crash()

    def start(self, path: str) -> Manager:
        manager = open_manager(path, settings=self.settings, now_ms=self.now_ms, load=False)
        try:
            manager.load(lambda topic: self.configs[int(topic[1:])], self.now_ms)
            for number, model in self.models.items():
                assert (f"t{number}", 0) not in manager.offline, manager.offline
                log = manager.get(f"t{number}", 0)
                if log is None:
                    assert model.durable_end == 0, f"t{number} is gone; {model.durable_end} records were acknowledged"
                    model.lose_from(0)
                    model.deleted_before = 0
                else:
                    self.check(log, model)
        except BaseException:
            manager.crash()
            raise
        return manager

    def check(self, log: Log, model: Model) -> None:
        name = log.topic
        if log.config.flush_messages == 1:
            # Elsewhere the recovery point passes records that were deleted before they were synced.
            assert log.log_end_offset >= model.durable_end, f"{name}: offsets are used again from {log}"
        model.lose_from(log.log_end_offset)
        found = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            part = log.read_slice(offset)
            if part is None:
                # Of files that were never synced a later, empty one may be there and an earlier one not.
                break
            batches = split(part.read())
            found += batches
            offset = batches[-1][1] + 1
        assert set(found) <= set(model.batches), f"{name}: other records than were written: {log}"
        due = [one for one in model.batches if model.deleted_before <= one[1] < model.durable_end]
        lost = [one[0] for one in due if one not in set(found)]
        assert not lost, f"{name}: acknowledged records are gone: {lost}, {log}"
        assert found == sorted(found), f"{name}: records out of order"
        model.batches = found

    def step(self, manager: Manager) -> None:
        self.now_ms += self.draw.randint(0, 20)
        number = self.draw.randrange(3)
        log = manager.get(f"t{number}", 0)
        if log is None:
            model = self.models[number] = Model()
            log = manager.create(f"t{number}", 0, UUID(int=number + 1), self.configs[number], self.now_ms)
        model = self.models[number]
        kind = self.draw.choices(["append", "tick", "roll", "delete", "flush", "jobs"], [12, 2, 1, 1, 1, 2])[0]
        if kind == "append":
            self.append(log, model)
        elif kind == "tick":
            # What is deleted by retention may be gone or not, from before the deletion on.
            for other, known in self.models.items():
                other_log = manager.get(f"t{other}", 0)
                if other_log is not None and self.configs[other].retention_ms >= 0:
                    known.deleted_before = other_log.log_end_offset
            manager.apply_retention(self.now_ms, lambda topic, _: manager.logs[topic, 0].written_end_offset)
            manager.tick(self.now_ms, lambda topic, _: manager.logs[topic, 0].written_end_offset)
        elif kind == "roll" and log.active.size:
            log.begin_segment(self.now_ms)
        elif kind == "delete":
            offset = self.draw.randint(log.log_start_offset, log.log_end_offset)
            model.deleted_before = max(model.deleted_before, offset)
            manager.delete_records_before(log, offset, self.now_ms)
        elif kind == "flush":
            manager.flusher.start()
        elif kind == "jobs":
            manager.jobs.run_due()
        for other, known in self.models.items():
            other_log = manager.get(f"t{other}", 0)
            if other_log is not None:
                known.durable_end = max(known.durable_end, other_log.recovery_point)

    def append(self, log: Log, model: Model) -> None:
        for _ in range(self.draw.randint(1, 4)):
            base, count = log.log_end_offset, self.draw.randint(1, 3)
            producer = self.draw.choice([-1, 5])
            key = (int(log.topic[1:]), producer)
            sequence = self.sequences.get(key, 0)
            data = batch(
                base,
                count,
                size=self.draw.randint(0, 250),
                timestamp=self.now_ms,
                leader_epoch=self.boot,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                sequence=sequence if producer >= 0 else -1,
                payload=self.draw.randbytes(self.draw.randint(0, 250)),
            )
            self.sequences[key] = sequence + count
            model.batches.append((base, base + count - 1, data))
            log.append(data, self.now_ms)
            if log.config.flush_messages == 1:
                model.durable_end = max(model.durable_end, log.log_end_offset)
            # Below flush.messages what was synced last is what counts.
            model.durable_end = max(model.durable_end, log.synced_end_offset)


def run_seeds(first: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-") as root:
            run = Run(seed, root)
            # Another start of the machine has another boot id: notes of the page cache are void.
            monkeypatch.setattr(written_points, "boot_id", lambda run=run: b"boot-%d" % run.boot)
            try:
                run.run()
            except Exception as error:
                error.add_note(
                    f"replay: POWER_FIRST_SEED={seed} POWER_SEEDS=1 python -m pytest tests/sim/test_power_cut.py"
                )
                raise


needs_memory = pytest.mark.skipif(not os.path.isdir(MEMORY), reason="no directory in memory: every sync would be real")


@needs_memory
def test_what_was_synced_survives_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records acknowledged under flush.messages are gone after a power cut, or a consumer reads what nobody wrote."""
    run_seeds(FIRST_SEED, SEEDS, monkeypatch)


@needs_memory
@pytest.mark.soak
def test_what_was_synced_survives_many_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for the rare ones."""
    run_seeds(FIRST_SEED, SOAK_SEEDS, monkeypatch)


@needs_memory
def test_the_simulation_finds_a_sync_that_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation passes whatever storage does."""
    from broker_cy.storage.sync_job import SyncJob

    monkeypatch.setattr(SyncJob, "run", lambda job: job)
    with pytest.raises(AssertionError, match=r"t\d"):
        run_seeds(0, 50, monkeypatch)
