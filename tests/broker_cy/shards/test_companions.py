"""Programs beside the broker: `broker-cy start --with registry`."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.launch.shards import free_range
from broker_cy.launch.processes import Child, run
from broker_cy.shards.companions import environment_of
from tests.support.registry import Registry
from tests.support.wait import until

READY_S = 120.0
STOP_S = 30.0
STARTED = re.compile(r"started a program.*process=(\d+)")
SERVES = re.compile(r"listening on (http://\S+)")


@contextmanager
def running(directory: Path, *options: str, port: int = 0) -> Iterator[Child]:
    """Run a broker with a registry, at free ports unless `port` is given."""
    settings = directory / "schema-registry.properties"
    settings.write_text("listeners=http://127.0.0.1:0\n")
    command = [sys.executable, "-m", "broker_cy.cli", "start", "--data-dir", str(directory / "data")]
    command += ["--listener", f"127.0.0.1:{port}", "--with", f"registry={settings}", *options]
    broker = Child(command, directory, "broker")
    try:
        yield broker
    finally:
        broker.kill()


def processes(broker: Child) -> list[int]:
    """The process ids of the registries that were started."""
    return [int(each) for each in STARTED.findall(broker.stderr())]


def urls(broker: Child) -> list[str]:
    return SERVES.findall(broker.stderr())


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_for(broker: Child, count: int) -> Registry:
    """Wait until the registry has served `count` times."""

    def served() -> bool:
        assert broker.returncode is None, broker.tail()
        return len(urls(broker)) == count

    until(served, f"start {count} of the registry", READY_S)
    return Registry(urls(broker)[-1])


def test_a_registry_that_is_killed_serves_again(tmp_path: Path) -> None:
    """If this fails, a crash of the registry leaves producers without schemas until an operator notices it, or the
    registry goes on without its broker.
    """
    with running(tmp_path) as broker:
        registry = wait_for(broker, 1)
        assert registry.register("s", '{"type":"string"}').body["id"] == 1
        (pid,) = processes(broker)
        os.kill(pid, signal.SIGKILL)
        registry = wait_for(broker, 2)
        assert registry.get("/subjects") == ["s"]
        assert "killed by SIGKILL" in broker.stderr()
        # The ready line is all that programs read from the output of the broker.
        assert len(broker.stdout().splitlines()) == 1
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(STOP_S) == 0
        assert not is_alive(processes(broker)[-1])
        assert "Traceback" not in broker.stderr()


def test_a_registry_ends_with_its_broker(tmp_path: Path) -> None:
    """If this fails, the registry of a broker that crashed holds the port, and the next one cannot start."""
    with running(tmp_path) as broker:
        wait_for(broker, 1)
        (pid,) = processes(broker)
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), "the registry to end")


@pytest.mark.full
def test_shards_have_one_registry(tmp_path: Path) -> None:
    """If this fails, each shard starts a registry at the same port."""
    with running(tmp_path, "--shards", "2", port=free_range(2, "127.0.0.1")) as broker:
        registry = wait_for(broker, 1)
        assert registry.register("s", '{"type":"string"}').status == 200
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(STOP_S) == 0
        assert len(processes(broker)) == 1
        assert not is_alive(processes(broker)[0])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("connect", "unknown program 'connect'; known: registry"),
        ("registry,", "unknown program ''; known: registry"),
        ("registry,registry", "registry is named twice"),
        ("registry=/nowhere/file", "cannot read /nowhere/file"),
    ],
)
def test_wrong_programs_are_refused(value: str, reason: str, tmp_path: Path) -> None:
    """If this fails, a broker runs without the registry that its operator asked for."""
    command = [sys.executable, "-m", "broker_cy.cli", "start", "--data-dir", str(tmp_path), "--with", value]
    done = run(command, check=False)
    assert done.returncode == 2
    assert reason in done.stderr.decode()


def test_programs_reach_the_broker_of_their_parent() -> None:
    """If this fails, a variable of the operator's shell sends the registry to another cluster."""
    found = environment_of({"BROKER_CY_CLUSTER": "production", "PATH": "/bin"}, "127.0.0.1:9092")
    assert found == {"BROKER_CY_BOOTSTRAP": "127.0.0.1:9092", "PATH": "/bin"}
