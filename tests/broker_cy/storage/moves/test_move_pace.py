"""Moves of several logs: one after the other, under one throttle, and beside a disk that hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker_cy.storage.disk_workers import DiskWorkers, Workers
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.moves import replica_moves
from broker_cy.storage.moves.move import State
from tests.broker_cy.storage.batches import batch
from tests.broker_cy.storage.managing import TOPIC_ID, HeldJobs
from tests.broker_cy.storage.moves.two_disks import KEY, SMALL, STEPS_MAX, Disks

pytestmark = pytest.mark.usefixtures("small_steps")


def test_moves_wait_for_each_other(tmp_path: Path) -> None:
    """If this fails, a reassignment of a thousand replicas copies all at the same time."""
    disks = Disks(tmp_path)
    disks.append(9)
    manager = disks.manager
    for index in (1, 2):
        manager.create("t", index, TOPIC_ID, SMALL, 0)
        manager.get("t", index).append(batch(0, 1, size=2_000, timestamp=1_000), 1_000)  # type: ignore[union-attr]
    for key, log in list(manager.logs.items()):
        (target,) = (each for each in manager.data_directories if each.path != os.path.dirname(log.directory))
        manager.moves.start(key, log, target)
    most = 0
    for _ in range(STEPS_MAX):
        disks.jobs.run_due()
        most = max(most, sum(move.is_begun and move.state is State.COPYING for move in manager.moves.moves.values()))
        for move in list(manager.moves.moves.values()):
            if move.state is State.REPORTED:
                manager.moves.accepted(move.key, move.target.directory_id)
        disks.jobs.answer()
    assert (most, dict(manager.moves.moves)) == (1, {})


def test_throttle_of_zero_copies_nothing(disks: Disks) -> None:
    """If this fails, moves that an operator has stopped go on; or they stand still when the throttle is removed."""
    disks.append(20)
    moves = disks.manager.moves
    for _ in range(2):
        moves.bytes_per_s = 0
        disks.start()
        for _ in range(20):
            disks.step()
        assert disks.move is not None
        assert (disks.move.future.size_bytes, disks.jobs.due, disks.jobs.held) == (0, [], [])
        # A restart begins the move again.
        assert os.path.isdir(disks.move.future.path)
        moves.cancel(KEY)
        disks.jobs.answer()
        assert [os.path.basename(each) for each in disks.copies()] == ["t-0"]
    disks.start()
    disks.jobs.answer()
    moves.bytes_per_s = float("inf")
    disks.finish()


def test_throttle_holds_for_all_moves_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, two disks get twice the rate that the operator has set; or a new rate waits for the old pauses."""
    monkeypatch.setattr(replica_moves, "STEP_BYTES_MIN", 1)
    disks = Disks(tmp_path)
    manager = disks.manager
    manager.create("t", 1, TOPIC_ID, SMALL, 0)
    manager.moves.copying_max = 2
    manager.moves.bytes_per_s = 600
    for key, log in list(manager.logs.items()):
        log.append(batch(0, 1, size=2_000, timestamp=1_000), 1_000)
        (target,) = (each for each in manager.data_directories if each.path != os.path.dirname(log.directory))
        manager.moves.start(key, log, target)
    for _ in range(2):
        disks.jobs.run_due()
        for _ in range(4):
            disks.jobs.held.pop(0)()
        assert {move.future.size_bytes % 300 for move in manager.moves.moves.values()} == {0}
        assert [delay_ms for delay_ms, _ in disks.jobs.due] == [1_000, 1_000]
    disks.jobs.due.clear()
    manager.moves.bytes_per_s = float("inf")
    assert [delay_ms for delay_ms, _ in disks.jobs.due] == [0, 0]


def test_hanging_source_holds_no_worker_of_the_target(tmp_path: Path) -> None:
    """If this fails, the flushes of a good disk wait for one that hangs, once replicas are moved away from that."""
    disks = Disks(tmp_path)
    disks.append(6)
    by_root = {each.path: HeldJobs() for each in disks.manager.data_directories}
    disks.manager.moves._workers = DiskWorkers(
        Workers(InlineJobs(), InlineJobs()), {path: Workers(each, each) for path, each in by_root.items()}
    )
    source, target = by_root[disks.here], by_root[disks.other]
    disks.start()
    target.run_due()
    assert (len(source.held), len(target.held)) == (1, 0)
    source.held.pop()()
    assert (len(source.held), len(target.held)) == (0, 1)
    target.held.pop()()
    assert disks.move is not None
    assert disks.move.future.size_bytes > 0
