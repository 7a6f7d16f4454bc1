"""`broker-streams run --host spark` as a child of a test, and a JVM that several drivers use one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.broker import QUICK, BrokerProcess

WAIT_S = 240.0
PARTITIONS = 2
ROOT = Path(__file__).resolve().parents[4]


@contextmanager
def broker_in(directory: Path) -> Iterator[BrokerProcess]:
    # Records with timestamps of 1970 stay.
    made = BrokerProcess(directory / "broker", {**QUICK, "log.retention.ms": "-1"})
    try:
        yield made.start()
    finally:
        made.close()


def _wait_and_kill(processes: Sequence[psutil.Process]) -> None:
    """Let processes end; those that do not are killed. The scripts that start a JVM may leave it a child that has ended
    and that it never reaps.
    """
    running = []
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            if each.status() != psutil.STATUS_ZOMBIE:
                running.append(each)
    _, alive = psutil.wait_procs(running, timeout=30)
    for each in alive:
        with suppress(psutil.NoSuchProcess):
            each.kill()


class Program:
    """The driver, with its JVM and Python workers in a process group."""

    def __init__(
        self,
        directory: Path,
        files: Sequence[Path],
        bootstrap: str,
        *words: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = (directory / "program.log").open("ab")
        self._path = directory / "program.log"
        command = [sys.executable, "-m", "broker_streams", "run", *map(str, files), "-b", bootstrap, "--host", "spark"]
        state = ("-X", f"state.dir={directory / 'state'}")
        self.child = subprocess.Popen(
            [*command, *state, *words],
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )

    def text(self) -> str:
        return self._path.read_text()

    def check(self) -> None:
        assert self.child.poll() is None, self.text()

    def python_workers(self) -> list[int]:
        """Python processes that Spark started, which carry tasks out or plan batches."""
        found = psutil.Process(self.child.pid).children(recursive=True)
        return [each.pid for each in found if any(word.startswith("pyspark.") for word in each.cmdline())]

    def stop(self) -> int:
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(WAIT_S)

    def kill(self) -> None:
        """kill -9 of the driver. Its JVM sees that, and ends; tests do not wait for it."""
        descendants = psutil.Process(self.child.pid).children(recursive=True) if self.child.poll() is None else []
        self.child.kill()
        self.child.wait()
        _wait_and_kill(descendants)
        self._log.close()


@contextmanager
def program(directory: Path, files: Sequence[Path], bootstrap: str, *words: str) -> Iterator[Program]:
    made = Program(directory, files, bootstrap, *words)
    try:
        yield made
    finally:
        made.kill()


class WarmJvm:
    """A JVM that stays when its driver is killed: another driver starts in less of its CPU time. Queries and Python
    workers of the driver that died go on in it until `free`.
    """

    def __init__(self) -> None:
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        conf = SparkConf(loadDefaults=False).set("spark.driver.memory", "512m")
        conf.set("spark.log.level", "OFF")
        # The log of the JVM tells of each query that lost its driver.
        self._gateway: Any = launch_gateway(conf, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
        self.pid: int = self._gateway.proc.pid
        # A program finds it as under spark-submit.
        self.environment = {
            "PYSPARK_GATEWAY_PORT": str(self._gateway.gateway_parameters.port),
            "PYSPARK_GATEWAY_SECRET": self._gateway.gateway_parameters.auth_token,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def free(self) -> None:
        """End what a driver has left, with its Python workers."""
        before = psutil.Process(self.pid).children(recursive=True)
        companion = getattr(getattr(self._gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        active = companion.getActive()
        if active.isDefined():
            active.get().stop()
        _wait_and_kill(before)

    def close(self) -> None:
        process = psutil.Process(self.pid)
        left = process.children(recursive=True) if process.is_running() else []
        self._gateway.close()
        self._gateway.proc.kill()
        self._gateway.proc.wait()
        # Python workers end when they miss their JVM.
        _wait_and_kill(left)
