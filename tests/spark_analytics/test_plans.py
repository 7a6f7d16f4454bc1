"""Plans of kafka-reassign-partitions: error messages for a bad plan, and the commands that use one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark_analytics import cli
from spark_analytics.jobs.registry import JOBS, what_if_job
from spark_analytics.lake import Lake
from spark_analytics.reassignment import PlanError, Reassignment, parse, read
from tests.spark_analytics.planted_lake import SMALL
from tests.spark_analytics.test_commands import check_refused


def plan(*parts: dict[str, Any]) -> str:
    return json.dumps({"version": 1, "partitions": parts})


def part(topic: str, partition: int, *replicas: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": list(replicas), "log_dirs": ["any"] * len(replicas)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a plan"),
        ('{"version": 2, "partitions": []}', "version 2: 1 is allowed"),
        ('{"version": 1, "partitions": []}', "the plan has no partitions"),
        ('{"version": 1, "partitions": [3]}', "partition entry 1 is 3: an object is expected"),
        (plan({"partition": 0, "replicas": [1]}), "partition entry 1: topic is missing"),
        (plan({"topic": "t", "partition": "0", "replicas": [1]}), 'partition is "0": 0 or more is allowed'),
        (plan({"topic": "t", "partition": -1, "replicas": [1]}), "partition is -1"),
        (plan(part("t", 0)), "t-0: replicas is []: a list of ids"),
        (plan(part("t", 0, 1, 1)), "t-0: replicas is [1, 1]: each broker is allowed once"),
        (plan({"topic": "t", "partition": 0, "replicas": [True]}), "replicas is [true]"),
        (plan(part("t", 0, 1), part("t", 0, 2)), "the plan names t-0 twice"),
    ],
)
def test_what_is_wrong_with_a_plan_is_named(tmp_path: Path, text: str, reason: str) -> None:
    """If this fails, a broken plan causes a traceback, or a part of it is silently left out."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanError) as raised:
        read(path)
    assert reason in str(raised.value)
    assert str(path) in str(raised.value)


def test_the_first_replica_leads_and_the_current_plan_tells_where_from(tmp_path: Path) -> None:
    """If this fails, the load of a follower is predicted, or a partition is taken from a broker without it."""
    assert parse(plan(part("t", 0, 3, 1))) == [Reassignment("t", 0, 3)]
    new, now = tmp_path / "plan.json", tmp_path / "current.json"
    new.write_text(plan(part("t", 0, 3, 1)))
    now.write_text(plan(part("t", 0, 1, 3), part("t", 1, 2)))
    assert read(new, now) == [Reassignment("t", 0, 3, 1)]
    now.write_text(plan(part("t", 1, 2)))
    with pytest.raises(PlanError, match="t-0 of the plan is missing"):
        read(new, now)
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        read(tmp_path / "none.json")


@pytest.fixture(scope="module")
def lake(shared_lake: Lake) -> Lake:
    return shared_lake


@pytest.mark.full
def test_a_plan_is_predicted_from_the_command_line(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, what-if cannot be used, or its numbers are not those of the plan."""
    (tmp_path / "plan.json").write_text(plan(part("topic-0", 1, 0)))
    (tmp_path / "current.json").write_text(plan(part("topic-0", 1, 1)))
    monkeypatch.chdir(tmp_path)
    words = ("run", "what-if", "--lake", str(lake.path), "--cluster", SMALL, "--plan", "plan.json")
    # In this process, whose Spark session it uses: another JVM would take longer to start than the job.
    done = CliRunner().invoke(
        cli.command, [*words, "--current", "current.json", "--out", "out"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.stderr
    assert "load of each broker before and after the plan" in done.stdout
    assert done.stderr == ""  # no terminal: no progress
    load = {row.broker: row for row in spark.read.parquet(str(tmp_path / "out" / "what-if" / "load")).collect()}
    assert [(load[each].moved_in, load[each].moved_out) for each in range(3)] == [(1, 0), (0, 1), (0, 0)]
    gained = load[0].in_bytes_per_s_after - load[0].in_bytes_per_s
    assert gained > 0
    assert load[1].in_bytes_per_s - load[1].in_bytes_per_s_after == pytest.approx(gained)
    stalls = spark.read.parquet(str(tmp_path / "out" / "what-if" / "stalls")).collect()
    assert {(row.group, row.topic, row.partition) for row in stalls} == {
        ("group-0", "topic-0", 1), ("group-1", "topic-0", 1),
    }  # fmt: skip


@pytest.mark.full
def test_a_plan_for_what_is_not_in_the_lake_is_refused(spark: SparkSession, lake: Lake) -> None:
    """If this fails, a typing error in a plan gives a prediction that does not contain the partition."""
    job = what_if_job(SMALL, [Reassignment("topic-9", 1, 0)])
    tables = {name: lake.read(spark, name, clusters=[SMALL]) for name in job.tables}
    expected = r"no commits of a topic 'topic-9' in cluster 'small' \(there: topic-0, topic-1, topic-2\)"
    with pytest.raises(PlanError, match=expected):
        list(job.compute(tables))


@pytest.mark.full
def test_all_jobs_without_a_plan(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, `run all` needs a plan, or silently leaves a job out."""
    jobs = [each.name for each in cli._chosen("all", lake, (SMALL,), None, None)]
    assert jobs == list(JOBS)
    assert capsys.readouterr().err == "what-if is left out: it needs --plan FILE\n"
    path = tmp_path / "plan.json"
    path.write_text(plan(part("topic-0", 1, 0)))
    assert [each.name for each in cli._chosen("all", lake, (SMALL,), path, None)] == [*JOBS, "what-if"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("run", "what-if"), 2, "what-if needs --plan FILE"),
        (("run", "lag", "--plan", "plan.json"), 2, "--plan and --current are for what-if and all, not for lag"),
        (("run", "all", "--current", "plan.json"), 2, "--current needs --plan"),
        (("run", "what-if", "--plan", "none.json"), 2, "none.json cannot be read: No such file or directory"),
        (("run", "what-if", "--plan", "plan.json", "--cluster", "x"), 1, "x: not in"),
        (("report", "--out", "plan.json/report.html"), 2, "--out plan.json/report.html: Not a directory"),
        (("report", "--out", "."), 2, "is a directory"),
        (("report", "--out", "r.html", "--cluster", "x"), 1, "x: not in"),
    ],
)
def test_bad_input(
    lake: Lake, words: tuple[str, ...], code: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a typing error causes a traceback, or is found only after a JVM has started."""
    (tmp_path / "plan.json").write_text(plan(part("topic-0", 1, 0)))
    monkeypatch.chdir(tmp_path)
    check_refused((*words, "--lake", str(lake.path)), code, text, monkeypatch)
