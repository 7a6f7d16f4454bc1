"""A Spark cluster on the loopback interface: a master and two workers, each with a core and 1 GB, and a Python for the
workers with the libraries of this one, but without broker-cy.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyspark

from bench.launch.nodes import free_ports
from broker_cy.launch.processes import Child
from tests.support.wait import until

HOME = Path(pyspark.__file__).parent
WORKERS = 2
STARTS_S = 60.0
# Names of addresses are not resolved; a master and a worker need little memory.
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}


@contextlib.contextmanager
def running(directory: Path) -> Iterator[str]:
    """Run a cluster, and yield the address of its master."""
    with cluster(directory) as (master, _):
        yield master


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[tuple[str, list[Child]]]:
    """Run a cluster, and yield the address of its master, and its workers."""
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    # A worker on another machine does not have the packages of the tests' own environment.
    env = {**LOOPBACK, "PYTHONPATH": "", "SPARK_HOME": str(HOME)}
    spark_class = HOME / "bin" / "spark-class"
    where = ("--host", "127.0.0.1", "--webui-port", "0")
    made: list[Child] = []
    try:
        words = [spark_class, "org.apache.spark.deploy.master.Master", *where, "--port", str(port)]
        made.append(Child([str(each) for each in words], directory, "master", env, directory))
        for number in range(WORKERS):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", directory / f"work-{number}")
            words = [spark_class, "org.apache.spark.deploy.worker.Worker", *where, *work, master]
            made.append(Child([str(each) for each in words], directory, f"worker-{number}", env, directory))
        registered = "Successfully registered with master"
        until(lambda: all(registered in each.stderr() for each in made[1:]), "two workers", STARTS_S)
        yield master, made[1:]
    finally:
        for each in made:
            each.kill()


def bare_python(directory: Path, without: tuple[str, ...] = ()) -> Path:
    """Return an interpreter in an environment with all packages installed here, except PySpark, broker-cy and those of
    `without`.
    """
    subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", directory], check=True)  # type: ignore[attr-defined]
    packages = next(directory.glob("lib/python3*/site-packages"))
    for each in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if each.name not in ("pyspark", *without) and "broker_cy" not in each.name and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    python = directory / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import pyarrow, spark_analytics"],
        cwd="/", env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "No module named 'spark_analytics'" in found.stderr, found.stderr
    return python
