"""Input from archives: segment files of log directories, and a lake of Parquet files. An application takes over with
the state of records that only the archive has, and goes on with the topic at exactly the next offset.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.wire.records import Record, decode_batches
from tests.broker_streams.commands.cluster import COUNTS, PARTITIONS, Cluster, invoke

PAST = ("a", "b", "a", "c", "a", "b")
MORE = ("a", "c")
# A record too many, or too few, of the past shows in the counts of both.
COUNTED = [("a", 4), ("c", 2)]
# Some records of each partition remain in the topic, behind the first offsets.
KEPT = 1


def rows_of(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    """The committed records as rows of Spark's Kafka source."""

    async def job() -> list[dict[str, Any]]:
        async with cluster.client() as client:
            keys = await client.records.partitions(topic)
            ends = (await client.offsets.latest(keys)).whole()
            begins = dict.fromkeys(keys, 0)
            found = []
            async with client.records.reader(begins, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
                async for chunk in reader:
                    for each in chunk.records:
                        found.append({
                            "topic": topic, "partition": chunk.partition.partition, "offset": each.offset,
                            "timestamp": each.timestamp, "key": each.key, "value": each.value,
                            "headers": [{"key": name, "value": value} for name, value in each.headers],
                        })  # fmt: skip
            return found

    return asyncio.run(job())


SCHEMA = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")),
    ("key", pa.binary()), ("value", pa.binary()),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip


def write_lake(directory: Path, rows: list[dict[str, Any]], *, files: int = 1) -> tuple[str, ...]:
    """Write rows into files that overlap; return the option of the lake."""
    directory.mkdir()
    ordered = sorted(rows, key=lambda each: (each["partition"], each["offset"]))
    for number in range(files):
        pq.write_table(pa.Table.from_pylist(ordered[number::files], SCHEMA), directory / f"part-{number}.parquet")
    return "--lake", str(directory)


def copy_segments(cluster: Cluster, directory: Path, topic: str) -> tuple[str, ...]:
    """Copy the folders of a topic while the broker has them; return the option of the segments."""
    for number in range(PARTITIONS):
        shutil.copytree(cluster.log_dir / f"{topic}-{number}", directory / f"{topic}-{number}")
    return "--segments", str(directory)


def delete_records(cluster: Cluster, topic: str, kept: int) -> dict[TopicPartition, int]:
    """Delete all but the last `kept` records of each partition; return where they begin."""

    async def job() -> dict[TopicPartition, int]:
        async with cluster.client() as client:
            keys = await client.records.partitions(topic)
            ends = (await client.offsets.latest(keys)).whole()
            before = {key: max(0, end - kept) for key, end in ends.items()}
            return dict((await client.topics.delete_records(before)).whole())

    return asyncio.run(job())


def history(cluster: Cluster, folder: Path, name: str) -> Path:
    cluster.create(f"{name}-in", f"{name}-out")
    for number, value in enumerate(PAST):
        # Each in a batch of its own.
        cluster.write(f"{name}-in", value, keys=(f"k{number}",), first_ms=number)
    return cluster.application(folder, name)


def in_segments(cluster: Cluster, folder: Path, topic: str) -> tuple[str, ...]:
    return copy_segments(cluster, folder / "copy", topic)


def in_lake(cluster: Cluster, folder: Path, topic: str) -> tuple[str, ...]:
    return write_lake(folder / "lake", rows_of(cluster, topic), files=2)


@pytest.mark.parametrize("archived", [in_segments, in_lake])
def test_live_at_exactly_the_offset_after_the_archive(
    cluster: Cluster, tmp_path: Path, archived: Callable[[Cluster, Path, str], tuple[str, ...]]
) -> None:
    """If this fails, records of the archive, of the topic behind it, or live ones are lost or counted twice."""
    name = archived.__name__.replace("_", "-")
    path = history(cluster, tmp_path, name)
    source = archived(cluster, tmp_path, f"{name}-in")
    # These are in the topic only, behind the archive.
    cluster.write(f"{name}-in", *MORE)
    assert any(delete_records(cluster, f"{name}-in", len(MORE) + KEPT).values())

    lacking = invoke("replay", path, "--application-id", f"{name}-2", "--until", "latest", "--yes", "--json")
    assert json.loads(lacking.output)["processed"] < len(PAST) + len(MORE)
    done = invoke("replay", path, "--application-id", f"{name}-3", "--until", "latest", "--yes", "--json", *source)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["processed"] == len(PAST) + len(MORE)
    cluster.write(f"{name}-in", "b")
    cluster.run(path, [("b", 3)], application_id=f"{name}-3")

    both = invoke("diff", path, path, *source, "--json")
    assert both.exit_code == 0, both.output
    assert json.loads(both.output)["processed"] == {"old": 9, "new": 9}
    changed = tmp_path / "changed"
    changed.mkdir()
    text = COUNTS.replace("lambda key, value: value", "lambda key, value: 'a' if value == 'b' else value")
    differs = invoke("diff", path, cluster.application(changed, name, text), *source, "--json")
    (topic,) = json.loads(differs.output)["topics"]
    # All counts of b are gone.
    assert topic["old"] == topic["new"] == 9
    assert topic["only_old"] == topic["only_new"] >= 3, differs.output


@pytest.mark.parametrize("archived", [in_segments, in_lake])
def test_results_of_deleted_records_are_verified(
    cluster: Cluster, tmp_path: Path, archived: Callable[[Cluster, Path, str], tuple[str, ...]]
) -> None:
    """If this fails, an application whose first records were deleted cannot be checked any more."""
    name = f"verify-{archived.__name__.replace('_', '-')}"
    path = history(cluster, tmp_path, name)
    cluster.run(path, [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 1)])
    source = archived(cluster, tmp_path, f"{name}-in")
    delete_records(cluster, f"{name}-in", 0)
    refused = invoke("verify", path)
    assert refused.exit_code == 1
    assert "records that the state depends on were deleted" in refused.output
    proven = invoke("verify", path, *source, "--json")
    assert proven.exit_code == 0, proven.output
    assert json.loads(proven.output)["processed"] == len(PAST)


