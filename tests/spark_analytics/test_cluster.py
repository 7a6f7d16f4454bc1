"""The jobs on a Spark cluster: a standalone master and two workers without broker-cy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics import cluster
from spark_analytics.jobs.registry import JOBS
from spark_analytics.lake import Lake, Span
from tests.spark_analytics.planted_lake import PLANTED, SMALL, SMALL_SIZE
from tests.spark_analytics.segments.logs import Log
from tests.spark_analytics.segments.logs import records as new_records
from tests.spark_analytics.standalone import LOOPBACK, bare_python, running

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
ENDS_S = 600.0


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="module")
def lake(shared_lake: Lake) -> Lake:
    return shared_lake


def on_cluster(words: Sequence[object], python: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a cluster whose workers have another Python than the driver, and nothing in PYTHONPATH."""
    env = {
        **os.environ, **LOOPBACK, "PYTHONPATH": "",
        "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True, timeout=ENDS_S, check=False
    )


# One job shows that jobs run on a cluster; the others need minutes, because each task takes seconds on one core.
@pytest.mark.parametrize(
    ("job", "of", "span"),
    [
        ("lag", SMALL, Span(end=SMALL_SIZE.start + timedelta(hours=6))),
        pytest.param("all", PLANTED, Span(), marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_jobs_give_the_same_tables(
    spark: SparkSession, master: str, python: Path, lake: Lake, tmp_path: Path, job: str, of: str, span: Span
) -> None:
    """If this fails, a lake that has outgrown one machine cannot be analysed, or gives other results."""
    words = [
        Path(sys.executable).parent / "spark-submit", "--master", master, "--executor-memory", "512m",
        "--conf", "spark.sql.shuffle.partitions=2",
        ROOT / "spark_analytics" / "main.py", "run", job, "--lake", lake.path, "--cluster", of,
        *(("--to", span.end.isoformat()) if span.end else ()), "--out", tmp_path / "out",
    ]  # fmt: skip
    done = on_cluster(words, python, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    jobs = [each for each in JOBS.values() if job in (each.name, "all")]
    tables = {name: lake.read(spark, name, span, [of]) for each in jobs for name in each.tables}
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
    """If this fails, a cluster can only be used with spark-submit, or only one machine reads segments: their compiled
    reader is shipped like the other code.
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
        ("spark://127.0.0.1", "", "'127.0.0.1' is not an address: HOST:PORT is expected"),
    ],
)
def test_a_master_that_does_not_answer_is_named(
    lake: Lake, tmp_path: Path, master: str, python: str, text: str
) -> None:
    """If this fails, a typing error makes a command wait for a minute and exit with a stack trace."""
    command = [sys.executable, "-m", "spark_analytics", "run", "lag", "--lake", lake.path, "--master", master]
    done = on_cluster(command, Path(python), ROOT)
    assert done.returncode == 1, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


# In the soak, because a driver and two executors that exit immediately need 15 s of CPU; the test below has Spark's
# text.
@pytest.mark.soak
def test_workers_without_the_python_are_named(spark: SparkSession, master: str, lake: Lake, tmp_path: Path) -> None:
    """If this fails, workers that cannot run Python end a job with the stack traces of a JVM."""
    command = [sys.executable, "-m", "spark_analytics", "run", "lag", "--lake", lake.path, "--master", master]
    done = on_cluster(command, tmp_path / "no-python", ROOT)
    assert done.returncode == 1, done.stderr
    assert f'cannot run Python: Cannot run program "{tmp_path / "no-python"}"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Job aborted due to stage failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.1 executor 0): "
            'java.io.IOException: Cannot run program "/x/python": error=2, No such file or directory\n\tat java.base/x',
            'Cannot run program "/x/python": error=2, No such file or directory',
        ),
        (
            "Traceback (most recent call last):\npyspark.errors.exceptions.base.PySparkRuntimeError: "
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11.\n\tat x",
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.9 than that in driver: 3.11.",
        ),
        ("\n  Job 0 cancelled \n\tat x", "Job 0 cancelled"),
        ("", "no reason was given"),
    ],
)
def test_the_reason_is_one_line_of_a_stack_trace(text: str, reason: str) -> None:
    """If this fails, workers that cannot run Python end a job with the stack traces of a JVM."""
    assert cluster._reason(text) == reason


def test_what_a_worker_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a job on workers without pandas ends with the stack traces of Python and of a JVM."""
    assert cluster._import_failure(cluster.MODULES) is None
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = cluster._import_failure(cluster.MODULES)
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
