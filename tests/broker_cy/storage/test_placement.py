"""The data directory of a new log."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.uuid import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from broker_cy.storage import directory_failures
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.errors import StorageError
from broker_cy.storage.placement import SAMPLE_MS, Placement, PlacementRule

from .batches import SMALL
from .managing import TOPIC_ID, HeldJobs, open_manager

A, B, C = "/a", "/b", "/c"
TB = 10**12
SEGMENT_BYTES = 10**9


def placement(rule: PlacementRule = PlacementRule.SPACE, **free_bytes: int) -> tuple[Placement, list[DataDirectory]]:
    """Directories with this free space of 1 TB."""
    directories = [DataDirectory(f"/{name}") for name in free_bytes]
    for number, each in enumerate(directories):
        each.directory_id = UUID(int=1_000 + number)
    made = Placement(directories, rule)
    for name, free in free_bytes.items():
        made.measured(f"/{name}", free, TB)
    return made, directories


def placed(made: Placement, count: int, directory_id: UUID = UNASSIGNED_DIRECTORY) -> list[str]:
    """The places of `count` new logs."""
    found = []
    for _ in range(count):
        found.append(made.choices(directory_id)[0])
        made.add(found[-1])
        made.reserve(found[-1], SEGMENT_BYTES)
    return found


def test_the_emptier_disk_gets_the_logs() -> None:
    """If this fails, one disk becomes full although the others have room."""
    made, _ = placement(a=TB // 10, b=TB // 2)
    assert placed(made, 100) == [B] * 100


def test_a_burst_of_logs_is_distributed() -> None:
    """If this fails, all partitions of a new topic are created on the disk that had the most room a moment before."""
    made, _ = placement(a=TB // 2, b=TB // 2 + 200 * SEGMENT_BYTES)
    found = placed(made, 600)
    assert found[:150] == [B] * 150
    assert abs(found.count(B) - found.count(A) - 200) < 60


def test_disks_that_are_equally_full_share_the_logs() -> None:
    """If this fails, a disk with a few bytes more gets all topics of a quiet day, and later all of their load."""
    made, _ = placement(a=TB // 2, b=TB // 2 + TB // 100)
    found = []
    for _ in range(10):
        found += placed(made, 1)
        for path, free in ((A, TB // 2), (B, TB // 2 + TB // 100)):
            made.begin_measure(path)
            made.measured(path, free, TB)
    assert sorted(found) == [A] * 5 + [B] * 5


def test_what_is_created_during_a_measurement_counts() -> None:
    """If this fails, logs that were created while the disks were measured are forgotten."""
    made, _ = placement(a=TB // 2, b=TB // 2)
    made.begin_measure(A)
    for _ in range(200):
        made.reserve(A, SEGMENT_BYTES)
    assert placed(made, 1) == [B]
    made.measured(A, TB // 2, TB)
    made.add(B)
    assert placed(made, 1) == [B]


def test_logs_are_counted_as_in_kafka() -> None:
    """If this fails, an operator who asks for the placement of Kafka gets another one."""
    made, _ = placement(PlacementRule.COUNT, a=TB // 10, b=TB // 2)
    assert placed(made, 4) == [A, B, A, B]
    made.remove(A)
    assert placed(made, 2) == [A, A]


def test_a_disk_that_is_nearly_full_gets_no_logs() -> None:
    """If this fails, the last free bytes of a disk go to partitions that could be elsewhere."""
    made, _ = placement(a=TB // 25, b=TB // 18, c=TB // 25)
    assert placed(made, 100) == [B] * 100
    made, _ = placement(a=TB // 25, b=TB // 26)
    assert sorted(set(placed(made, 100))) == [A, B]


@pytest.mark.parametrize("rule", list(PlacementRule))
def test_cordoned_directories(rule: PlacementRule) -> None:
    """If this fails, an operator cannot empty a disk, or a broker whose disks are all cordoned refuses new topics."""
    made, _ = placement(rule, a=TB // 2, b=TB // 2, c=TB // 2)
    made.is_cordoned = lambda path: path != B
    assert placed(made, 10) == [B] * 10
    made.is_cordoned = lambda path: True
    assert placed(made, 2) == [A, A]


@pytest.mark.parametrize("rule", list(PlacementRule))
def test_directories_that_have_failed(rule: PlacementRule) -> None:
    """If this fails, a new partition is created on a dead disk."""
    made, directories = placement(rule, a=TB // 2, b=TB // 2)
    directories[0].failure = "dead"
    assert placed(made, 2) == [B, B]
    assert made.choices(directories[0].directory_id) == [B]
    directories[1].failure = "dead"
    assert made.choices(UNASSIGNED_DIRECTORY) == []


def test_the_metadata_name_the_directory() -> None:
    """If this fails, a replica whose log was lost, or that is moved here with a directory, is elsewhere than the
    controllers assume: they elect no other leader if that disk fails.
    """
    made, directories = placement(a=TB // 2, b=TB // 100)
    made.is_cordoned = lambda path: True
    assert made.choices(directories[1].directory_id) == [B]
    assert made.choices(LOST_DIRECTORY) == [A]


def test_another_directory_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, topics cannot be created while one disk is full (KAFKA-8526), or the rest of a failed attempt is
    served at the next start.
    """
    paths = tmp_path / "a", tmp_path / "b"
    manager = open_manager(*paths)
    first, second = manager.placement.choices(UNASSIGNED_DIRECTORY)
    right = os.open

    def full(path: str, *arguments: int, **named: int) -> int:
        if str(path).startswith(f"{first}/t-0/") and not str(path).endswith(".index"):
            raise OSError(28, "No space left on device", path)
        return right(path, *arguments, **named)

    monkeypatch.setattr("broker_cy.storage.log_creation.write_topic_id", lambda path, _: full(f"{path}/x", 0))
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StorageError, match=r"cannot create .*t-0"):
        manager.create("t", 0, TOPIC_ID, SMALL, 0, manager.data_directories[paths.index(Path(first))].directory_id)
    monkeypatch.undo()
    monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr(
        "broker_cy.storage.log_creation.write_topic_id",
        lambda path, _: full(f"{path}/x", 0) if path.startswith(first) else None,
    )
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    assert os.path.dirname(log.directory) == second
    assert not os.path.exists(f"{first}/t-0")
    manager.crash()


def test_free_bytes_are_measured_by_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a disk that hangs hangs the broker, or new partitions are placed by what was free at the start."""
    jobs = HeldJobs()
    paths = str(tmp_path / "a"), str(tmp_path / "b")
    manager = open_manager(*paths, jobs=jobs)
    jobs.held.clear()
    free = {paths[0]: TB, paths[1]: TB // 2}
    monkeypatch.setattr(directory_failures, "measure", lambda path: (free[path], TB))
    manager.rooms.tick(SAMPLE_MS)
    assert len(jobs.held) == 2
    free[paths[0]] = 0
    # Each disk has a measurement of its own, and one at a time.
    manager.rooms.tick(2 * SAMPLE_MS)
    assert len(jobs.held) == 2
    jobs.held.pop(0)()
    assert manager.placement.choices(UNASSIGNED_DIRECTORY)[0] == paths[1]
    manager.rooms.tick(3 * SAMPLE_MS)
    assert len(jobs.held) == 2
    manager.crash()
