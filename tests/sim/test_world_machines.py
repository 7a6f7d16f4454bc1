"""The machines of the simulated world: their clocks are set together, and their disks fail alone."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from broker_cy.storage import disk as system
from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from tests.broker_cy.storage.batches import batch
from tests.sim.world import disks
from tests.sim.world.clock import EPOCH_MS
from tests.sim.world.disk_array import DiskArray, State
from tests.sim.world.faults import begin, end_all
from tests.sim.world.plan import CLUSTER, EVERYTHING, Fault, plan_of
from tests.sim.world.world import World
from tests.support import needs
from tests.support.disk_faults import UNLIMITED, WRITE
from tests.support.power import Disk

pytestmark = needs.memory


def test_the_clocks_of_a_cluster_are_set_alike_after_the_faults(tmp_path: Path) -> None:
    """If this fails, a transaction that a node with a fast clock began lasts longer by the difference if another node
    coordinates it later. If no client ends it, it is still open when everything should have been read.
    """
    for profile in (CLUSTER, EVERYTHING):
        (tmp_path / profile).mkdir()
        world = World(replace(plan_of(9, profile), faults=()), str(tmp_path / profile))
        machines = list(world.machines.values())
        for machine in machines:
            machine.stays_down = True
        first, *others = machines
        for ahead_ms in (60_000, -200_000):
            begin(world, Fault(0, "set_clock", first.host, amount=ahead_ms))
        end_all(world)
        assert len(others) >= 1
        assert first.clock.given.wall_ms() == EPOCH_MS + 60_000
        expected_ms = EPOCH_MS + (60_000 if profile == CLUSTER else 0)
        assert {machine.clock.given.wall_ms() for machine in others} == {expected_ms}
        world._close()


def test_the_disk_of_one_machine_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, worlds with several machines have no failing disks, or the disk of one breaks those of others."""
    logs, machines = [], []
    for name in ("broken", "whole"):
        (tmp_path / name / "t-0").mkdir(parents=True)
        machines.append(Disk(str(tmp_path / name), random.Random(1)))
        logs.append(Log.create(str(tmp_path / name / "t-0"), "t", 0, LogConfig(), 0))
    broken = machines[0]

    def begin() -> None:
        broken.faults.errors, broken.faults.chance = {WRITE: errno.EIO}, 1.0
        system.set_write_budget(100, errno.EIO)

    monkeypatch.setattr(broken.faults, "begin", begin)

    def append(at: int) -> int:
        with disks.use(machines[at]):
            logs[at].append(batch(logs[at].log_end_offset), 5)
        return logs[at].log_end_offset

    with disks.installed():
        disks.break_down(broken)
        assert [append(1) for _ in range(5)] == [1, 2, 3, 4, 5]
        assert append(0) == 1
        with pytest.raises(StorageError, match="Input/output error"):
            append(0)
        assert append(1) == 6
        disks.repair(broken)
        assert append(0) == 2
    assert system.set_write_budget(*UNLIMITED) == UNLIMITED


def test_one_of_several_disks_fails_alone(tmp_path: Path) -> None:
    """If this fails, worlds with several disks have none that fails by itself, or one of them breaks the others."""
    paths = [str(tmp_path / name) for name in ("first", "second", "metadata")]
    for path in paths:
        os.mkdir(path)
    array = DiskArray(str(tmp_path), paths[:2], paths[2], random.Random(1))
    first = array.at(paths[0])
    reasons = {
        State.GOOD: None,
        State.DEAD: errno.EIO,
        State.READ_ONLY: errno.EROFS,
        State.FULL: errno.ENOSPC,
        State.GONE: errno.EIO,
    }

    def outcome(log: Log) -> int | None:
        """The error of a write in C; None if it succeeds."""
        try:
            log.append(batch(log.log_end_offset), 5)
        except StorageError as error:
            return errno_of(error)
        return None

    with disks.installed(has_arrays=True), disks.use(array):
        for number, (state, reason) in enumerate(reasons.items()):
            first.become(State.GOOD)
            logs = []
            for path in paths:
                os.mkdir(f"{path}/t-{number}")
                logs.append(Log.create(f"{path}/t-{number}", "t", number, LogConfig(), 0))
            first.become(state)
            assert [outcome(log) for log in logs] == [reason, None, None], state
        array.end_process(loses_power=False, is_synced=False)
        with pytest.raises(FileNotFoundError):
            os.listdir(paths[0])
        assert len(os.listdir(paths[1])) == len(reasons)
        disks.repair(array)
        assert os.listdir(paths[0])
