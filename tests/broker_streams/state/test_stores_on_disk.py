"""Stores on disk beside stores in memory: random calls, restarts, and instances that are gone at some step."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_streams.kernel.stores.bound import to_timestamped
from broker_streams.kernel.stores.maps import Numbers
from broker_streams.state.directory import StateDirectory
from broker_streams.state.disk_map import DiskMap, DiskMaps
from broker_streams.state.file import TaskFile
from broker_streams.state.stamp import Log, Place, Stamp
from broker_streams.state.task_state import TaskState
from tests.broker_streams.kernel.stores.scripts import STORES, Json, Ours, our_answer, request, store_of

# A cache forgets its rows at a restart, and so it passes changes on in another order.
NAMES = [name for name, store in STORES.items() if store.get("persistent", True) and not store.get("caching")]
Logged = tuple[bytes, bytes | None, int]


class OnDisk:
    """The store of a request on disk, and its changelog."""

    def __init__(self, root: Path, asked: Json, draw: random.Random) -> None:
        self.asked, self.draw = asked, draw
        self.plan = store_of(asked)
        self.root = StateDirectory(root, "app")
        self.changelog: list[Logged] = []
        self.token = ""
        self.restored = 0
        self.open()

    def open(self, token: str | None = None) -> None:
        """Begin as an instance does that gets the task."""
        size = self.draw.choice([0, 2_000, 1 << 20])
        self.state = TaskState.open(
            self.root.lock("0_0"), [self.plan], lambda: 0, buffer_bytes=size, map_bytes=1 << 17, token=token
        )
        end = len(self.changelog)
        self.state.fit({"rows": Log(0, end)})
        self.ours = Ours(self.asked, self.state.open_maps)
        at = self.state.places.get("rows", Place(0)).offset
        while at < end:
            part = self.changelog[at : at + self.draw.choice([1, 5, 1000])]
            self._restore(part)
            at += len(part)
            self.restored += len(part)
            self.state.restored({"rows": Place(at)})
            self.state.finish()
        if self.draw.random() < 0.5:
            self.state.restored({"rows": Place(end)}, is_last=True)
        elif self.draw.random() < 0.5:
            self.state.merge_runs()
        self.state.finish()

    def _restore(self, part: list[Logged]) -> None:
        """Records of the changelog, one by one, or as rows where the store takes them."""
        store = self.ours.opened.store
        if hasattr(store, "restore_rows") and self.draw.random() < 0.7:
            if store.restores_timestamps:
                store.restore_rows({key: to_timestamped(value, timestamp) for key, value, timestamp in part})
            else:
                store.restore_rows({key: value for key, value, _ in part})
        else:
            for key, value, timestamp in part:
                store.restore(key, value, timestamp)

    def batch(self, calls: Json) -> tuple[Json, list[Logged]]:
        found = self.ours.batch(calls)
        return found["results"], [
            (bytes.fromhex(key), None if value is None else bytes.fromhex(value), at) for key, value, at in found["log"]
        ]


def run(root: Path, name: str, seed: int) -> OnDisk:
    """All batches of a request, as a host commits them: each may be lost, and processed again by another instance."""
    draw = random.Random(f"{name} {seed}")
    asked = request(name)
    expected = our_answer(asked)["batches"]
    disk = OnDisk(root, asked, draw)
    for number, (calls, answer) in enumerate(zip(asked["batches"], expected, strict=True)):
        while True:
            results, changes = disk.batch(calls)
            assert results == answer["results"], f"batch {number}"
            disk.state.seal()
            if draw.random() < 0.75:
                break
            # The commit fails, or the instance is gone before it.
            disk.state.close(discard=draw.random() < 0.5)
            disk.open()
        disk.changelog += changes
        if draw.random() < 0.2:
            # The commit succeeded, and the instance was gone before it heard of it.
            disk.state.close(discard=True)
            disk.open()
            continue
        disk.state.committed({"rows": Place(len(disk.changelog))})
        # The write goes on, in parts, while the next records are processed.
        for _ in range(draw.randrange(4)):
            disk.state.step()
        if draw.random() < 0.4:
            disk.state.close(discard=draw.random() < 0.5, sync=draw.random() < 0.2)
            disk.open()
    disk.state.close()
    return disk


def run_prepared(root: Path, name: str, seed: int) -> None:
    """The same for a host that writes files before its batches are committed."""
    draw = random.Random(f"{name} {seed}")
    asked = request(name)
    expected = our_answer(asked)["batches"]
    disk = OnDisk(root, asked, draw)
    for number, (calls, answer) in enumerate(zip(asked["batches"], expected, strict=True)):
        while True:
            results, changes = disk.batch(calls)
            assert results == answer["results"], f"batch {number}"
            token = f"batch {number}"
            disk.state.prepare({"rows": Place(len(disk.changelog) + len(changes))}, token)
            is_committed = draw.random() < 0.6
            if is_committed:
                disk.changelog += changes
                disk.token = token
            disk.state.close(discard=True)
            before = disk.restored
            disk.open(disk.token)
            # The file is continued without a look at the changelog.
            assert disk.restored == before
            if is_committed:
                break
    disk.state.close()


# As in Kafka, a restored deletion of duplicates counts for the stream time, and one of a running store does not.
@pytest.mark.parametrize("name", [name for name in NAMES if "duplicates" not in name])
def test_a_store_on_disk_answers_as_one_in_memory(place: Path, name: str) -> None:
    """If this fails, state that outlives an instance has other rows, or a commit that failed has left its rows."""
    run(place, name, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_kept_or_taken_back_by_its_token(place: Path, name: str) -> None:
    """If this fails, a task goes on with the rows of an aborted batch, or without those of a committed one."""
    run_prepared(place, name, 1)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_stores_on_disk_with_other_crashes(place: Path, name: str) -> None:
    """The same, for rare moments."""
    for seed in range(2, 40):
        if "duplicates" not in name:
            run(place / f"a{seed}", name, seed)
        run_prepared(place / f"b{seed}", name, seed)


def without_undo(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskFile, "undo", TaskFile.confirm)


def always_undo(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskFile, "confirm", TaskFile.undo)


def written_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    seal = TaskState.seal

    def written(self: TaskState) -> None:
        seal(self)
        if self._sealed is not None and self._steps is None:
            self._steps = self._write(self._sealed)
        self.finish()

    patch.setattr(TaskState, "seal", written)


def without_numbers(patch: pytest.MonkeyPatch) -> None:
    def forgets(self: DiskMaps, name: str, read: Callable[[], Numbers]) -> None:
        return None

    patch.setattr(DiskMaps, "numbers", forgets)


def stamped_too_far(patch: pytest.MonkeyPatch) -> None:
    committed = TaskState.committed

    def further(self: TaskState, places: Any) -> None:
        committed(self, places)
        self.finish()
        self.file.write([], Stamp(self.places))

    patch.setattr(TaskState, "committed", further)


def deletions_forgotten(patch: pytest.MonkeyPatch) -> None:
    freeze = DiskMap.freeze

    def forgets(self: DiskMap) -> Any:
        change = freeze(self)
        return change and change._replace(rows={key: value for key, value in change.rows.items() if value is not None})

    patch.setattr(DiskMap, "freeze", forgets)


@pytest.mark.parametrize(
    ("defect", "name"),
    [
        (written_before_the_commit, "rows"),
        (stamped_too_far, "rows"),
        (deletions_forgotten, "rows"),
        (without_numbers, "windows"),
        (without_undo, "rows"),
        (always_undo, "rows"),
    ],
)
def test_planted_defects_are_found(
    place: Path, monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None], name: str
) -> None:
    """If this fails, the two tests above find nothing."""
    defect(monkeypatch)

    def search() -> None:
        for seed in range(20):
            run(place / f"a{seed}", name, seed)
            run_prepared(place / f"b{seed}", name, seed)

    with pytest.raises(AssertionError):
        search()
