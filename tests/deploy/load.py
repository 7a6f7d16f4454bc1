"""Clients at work while playbooks change hosts: `broker-load` with the engine librdkafka, whose verdict counts, and a
consumer group with librdkafka.

Only errors that applications see count. Each of these clients retries by itself when a connection ends, or when a
broker answers that it no longer leads a partition or coordinates a group; the application gets an error only if retries
do not succeed in time. `broker-load`'s own engine (gevent) reports each such answer, because it has no retries: it
would count errors that no user of a Kafka client ever sees.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.deploy.lab import REPOSITORY, Lab
from tests.support.wait import until

# Longer than any playbook: the load ends on a signal.
LOAD_S = 3600
# Timeouts of the begin and of the end, including the verification of the records.
BEGIN_S, FIRST_S, END_S = 90.0, 10.0, 300.0
TOPIC = "years-load"

SCENARIO = f"""
description = "clients in their default settings while hosts change"
duration = "{LOAD_S}s"
warm_up = "0s"

[topic]
name = "{TOPIC}"
partitions = 12
replication_factor = 3
keep = true

[[users]]
kind = "producer"
name = "idempotent"
engine = "librdkafka"
idempotent = true
count = 4
rate = "{{rate}}/s"
[users.payload]
kind = "fixed"
size = "{{size}}"

[thresholds]
error_share = 0
lost = 0
duplicated = 0
reordered = 0
"""


@dataclass
class Verdict:
    """The clients' results; complete when the load has ended."""

    operations: dict[str, Any] = field(default_factory=dict)
    verification: list[dict[str, Any]] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    reader: dict[str, Any] = field(default_factory=dict)
    said: str = ""

    @property
    def acknowledged(self) -> int:
        return int(self.operations["Produce"]["requests"])

    @property
    def slowest_ms(self) -> float:
        return float(self.operations["Produce"]["latency"]["max_ms"])

    def check(self) -> None:
        """Check that no application got an error, and that each record exists once and in order."""
        failed = {name: each["errors"] for name, each in self.operations.items() if each["errors"]}
        assert not failed, (failed, self.said)
        assert not self.unmet, (self.unmet, self.said)
        assert self.acknowledged, self.said
        assert not self.reader["failed"], self.reader
        # The member started at the first record, and may have read a record twice after a rebalance.
        assert self.reader["read"] >= self.acknowledged * 0.9, (self.reader, self.acknowledged)

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} records acknowledged, slowest {self.slowest_ms:.0f} ms; {self.reader['read']} read; "
            f"reported to applications: {self.reader['failed'] or 'nothing'}; "
            f"for information: {self.reader['said'] or 'nothing'}"
        )


@contextmanager
def under_load(
    lab: Lab, config: Path, bootstrap: str, directory: Path, rate: int = 200, size: str = "100 B"
) -> Iterator[Verdict]:
    """Run clients; the verdict is complete after the block. `config` contains client settings with a login."""
    directory.mkdir(parents=True, exist_ok=True)
    scenario, result, output = directory / "load.toml", directory / "load.json", directory / "load.out"
    scenario.write_text(SCENARIO.format(rate=rate, size=size))
    result.unlink(missing_ok=True)
    verdict = Verdict()
    tools = Path(sys.executable).parent
    words: list[str | Path] = [tools / "broker-load", "run", "--bootstrap", bootstrap, "--command-config", config]
    words += ["--scenario", scenario, "--quiet", "--json-file", result]
    reader = [sys.executable, "-m", "tests.deploy.reader", str(config), bootstrap, TOPIC, "years-readers"]
    with ExitStack() as stack:
        log = stack.enter_context(output.open("wb"))
        load = subprocess.Popen(lab.ctl(*words), stdout=log, stderr=log, cwd=REPOSITORY)
        stack.callback(_end, load)
        until(lambda: _begun(lab, config, bootstrap, load, output), "records of the load", BEGIN_S, 1.0)
        # Earlier, it would report a topic that does not exist.
        group = subprocess.Popen(
            lab.ctl(*reader), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=REPOSITORY
        )
        stack.callback(_end, group)
        yield verdict
        # Like Ctrl-C: the users complete their requests, and the records are verified.
        load.send_signal(signal.SIGINT)
        load.wait(END_S)
        assert group.poll() is None, output.read_text()
        said, _ = group.communicate("", timeout=END_S)
    verdict.said = output.read_text()
    verdict.reader = json.loads(said)
    assert result.exists(), verdict.said
    found = json.loads(result.read_text())
    verdict.operations = found["operations"]
    verdict.verification = found["verification"]["partitions"]
    verdict.unmet = [each["text"] for each in found["thresholds"] if not each["is_met"]]


def _begun(lab: Lab, config: Path, bootstrap: str, load: subprocess.Popen[bytes], output: Path) -> bool:
    """Whether a record is written, which means that broker-load has found the cluster and its users work."""
    assert load.poll() is None, output.read_text()
    words: list[str | Path] = [Path(sys.executable).parent / "broker-cy", "consume", TOPIC, "--from", "end", "-c", "1"]
    words += ["--bootstrap", bootstrap, "--command-config", config]
    try:
        return subprocess.run(lab.ctl(*words), capture_output=True, timeout=FIRST_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
