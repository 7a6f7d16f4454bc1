"""The preflight with Ansible itself, on three hosts that are this machine; the lab's hosts are in test_tuning.py."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests.deploy.preflight import PORTS, brokers, local_inventory, play_here
from tests.support import needs

needs.require(needs.ansible)

# Runs the tests' Python with a clock that is 30 seconds ahead.
AHEAD = """#!/bin/sh
PYTHONPATH={directory} exec {python} "$@"
"""
SHIFTED = """import time
_now = time.time
time.time = lambda: _now() + 30
"""


@pytest.mark.full
def test_a_sound_inventory_passes(tmp_path: Path) -> None:
    """The play continues, the check has changed nothing, and its listeners are closed when it has ended."""
    inventory = local_inventory(tmp_path)
    # An option of a playbook that imports site.yml.
    played = play_here(tmp_path, inventory, "-e", "broker_replace=n1")
    assert played.code == 0, played.output
    assert played.changed
    for variables in brokers(inventory).values():
        for what in PORTS:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((variables["broker_address"], variables[f"broker_{what}_port"]), timeout=5)


def test_all_that_is_wrong_is_reported_at_once_and_nothing_is_changed(tmp_path: Path) -> None:
    """One run names each fault of an inventory with its remedy, and no host is changed afterwards."""
    inventory = local_inventory(tmp_path)
    hosts = brokers(inventory)
    hosts["n1"]["broker_log_dirs"] = ["/var/lib/broker-cy"]
    hosts["n1"]["broker_rack"] = "a"
    hosts["n2"]["broker_node_id"] = 1
    hosts["n2"]["broker_setings"] = {"log.retention.hours": 1}
    hosts["n3"]["broker_controller"] = False
    hosts["n3"]["broker_log_dirs"] = "many"
    hosts["n3"]["broker_metrics_port"] = "ninety"
    inventory["all"]["vars"]["preflight_skip"].remove("log_directories")
    shutil.rmtree(tmp_path / "wheelhouse")
    with socket.create_server(("127.0.0.1", hosts["n2"]["broker_client_port"])):
        played = play_here(tmp_path, inventory)
    assert played.code != 0
    assert not played.changed, "the next play ran"
    wanted = [
        ("[log_directories]", "n1", "/var/lib/broker-cy", "file system of /"),
        ("[racks]", "n2", "n3", "broker_rack"),
        ("[node_ids]", "n1", "n2", "broker_node_id 1"),
        ("[variables]", "n2", "broker_setings", "did you mean broker_settings?"),
        ("[voters]", "2 voters", "n1", "n2", "add a voter"),
        ("[types]", "n3", "broker_metrics_port is 'ninety'", "int"),
        ("[ports]", "n2", f"port {hosts['n2']['broker_client_port']}", "broker_client_port"),
        ("[wheelhouse]", str(tmp_path / "wheelhouse"), "build it"),
    ]
    for parts in wanted:
        assert played.says(*parts), f"{parts} is not in:\n{played.output}"


@pytest.mark.full
def test_check_mode_makes_the_same_checks(tmp_path: Path) -> None:
    """Operators try a run with --check first: it must not accept what the real run refuses."""
    inventory = local_inventory(tmp_path)
    brokers(inventory)["n3"]["broker_node_id"] = 2
    played = play_here(tmp_path, inventory, "--check", "--diff")
    assert played.code != 0
    assert played.says("[node_ids]", "n2 and n3", "broker_node_id 2")
    assert len([line for line in played.output.splitlines() if line.startswith("- [")]) == 1, played.output


@pytest.mark.full
def test_clocks_apart_are_refused(tmp_path: Path) -> None:
    """The hosts compare their clocks with each other; the message names the host that is ahead, and by how much."""
    (tmp_path / "ahead").mkdir()
    (tmp_path / "ahead" / "sitecustomize.py").write_text(SHIFTED)
    python = tmp_path / "python"
    python.write_text(AHEAD.format(directory=tmp_path / "ahead", python=sys.executable))
    python.chmod(0o700)
    inventory = local_inventory(tmp_path)
    brokers(inventory)["n2"]["preflight_python"] = str(python)
    played = play_here(tmp_path, inventory)
    assert played.code != 0
    assert not played.changed
    for other in ("n1", "n3"):
        assert played.says("[clock_difference]", "n2 is 30.0 s ahead", other, "synchronise"), played.output


@pytest.mark.full
def test_a_listener_that_nobody_reaches_is_refused(tmp_path: Path) -> None:
    """An address that is not the broker's own is found before clients connect to it."""
    inventory = local_inventory(tmp_path)
    # An address reserved for documentation (RFC 5737).
    brokers(inventory)["n2"]["broker_address"] = "192.0.2.1"
    played = play_here(tmp_path, inventory)
    assert played.code != 0
    assert not played.changed
    port = brokers(inventory)["n2"]["broker_client_port"]
    assert played.says("[reach]", "No host can reach", f"n2 at 192.0.2.1:{port}", "correct its broker_address"), (
        played.output
    )


@pytest.mark.full
def test_a_host_that_does_not_answer_is_reported_with_the_rest(tmp_path: Path) -> None:
    """One host that is down does not hide faults of the others, and the play stops."""
    inventory = local_inventory(tmp_path)
    hosts = brokers(inventory)
    hosts["n1"]["preflight_python"] = "/nonexistent/python"
    hosts["n2"]["broker_node_id"] = 3
    played = play_here(tmp_path, inventory)
    assert played.code != 0
    assert not played.changed
    assert played.says("[answers]", "n1", "did not answer", "--limit"), played.output
    assert played.says("[node_ids]", "n2 and n3"), played.output
