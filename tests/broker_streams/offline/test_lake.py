"""A lake of Parquet files, as Spark writes it, as an archive of records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker_cy.admin import ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_streams.offline import lake as module
from broker_streams.offline.history import Extent
from broker_streams.offline.lake import LakeArchive

KEY = TopicPartition("t", 1)


def write(path: Path, offsets: Iterable[int], *, partition: int | None = 1, **columns: pa.Array) -> None:
    """Write rows of topic t with the times 1000 + offset ms; without `partition` it is in the path."""
    numbers = list(offsets)
    made = {
        "offset": pa.array(numbers, pa.int64()),
        "timestamp": pa.array([(1000 + each) * 1000 for each in numbers], pa.timestamp("us", "UTC")),
        "key": pa.array([b"k%d" % each for each in numbers], pa.binary()),
        "value": pa.array([None if each % 2 else b"v" for each in numbers], pa.binary()),
    }
    if partition is not None:
        made |= {"topic": pa.array(["t"] * len(numbers)), "partition": pa.array([partition] * len(numbers), pa.int32())}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(made | columns), path)


def read(directory: Path, start: int, end: int, key: TopicPartition = KEY) -> list[int]:
    archive = LakeArchive(directory, accepts_gaps=False)
    archive.extents([key], ())
    return [each[3] for rows in archive.records(key, start, end) for each in rows]


def test_files_that_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records of files that several tasks wrote come in another order, or are lost between lists."""
    monkeypatch.setattr(module, "ROWS_MAX", 3)
    write(tmp_path / "a.parquet", range(0, 10, 2))
    write(tmp_path / "b.parquet", range(1, 10, 2))
    write(tmp_path / "c.parquet", range(10, 14))
    write(tmp_path / "d.parquet", range(20), partition=0)
    archive = LakeArchive(tmp_path, accepts_gaps=False)
    assert archive.extents([KEY], ()) == {KEY: Extent(0, 14)}
    lists = list(archive.records(KEY, 3, 13))
    assert [each[3] for rows in lists for each in rows] == list(range(3, 13))
    assert max(map(len, lists)) == 3
    assert lists[0][0] == (b"k3", None, 1003, 3, ())
    assert archive.at_time(KEY, 1007) == 7
    assert archive.at_time(KEY, 2000) is None


def test_folders_of_partitions(tmp_path: Path) -> None:
    """If this fails, a lake that was written with partitionBy cannot be read, or has the records of all partitions."""
    for number in (0, 1):
        write(tmp_path / "topic=t" / f"partition={number}" / "x.parquet", range(number, 5), partition=None)
    write(tmp_path / "topic=other" / "partition=1" / "x.parquet", range(50, 60), partition=None)
    assert read(tmp_path, 1, 5) == [1, 2, 3, 4]


def test_times_in_ms_and_headers(tmp_path: Path) -> None:
    """If this fails, lakes of other writers lose their headers, or have other times."""
    pairs = pa.array([[{"key": "h", "value": b"1"}], None])
    write(tmp_path / "x.parquet", [4, 5], timestamp=pa.array([7, 8], pa.int64()), headers=pairs)
    archive = LakeArchive(tmp_path, accepts_gaps=False)
    archive.extents([KEY], ())
    assert list(archive.records(KEY, 4, 6)) == [[(b"k4", b"v", 7, 4, (("h", b"1"),)), (b"k5", None, 8, 5, ())]]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_files_that_a_stream_did_not_commit(tmp_path: Path, is_compacted: bool) -> None:
    """If this fails, rows of a batch that failed and was repeated come twice, or files before a compaction are lost."""
    write(tmp_path / "a.parquet", range(3))
    write(tmp_path / "b.parquet", range(3, 6))
    write(tmp_path / "left.parquet", range(3, 5))
    logs = tmp_path / "_spark_metadata"
    logs.mkdir()
    first = json.dumps({"path": f"file:///elsewhere/{tmp_path.name}/a.parquet", "action": "add"})
    second = json.dumps({"path": f"file://{tmp_path}/b.parquet", "action": "add"})
    if is_compacted:
        # The log of a batch that the compacted log has already.
        (logs / "0").write_text(f"v1\n{first}\n")
        (logs / "1.compact").write_text(f"v1\n{first}\n{second}\n")
    else:
        (logs / "0").write_text(f"v1\n{first}\n")
        (logs / "1").write_text(f"v1\n{second}\n")
    assert read(tmp_path, 0, 6) == list(range(6))


def test_a_delta_table_is_refused(tmp_path: Path) -> None:
    """If this fails, files that the table has deleted count."""
    write(tmp_path / "a.parquet", range(3))
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ClientError, match="it is a Delta table"):
        read(tmp_path, 0, 3)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 2, 1], "are out of order: sort it"), ([0, 1, 1, 2], "offset 1 twice")],
)
def test_rows_out_of_order(tmp_path: Path, offsets: list[int], message: str) -> None:
    """If this fails, records are processed in another order than that of the topic, or twice."""
    write(tmp_path / "a.parquet", offsets)
    with pytest.raises(ClientError, match=message):
        read(tmp_path, 0, 3)
