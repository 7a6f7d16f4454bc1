"""Programs that tests fork are processes as those that they execute."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.launch.nodes import broker_command
from broker_cy.client.program import EXIT_USAGE
from broker_cy.launch.processes import Child, end_within, kill_group, start_child
from tests.support import forking
from tests.support.broker import BrokerProcess
from tests.support.tiers import IS_FULL

pytestmark = pytest.mark.skipif(IS_FULL, reason="make test-all forks no programs")


def test_a_broker_has_its_own_session_and_ends_with_its_code(tmp_path: Path) -> None:
    """If this fails, tests stop or kill other processes than the broker they mean, or wait for one that has ended."""
    broker = BrokerProcess(tmp_path)
    try:
        broker.start()
        assert isinstance(broker.child, forking.ForkedChild)
        assert os.getpgid(broker.pid) == broker.pid != os.getpgid(0)
        assert broker.child.returncode is None
        assert broker.stop() == 0
        broker.restart()
        broker.kill()
        assert broker.child.returncode == -signal.SIGKILL
    finally:
        broker.close()


def test_a_command_has_its_environment_directory_and_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a program that a test starts reads other files or variables than one of a user."""
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    (tmp_path / "given.properties").write_text(
        f"config.providers=env\nconfig.providers.env.class={provider}\nnum.partitions=${{env:PARTITIONS_OF_THE_TEST}}\n"
    )
    monkeypatch.setenv("PARTITIONS_OF_THE_TEST", "many")
    command = [*broker_command(), "start", "--config", "given.properties"]
    done = forking.run(command, tmp_path / "outputs", 60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (EXIT_USAGE, b"")
    # The value comes from the variable; without it, the error would name the variable.
    assert b"line 3: Invalid value [hidden] for configuration num.partitions: Not a number" in done.stderr


def test_what_a_fork_would_change_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, options of the interpreter and prefixes of commands have no effect in tests."""
    version = [*broker_command(), "start", "--help"]
    children = [forking.start(["env", *version], tmp_path, "wrapped")]
    monkeypatch.setenv("PYTHONUTF8", "1")
    children.append(forking.start(version, tmp_path, "other"))
    for child in children:
        assert type(child) is Child
        assert child.wait(60) == 0


def test_a_process_with_the_id_of_one_that_has_ended_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a program that the kernel gives the id of a killed one is reported as killed at its start."""
    theirs: list[socket.socket] = []

    def start_child(_argv: Sequence[str], *, stdin: int, **_settings: object) -> subprocess.Popen[bytes]:
        theirs.append(socket.socket(fileno=os.dup(stdin)))
        return subprocess.Popen(["true"])

    monkeypatch.setattr(forking, "start_child", start_child)
    parent = forking.Parent("broker_cy")
    try:
        for message in ({"pid": 7}, {"ended": 7, "code": -signal.SIGKILL}, {"pid": 7}):
            theirs[0].send(json.dumps(message).encode())
        first, second = (parent.fork([], tmp_path, tmp_path, {}, tmp_path) for _ in range(2))
        assert (first[1], second[1]) == (7, 7)
        assert (parent.code(first[0]), parent.code(second[0])) == (-signal.SIGKILL, None)
        theirs[0].send(json.dumps({"ended": 7, "code": 0}).encode())
        assert (parent.code(first[0]), parent.code(second[0])) == (-signal.SIGKILL, 0)
    finally:
        parent.close()
        theirs[0].close()


def test_a_stranger_with_the_id_of_a_reaped_process_is_not_killed() -> None:
    """If this fails, the end of a test kills a process of another test that got the id of one that had ended."""
    stranger = start_child(["sleep", "60"])
    try:
        kill_group(stranger.pid, is_reaped=True)
        assert stranger.poll() is None
        kill_group(stranger.pid, is_reaped=False)
        assert stranger.wait(10) == -signal.SIGKILL
        kill_group(stranger.pid, is_reaped=True)
    finally:
        end_within(stranger, 0)