def test_the_segments_of_a_running_broker(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, aborted records count, or records behind the high watermark that the broker noted are lost."""
    path = history(cluster, tmp_path, "running")

    async def job() -> None:
        async with cluster.client() as client:
            producer = client.transactional_producer("running-tx")
            for value, ends in (("lost", producer.abort), ("a", producer.commit)):
                await producer.begin()
                for number in range(PARTITIONS):
                    record = Record(timestamp=50, key=b"k", value=value.encode())
                    await producer.send("running-in", [record], partition=number)
                await ends()

    asyncio.run(job())
    segments = ("--segments", str(cluster.log_dir))
    shown = invoke("diff", path, path, *segments, "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.output)["processed"]["old"] == len(PAST) + PARTITIONS
    with_time = invoke("diff", path, path, *segments, "--from", "1970-01-01T00:00:00.003Z", "--json")
    assert json.loads(with_time.output)["processed"]["old"] == len(PAST) - 3 + PARTITIONS


def test_archives_that_do_not_fit(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, the state comes from the records of another topic of this name, or without some records."""
    path = history(cluster, tmp_path, "misfit")
    segments = copy_segments(cluster, tmp_path / "copy", "misfit-in")
    rows = rows_of(cluster, "misfit-in")
    lake = write_lake(tmp_path / "lake", rows)
    fullest = max({each["partition"] for each in rows}, key=lambda at: sum(each["partition"] == at for each in rows))
    theirs = [each for each in rows if each["partition"] == fullest]
    assert len(theirs) >= 3
    last = theirs[-1]["offset"]
    others = [each for each in rows if each["partition"] != fullest]
    holed = write_lake(tmp_path / "holed", [*others, theirs[0], *theirs[2:]])
    short = write_lake(tmp_path / "short", [*others, theirs[0]])
    changed = write_lake(tmp_path / "changed", [])
    pq.write_table(
        pa.Table.from_pylist([*others, *theirs[:-1], {**theirs[-1], "value": b"z"}], SCHEMA),
        tmp_path / "changed" / "part-0.parquet",
    )
    beyond = write_lake(tmp_path / "beyond", [*rows, {**theirs[-1], "offset": last + 5}])
    twice = write_lake(tmp_path / "twice", [*rows])
    pq.write_table(pa.Table.from_pylist(theirs[:1], SCHEMA), tmp_path / "twice" / "part-1.parquet")
    tangled = write_lake(tmp_path / "tangled", [])
    pq.write_table(pa.Table.from_pylist(theirs[::-1], SCHEMA), tmp_path / "tangled" / "part-0.parquet")
    shutil.copytree(tmp_path / "copy", tmp_path / "torn")
    tear(tmp_path / "torn" / f"misfit-in-{fullest}")

    def refused(source: tuple[str, ...], message: str, *more: str) -> None:
        shown = invoke("diff", path, path, *source, *more)
        assert shown.exit_code != 0, (source, shown.output)
        assert message in " ".join(shown.output.split()), shown.output

    key = f"misfit-in-{fullest}"
    refused(changed, f"{key}: its record at offset {last} is another one than that of the topic")
    refused(beyond, f"it goes to offset {last + 6}, and the topic only to {last + 1}")
    refused(("--segments", str(tmp_path / "torn")), "no segment has the offsets 1 to 1")
    refused(("--segments", str(tmp_path)), "it has no partition of misfit-in")
    refused(("--segments", str(tmp_path / "none")), "none cannot be read")
    refused((*segments, *lake), "--segments and --lake: one of them is possible")
    refused((*segments, "--accept-gaps"), "--accept-gaps is for --lake")
    refused(("--lake", str(tmp_path / "copy")), "copy: it cannot be read")
    other = write_lake(tmp_path / "other", [])
    pq.write_table(pa.table({"topic": ["misfit-in"]}), tmp_path / "other" / "part-0.parquet")
    refused(other, "columns topic, partition, offset, timestamp, key, value are needed")

    delete_records(cluster, "misfit-in", 1)
    refused(short, f"it ends at offset 1, and the topic begins at {last}: those between are missing")
    refused(holed, f"{key}: the offsets 1 to 1 are missing")
    refused(tangled, "sort it within partitions by topic, partition and offset")
    refused(twice, f"{key}: it has the offset 0 twice")
    assert invoke("diff", path, path, *holed, "--accept-gaps").exit_code == 0

    asyncio.run(made_again(cluster, "misfit-in"))
    cluster.write("misfit-in", *PAST)
    refused(segments, "it was made again")


def tear(folder: Path) -> None:
    """Leave a segment with the first batch, and one from the third batch on, as if that of the second was deleted."""
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    places = [(each.base_offset, each.position) for each in decode_batches(data)]
    (folder / f"{places[2][0]:020d}.log").write_bytes(data[places[2][1] :])
    log.write_bytes(data[: places[1][1]])
    for each in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        each.unlink()


async def made_again(cluster: Cluster, topic: str) -> None:
    async with cluster.client() as client:
        (await client.topics.delete([topic])).whole()
        async with asyncio.timeout(60):
            while topic in {each.name for each in await client.topics.list_all()}:
                await asyncio.sleep(0.05)
    await asyncio.to_thread(cluster.create, topic)


def test_a_compacted_stream_gives_no_state(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, a new version begins with counts that lack the records which compaction has removed."""
    cluster.create("compacted-in", "compacted-out", configs={"cleanup.policy": "compact"})
    cluster.write("compacted-in", *PAST)
    path = cluster.application(tmp_path, "compacted")
    shown = invoke("replay", path, "--application-id", "compacted-2", "--until", "latest", "--yes")
    assert shown.exit_code == 1, shown.output
    assert "topic compacted-in: it is compacted, and read as a stream" in " ".join(shown.output.split())
    # The last rows are those of all records of a table.
    text = COUNTS.replace(".stream(", ".table(").replace(
        "group_by(lambda key, value: value)", "group_by(lambda key, value: (value, value))"
    )
    table = cluster.application(tmp_path, "compacted", text)
    done = invoke("replay", table, "--application-id", "compacted-2", "--until", "latest", "--yes", "--json")
    assert done.exit_code == 0, done.output
