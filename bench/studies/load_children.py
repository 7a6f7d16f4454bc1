"""`broker-load` and `broker-bench run` as child processes, for `bench.studies.load`."""

from __future__ import annotations

import json
import math
import shlex
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measuring import proc
from broker_cy.launch.processes import Child, ProcessError, run

TOPIC = "bench-load"
PARTITIONS = 4
RECORD_BYTES = 100
WARM_UP_S = 1.0
# The time to start, to connect, and to read back the records.
AROUND_S = 240.0
SAMPLE_S = 0.05
# Users that open idle connections: a single one would wait for each connection.
IDLE_USERS = 20
# The time for opening all of them.
IDLE_S = 120.0
# Exit codes of broker-load with complete figures: good, and the generator was the limit.
MEASURED = (0, 11)


@dataclass(frozen=True)
class Loaded:
    """One run of broker-load: `result` is its JSON document."""

    result: Mapping[str, Any]

    @property
    def _name(self) -> str:
        """The main operation of the run: the one with most requests."""
        operations: Mapping[str, Any] = self.result["operations"]
        return max(operations, key=lambda name: int(operations[name]["requests"]))

    @property
    def operation(self) -> Mapping[str, Any]:
        """Its figures."""
        found: Mapping[str, Any] = self.result["operations"][self._name]
        return found

    @property
    def requests_per_s(self) -> float:
        return self._rate("requests_per_s")

    @property
    def records_per_s(self) -> float:
        return self._rate("records_per_s")

    def _rate(self, column: str) -> float:
        """Return the mean over the seconds of the measured time. The whole run also includes overdue operations that
        were performed afterwards; if the rate is too high for the generator, these are most of them.
        """
        series, seconds = self.result["series"], float(self.result["seconds"])
        values: list[float] = series["operations"][self._name][column]
        return sum(value for at_s, value in zip(series["t_s"], values, strict=True) if at_s < seconds) / seconds

    @property
    def per_core_s(self) -> float:
        """Requests for each second of the generator's CPU. It is not a quotient of rates, because these have different
        durations: the CPU includes waiting for the last answers.
        """
        return float(self.operation["requests"]) / sum(float(each["cpu_s"]) for each in self.result["workers"])

    def latency_ms(self, name: str) -> float:
        """Return a figure of the latency, such as p99_ms."""
        return float(self.operation["latency"][name])

    @property
    def lateness_ms(self) -> float:
        """The 99th percentile of the generator's own delay."""
        return float(self.result["lateness"]["p99_ms"])


def producing(
    engine: str, *, users: int, rate: float | None = None, records: int = 1, options: str = "", verify: bool = True
) -> str:
    """Return a scenario of producers of values of RECORD_BYTES; without a rate they are as fast as the cluster."""
    paced = "" if rate is None else f'rate = "{rate:g}/s"\n'
    return (
        f'verify = "{"after" if verify else "off"}"\nwarm_up = "{WARM_UP_S:g}s"\n'
        f'[topic]\nname = "{TOPIC}"\npartitions = {PARTITIONS}\n'
        f'[[users]]\nkind = "producer"\ncount = {users}\nengine = "{engine}"\nrecords = {records}\n{paced}{options}\n'
        f'payload = {{ size = "{RECORD_BYTES} B" }}\n'
    )


def idle(connections: int) -> str:
    """Return a scenario of users that open this many connections, or a few more, and keep them."""
    each = -(-connections // IDLE_USERS)
    return (
        f'verify = "off"\nwarm_up = "0s"\n[topic]\nname = "{TOPIC}"\n'
        f'[[users]]\nkind = "connection-storm"\ncount = {IDLE_USERS}\nconnections = {each}\nhold = "1h"\n'
    )


class Running:
    """One broker-load as a child process, which the constructor starts."""

    def __init__(self, directory: Path, scenario: str, bootstrap: str, seconds: float) -> None:
        self._json, self._seconds = directory / "load.json", seconds
        self._json.unlink(missing_ok=True)
        path = directory / "scenario.toml"
        path.write_text(scenario)
        argv: list[str | Path] = [*_command(), "run", "--quiet", "--bootstrap", bootstrap, "--scenario", path]
        self.child = Child([*argv, "--duration", f"{seconds:g}s", "--json-file", self._json], directory, "broker-load")

    def finish(self) -> Loaded:
        """Wait for the end. Raises ProcessError unless its figures are complete and all data is correct."""
        try:
            code = self.child.wait(self._seconds + AROUND_S)
        finally:
            self.child.kill()
        if code not in MEASURED or not self._json.exists():
            said = f"{self.child.stdout()[-2000:]}{self.child.tail()}"
            raise ProcessError(f"broker-load ended with exit code {code}: {said}")
        loaded = Loaded(json.loads(self._json.read_text()))
        if failures := loaded.operation["failures"]:
            raise ProcessError(f"broker-load: {failures} requests failed: {loaded.operation['errors']}")
        for reason in loaded.result["generator"]["reasons"]:
            print(f"bench.studies.load: the generator was the limit: {reason}", file=sys.stderr)
        return loaded

    def hold(self, files: int, seconds: float) -> int:
        """Wait until this many files are open, and return the highest resident bytes in the `seconds` after that. The
        process is then ended early. Raises ProcessError if it ends before.
        """
        until_s, resident = math.inf, 0
        while (now_s := time.monotonic()) < until_s:
            try:
                sample = proc.sampled(self.child.pid)
            except OSError:
                raise ProcessError(f"broker-load ended before {files} files were open: {self.child.tail()}") from None
            if until_s == math.inf and sample.files >= files:
                until_s = now_s + seconds
            resident = max(resident, sample.resident_bytes)
            time.sleep(SAMPLE_S)
        self.child.send_signal(signal.SIGINT)
        return resident


def _command() -> list[str]:
    """Return the command for this interpreter's broker-load: the installed one, else the module of a source tree."""
    installed = Path(sys.executable).parent / "broker-load"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "loadgen"]


def load(directory: Path, scenario: str, bootstrap: str, seconds: float) -> Loaded:
    """Run broker-load to its end. Raises ProcessError."""
    return Running(directory, scenario, bootstrap, seconds).finish()


def bench_p99_ms(directory: Path, bootstrap: str, *, rate: float, connections: int, seconds: float) -> float:
    """Return the p99 of `broker-bench run` with one record in each request. Raises ProcessError."""
    path, out = directory / "workload.toml", directory / "bench.json"
    path.write_text(
        f'driver = "raw"\npartitions = {PARTITIONS}\n[records]\nsize = "{RECORD_BYTES} B"\n'
        f'[producers]\ncount = {connections}\nbatch = "1 B"\nacks = "all"\nrate = "{rate:g} requests/s"\n'
        f'[time]\nwarm_up = "{WARM_UP_S:g} s"\nduration = "{seconds:g} s"\n'
    )
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "bench.cli",
        "run",
        "-w",
        path,
        "-t",
        bootstrap,
        "--steady",
        "0 s",
        "--json-file",
        out,
    ]
    run(argv, timeout_s=seconds + AROUND_S)
    (found,) = json.loads(out.read_text())["runs"]
    if found["failed"]:
        raise ProcessError(f"{shlex.join(map(str, argv))}: {found['failed']}")
    return float(found["figures"]["p99_ms"])
