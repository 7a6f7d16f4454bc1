"""Copies of files in a shared directory."""

from __future__ import annotations

import json
from pathlib import Path

from broker_streams.state.disk_map import DiskMap
from broker_streams.state.file import TaskFile
from broker_streams.state.snapshots import Snapshots, fetch, install
from broker_streams.state.stamp import Log, Place, Stamp
from broker_streams.state.writing import Change


def written(file: TaskFile, offset: int) -> None:
    file.write([Change("s/rows", {b"k": b"%d" % offset})], Stamp({"s": Place(offset, "id")}, offset))


def test_a_snapshot_is_a_file_of_its_moment(place: Path) -> None:
    """If this fails, an instance begins with other rows than its stamp says."""
    file, snapshots = TaskFile(place / "one"), Snapshots(place / "shared", "app", 2)
    written(file, 5)
    taken = snapshots.take(file, "0_0")
    written(file, 6)
    file.close()
    assert snapshots.of("0_0") == [taken]
    other = TaskFile(place / "other")
    other.close()
    fetched = fetch(taken, other.directory)
    assert fetched is not None
    install(fetched, other.directory)
    other = TaskFile(other.directory)
    assert other.stamp.places == {"s": Place(5, "id")}
    assert dict(DiskMap(other, "s/rows").items()) == {b"k": b"5"}
    other.close()


def test_old_snapshots_are_deleted(place: Path) -> None:
    """If this fails, snapshots fill the directory."""
    file, snapshots = TaskFile(place / "one"), Snapshots(place / "shared", "app", 2)
    for offset in (5, 6, 7):
        written(file, offset)
        snapshots.take(file, "0_0")
    file.close()
    assert [each.stamp.places["s"].offset for each in snapshots.of("0_0")] == [7, 6]
    assert len(list((place / "shared" / "app" / "0_0").iterdir())) == 4


def test_a_damaged_snapshot_is_not_used(place: Path) -> None:
    """If this fails, a torn copy becomes the state of a task."""
    file, snapshots = TaskFile(place / "one"), Snapshots(place / "shared", "app", 2)
    written(file, 5)
    taken = snapshots.take(file, "0_0")
    file.close()
    data = bytearray(taken.path.read_bytes())
    data[-5000] ^= 1
    taken.path.write_bytes(data)
    assert fetch(taken, place) is None
    taken.path.write_bytes(data[:-1])
    assert snapshots.of("0_0") == []
    taken.path.with_suffix(".json").write_text(json.dumps({}))
    assert snapshots.of("0_0") == []
    assert list(place.glob(".*.new")) == []


def test_a_snapshot_is_taken_where_it_fits_and_saves_much(place: Path) -> None:
    """If this fails, a new instance reads the whole changelog, or begins with rows of another topic."""
    file, snapshots = TaskFile(place / "one"), Snapshots(place / "shared", "app", 2)
    written(file, 60)
    taken = snapshots.take(file, "0_0")
    file.close()

    def chosen(lacking: int, log: Log) -> bool:
        return snapshots.better("0_0", lacking, {"s": log}, 0) == taken

    assert chosen(100, Log(0, 100, "id"))
    assert not chosen(80, Log(0, 100, "id"))
    assert not chosen(100, Log(0, 100, "other"))
    assert not chosen(100, Log(0, 50, "id"))
    assert snapshots.better("0_1", 100, {"s": Log(0, 100, "id")}, 0) is None
