"""The job mirror-audit: log directories of two clusters, compared by digests of chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record
from spark_analytics import session
from spark_analytics.cli import command
from spark_analytics.errors import DamagedError
from spark_analytics.mirror_audit import Audit, Settings, audit, topics_of
from spark_analytics.segments.errors import SegmentsError
from tests.spark_analytics.segments.logs import Log
from tests.spark_analytics.segments.logs import records as new_records

TOPICS = {"t": "A.t"}


def write(root: Path, topic: str, wanted: Sequence[Record], batch: int, **settings: Any) -> Log:
    """Write a log in batches, in three segments, with a transaction that was aborted at its end."""
    log = Log(root, topic)
    for number, at in enumerate(range(0, len(wanted), batch)):
        if number in (2, 4):
            log.roll()
        log.append(wanted[at : at + batch], **settings)
    log.append(new_records(2, 900), transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
    log.end_transaction(9, commit=False)
    return log


def compared(spark: SparkSession, root: Path, **settings: Any) -> Audit:
    return audit(spark, [root / "a"], [root / "b"], Settings(TOPICS, **{"chunk_records": 7, **settings}))


def test_equal_logs_are_equal_with_other_batches(spark: SparkSession, tmp_path: Path) -> None:
    """The brokers of both clusters cut and compress batches by themselves."""
    wanted = new_records(60)
    write(tmp_path / "a", "t", wanted, 10)
    write(tmp_path / "b", "A.t", wanted, 7, codec=Codec.LZ4)
    found = compared(spark, tmp_path)
    (part,) = found.partitions
    assert (part.verdict, part.source_records, part.target_records, part.compared) == ("equal", 60, 60, 60)
    assert found.is_equal
    assert found.chunks == []


def test_the_first_record_that_differs_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a lost record is not found, or people look for it at another offset."""
    wanted = new_records(60)
    write(tmp_path / "a", "t", wanted, 10)
    write(tmp_path / "b", "A.t", wanted[:23] + wanted[24:], 9)
    found = compared(spark, tmp_path)
    (part,) = found.partitions
    assert (part.verdict, part.source_offset, part.target_offset, part.compared) == ("different", 23, 23, 59)
    assert not found.is_equal
    assert [each.source_first for each in found.chunks] == [21, 28, 35, 42, 49, 56]


def test_a_target_that_is_behind_is_shorter(spark: SparkSession, tmp_path: Path) -> None:
    """A flow that runs is always a little behind."""
    wanted = new_records(60)
    write(tmp_path / "a", "t", wanted, 10)
    write(tmp_path / "b", "A.t", wanted[:51], 10)
    (part,) = compared(spark, tmp_path).partitions
    assert (part.verdict, part.compared) == ("shorter", 51)


def test_a_link_flow_is_compared_from_the_later_log_start(spark: SparkSession, tmp_path: Path) -> None:
    """Retention removes segments on each side at its own time."""
    wanted = new_records(60)
    write(tmp_path / "a", "t", wanted, 10)
    log = write(tmp_path / "b", "A.t", wanted, 10)
    log.path("log", 0).unlink()
    (part,) = compared(spark, tmp_path, equal_offsets=True).partitions
    assert (part.verdict, part.compared) == ("equal", 40)
    (part,) = compared(spark, tmp_path).partitions
    assert part.verdict == "not compared"
    assert "start at the offsets 0 and 20" in part.reason


def test_a_partition_of_one_side_only_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """A partition that was never copied must not count as equal."""
    wanted = new_records(10)
    write(tmp_path / "a", "t", wanted, 10)
    write(tmp_path / "b", "A.t", wanted, 10)
    Log(tmp_path / "a", "t", 1).append(new_records(1))
    found = compared(spark, tmp_path)
    assert [each.verdict for each in found.partitions] == ["equal", "not compared"]
    assert found.partitions[1].reason == "the target has no such partition"
    assert not found.is_equal


def test_damage_stops_the_audit(spark: SparkSession, tmp_path: Path) -> None:
    """A broken disk must not look like a mirror that loses records."""
    write(tmp_path / "a", "t", new_records(60), 10)
    log = write(tmp_path / "b", "A.t", new_records(60), 10)
    data = bytearray(log.path("log", 20).read_bytes())
    data[100] ^= 0xFF
    log.path("log", 20).write_bytes(bytes(data))
    with pytest.raises(DamagedError, match="at byte 0, where offset 20 is expected: the checksum"):
        compared(spark, tmp_path)


def test_the_command_ends_with_the_verdict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts take the exit code: 0 equal, 1 different."""
    monkeypatch.setattr(session, "session", lambda *_, **__: spark)
    wanted = new_records(20)
    write(tmp_path / "a", "t", wanted, 10)
    write(tmp_path / "b", "A.t", wanted, 10)
    args = ["run", "mirror-audit", "--source", f"{tmp_path}/a", "--target", f"{tmp_path}/b", "--topic", "t=A.t"]
    result = CliRunner().invoke(command, [*args, "--json"])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [(each["result"], len(each["rows"])) for each in rows] == [("partitions", 1), ("chunks", 0)]
    write(tmp_path / "c", "A.t", wanted[:19] + wanted[:1], 10)
    args[5] = f"{tmp_path}/c"
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 1
    assert "different" in result.output


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--source", ".", "--target", "."], "mirror-audit needs --topic"),
        (["--target", ".", "--topic", "t"], "mirror-audit needs --source"),
        (["--source", ".", "--target", ".", "--topic", "t", "--lake", "l"], "--lake is not for mirror-audit"),
        (["--source", ".", "--target", ".", "--topic", "t=", "--topic", "t"], "a topic and its copy are named once"),
    ],
)
def test_wrong_options_are_named(args: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error must not start Spark, nor look like a verdict."""
    with pytest.raises(SystemExit) as ended:
        command.main(["run", "mirror-audit", *args])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_topics_are_named_once() -> None:
    """Two topics with one copy would both be compared with it."""
    assert topics_of(["a", "b=A.b"]) == {"a": "a", "b": "A.b"}
    for given in (["a=x", "b=x"], ["=x"], ["a", "a"]):
        with pytest.raises(SegmentsError):
            topics_of(given)
