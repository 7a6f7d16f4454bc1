"""Measurements of disks: one that hangs holds no caller, and no worker of another disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.storage.data_directory import DataDirectory, room
from broker_cy.storage.open_directories import open_directories, open_metadata_directory
from broker_cy.storage.placement import SAMPLE_MS, Placement, PlacementRule
from broker_cy.storage.rooms import WAIT_MS, Rooms
from tests.broker_cy.storage.managing import HeldJobs


class Node:
    """Two data directories `a` and `b`, and `m` with the metadata log."""

    def __init__(self, path: Path) -> None:
        self.a, self.b, self.m = (str(path / name) for name in "abm")
        ids = iter(UUID(int=200 + each) for each in range(9))
        self.directories = open_directories([self.a, self.b], 1, lambda: uuids.to_text(UUID(int=7)), lambda: next(ids))
        self.metadata = open_metadata_directory(self.m, self.directories, lambda: next(ids))
        self.jobs = HeldJobs()
        self.errors: list[str] = []
        self.rooms = Rooms(
            self.directories,
            self.metadata,
            Placement(self.directories, PlacementRule.SPACE),
            self.jobs,
            lambda path, error: self.errors.append(path),
        )
        self.told: list[str] = []

    def end(self, number: int = 0) -> None:
        """The measurement `number` of those that run ends."""
        self.jobs.held.pop(number)()

    def measure(self, name: str) -> None:
        self.rooms.measure(lambda: self.told.append(name))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    for each in (*made.directories, made.metadata):
        each.close()


def test_a_caller_waits_for_all_disks(node: Node) -> None:
    """If this fails, DescribeLogDirs and metrics show no sizes, or old ones."""
    assert node.rooms.of(node.a) is None
    node.measure("first")
    node.end()
    assert node.told == []
    node.end()
    assert node.told == ["first"]
    sizes = node.rooms.known()
    assert list(sizes) == [node.a, node.b]
    assert sizes[node.a][1] == room(node.a)[1] > 0
    # The time of the first measurement ends: nothing happens.
    node.jobs.run_due()
    node.measure("second")
    assert len(node.jobs.held) == 2


def test_a_disk_that_hangs_holds_one_worker_and_no_caller(node: Node) -> None:
    """If this fails, a network disk that does not answer holds each DescribeLogDirs and each scrape, or it takes all
    workers, and no disk is measured.
    """
    node.measure("first")
    while node.jobs.held:
        node.end()
    known = node.rooms.of(node.a)
    node.measure("second")
    node.end(1)
    assert node.told == ["first"], "the disk may answer soon"
    assert {delay_ms for delay_ms, _ in node.jobs.due} == {WAIT_MS}
    node.jobs.run_due()
    assert node.told == ["first", "second"]
    assert node.rooms.of(node.a) == known
    # The next callers do not wait for it again, and it keeps its one worker.
    for name in ("third", "fourth"):
        node.measure(name)
        assert len(node.jobs.held) == 2
        node.end(1)
        assert node.told[-1] == name
    # It answers, and so it is measured like the others.
    node.end()
    node.measure("fifth")
    assert (len(node.jobs.held), node.told[-1]) == (2, "fourth")


def test_a_caller_of_a_disk_that_others_wait_for_gives_up_with_them(node: Node) -> None:
    """If this fails, requests that arrive while a disk hangs are answered only when it answers."""
    node.rooms.tick(SAMPLE_MS)
    node.measure("first")
    node.measure("second")
    assert len(node.jobs.held) == 3
    node.jobs.run_due()
    assert node.told == ["first", "second"]
    node.measure("third")
    assert node.told == ["first", "second", "third"]


def test_a_directory_that_cannot_be_measured_is_told(node: Node) -> None:
    """If this fails, a removed disk has the size of the disk with its mount point, or is not suspected."""
    shutil.rmtree(node.b)
    os.mkdir(node.b)
    node.measure("first")
    while node.jobs.held:
        node.end()
    assert node.told == ["first"]
    assert (node.errors, node.rooms.is_unreadable(node.b), node.rooms.of(node.b)) == ([node.b], True, None)
    assert list(node.rooms.known()) == [node.a]
    node.directories[1].failure = "it died"
    node.measure("second")
    assert len(node.jobs.held) == 1, "a failed disk is left alone"


def test_a_separate_directory_of_the_metadata_log_is_looked_at(node: Node) -> None:
    """If this fails, a node whose metadata.log.dir was removed or unmounted takes part in the quorum until it writes a
    file there, and no start would find its votes and records.
    """
    shutil.rmtree(node.m)
    node.rooms.tick(SAMPLE_MS)
    while node.jobs.held:
        node.end()
    assert node.errors == [node.m]
    assert list(node.rooms.known()) == [node.a, node.b]


def test_a_single_directory_is_not_looked_at(tmp_path: Path) -> None:
    """If this fails, a broker with one disk wakes up every few seconds for a choice that it does not have."""
    directory = DataDirectory(str(tmp_path))
    jobs = HeldJobs()
    rooms = Rooms([directory], directory, Placement([directory], PlacementRule.SPACE), jobs, lambda path, error: None)
    rooms.tick(SAMPLE_MS)
    assert jobs.held == []
