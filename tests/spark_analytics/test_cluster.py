"""The jobs on a Spark cluster: a standalone master with two workers, which have no broker-cy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics import cluster, synthetic_lake
from spark_analytics.jobs.registry import JOBS
from spark_analytics.lake import Lake
from spark_analytics.planted import Size
from tests.spark_analytics.segments.logs import Log
from tests.spark_analytics.segments.logs import records as new_records
from tests.spark_analytics.standalone import LOOPBACK, bare_python, running

ROOT = Path(__file__).resolve().parents[2]
# Two days, as `nodes` and `skew` need hours of the day before; few rows, as each task takes seconds on one core.
SIZE = Size(days=2, topics=2, partitions=2, sample_s=600, commit_s=600)
ENDS_S = 600.0


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake(tmp_path_factory.mktemp("lake") / "lake")
    synthetic_lake.write(spark, made, SIZE)
    return made


def on_cluster(words: Sequence[object], python: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a cluster whose workers have another Python than the driver, and nothing in PYTHONPATH."""
    env = {
        **os.environ, **LOOPBACK, "PYTHONPATH": "",
        "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True, timeout=ENDS_S, check=False
    )


@pytest.mark.parametrize("job", ["lag", pytest.param("all", marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_jobs_give_the_same_tables(
    spark: SparkSession, master: str, python: Path, lake: Lake, tmp_path: Path, job: str
) -> None:
    """If this fails, a lake that has outgrown one machine cannot be analysed, or gives other answers."""
    words = [
        Path(sys.executable).parent / "spark-submit", "--master", master, "--executor-memory", "512m",
        "--conf", "spark.sql.shuffle.partitions=2",
        ROOT / "spark_analytics" / "main.py", "run", job, "--lake", lake.path, "--out", tmp_path / "out",
    ]  # fmt: skip
    done = on_cluster(words, python, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    jobs = [each for each in JOBS.values() if job in (each.name, "all")]
    tables = {name: lake.read(spark, name) for each in jobs for name in each.tables}
    compared = 0
    for each in jobs:
        for found in each.compute({name: tables[name] for name in each.tables}):
            there = spark.read.parquet(str(tmp_path / "out" / each.name / found.name))
            # Sums of fractions depend on their order in the last digits.
            assertDataFrameEqual(there, found.rows, rtol=1e-9, ignoreNullable=True)
            compared += there.count() > 0
    assert compared >= len(jobs)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_commands_take_a_master(spark: SparkSession, master: str, python: Path, lake: Lake, tmp_path: Path) -> None:
    """If this fails, only those who know spark-submit can use a cluster, or segments are read by one machine alone:
    their reader is compiled, and shipped like all else.
    """
    log = Log(tmp_path / "data")
    log.append(new_records(20))
    for words, text in (
        (["run", "lag", "--lake", lake.path], "groups: by group and minute, the newest first"),
        (["segments", tmp_path / "data", "--topic", "t"], "records by partition"),
    ):
        command = [sys.executable, "-m", "spark_analytics", *words, "--master", master, "--memory", "512m"]
        done = on_cluster(command, python, ROOT)
        assert done.returncode == 0, done.stderr
        assert text in done.stdout


@pytest.mark.parametrize(
    ("master", "python", "text"),
    [
        ("spark://127.0.0.1:1", "", "spark://127.0.0.1:1: 127.0.0.1:1: Connection refused"),
        ("spark://127.0.0.1", "", "'127.0.0.1' is not HOST:PORT"),
    ],
)
def test_a_master_that_does_not_answer_is_named(
    lake: Lake, tmp_path: Path, master: str, python: str, text: str
) -> None:
    """If this fails, a typing error makes a command wait for a minute, and end with a stack trace."""
    command = [sys.executable, "-m", "spark_analytics", "run", "lag", "--lake", lake.path, "--master", master]
    done = on_cluster(command, Path(python), ROOT)
    assert done.returncode == 69, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_workers_without_the_python_are_named(spark: SparkSession, master: str, lake: Lake, tmp_path: Path) -> None:
    """If this fails, workers that cannot run Python end a job with the stack traces of a JVM."""
    command = [sys.executable, "-m", "spark_analytics", "run", "lag", "--lake", lake.path, "--master", master]
    done = on_cluster(command, tmp_path / "no-python", ROOT)
    assert done.returncode == 69, done.stderr
    assert f'cannot run Python: Cannot run program "{tmp_path / "no-python"}"' in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_worker_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a job on workers without pandas ends with the stack traces of Python and of a JVM."""
    assert cluster._import_needed(0) is None
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = cluster._import_needed(0)
    assert found is not None
    assert found.startswith("ModuleNotFoundError: import of pandas halted")
    assert found.endswith(f"({sys.executable})")


@pytest.mark.parametrize(
    ("address", "expected"),
    [("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("spark://h:7077", False), ("", False)],
)
def test_masters_of_one_machine(address: str, expected: bool) -> None:
    """If this fails, workers on other machines do not get the packages, or a local run waits for workers."""
    assert cluster.is_local(address) is expected
