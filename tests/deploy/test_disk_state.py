"""The programs and the unit behind several disks and the playbook replace_disk: the state of a mount point, the gate
with the replicas of one node out of sync, and the directories that are not formatted.
"""

from __future__ import annotations

import argparse
import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest

from tests.deploy.playbooks import COLLECTION

ROLES = COLLECTION / "roles"
HOST = runpy.run_path(str(ROLES / "preflight" / "files" / "preflight_host.py"))
GATE = runpy.run_path(str(ROLES / "broker" / "files" / "gate.py"))
PROBE = runpy.run_path(str(ROLES / "broker" / "files" / "probe.py"))


def foreign(path: Path, *directories: Path) -> list[str]:
    """The files at a mount point that are not of node 2."""
    return sorted(HOST["foreign"](str(path), [str(each) for each in directories], "2"))


def formatted(directory: Path, node_id: int) -> Path:
    """A directory of a node, with a log."""
    (directory / "orders-0").mkdir(parents=True)
    (directory / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id=x\n")
    return directory


def test_empty_disk_has_nothing_foreign(tmp_path: Path) -> None:
    """If this fails, no new disk is accepted."""
    (tmp_path / "lost+found").mkdir()
    assert foreign(tmp_path, tmp_path / "broker-cy") == []
    (tmp_path / "broker-cy").mkdir()
    assert foreign(tmp_path, tmp_path / "broker-cy") == []
    assert foreign(tmp_path, tmp_path) == [str(tmp_path)], "the directory itself is the mount point"


@pytest.mark.parametrize("name", ["broker-cy", "deep/broker-cy", "."])
def test_interrupted_replacement_continues(tmp_path: Path, name: str) -> None:
    """If this fails, a playbook that stopped after the format cannot be run again."""
    own = formatted(tmp_path / name, 2)
    assert foreign(tmp_path, own) == []


def test_data_on_a_new_disk_is_named(tmp_path: Path) -> None:
    """If this fails, the disk of another program or node is used, and its data is mixed with the broker's."""
    (tmp_path / "database").mkdir()
    assert foreign(tmp_path, tmp_path / "broker-cy") == [str(tmp_path / "database")]
    other = formatted(tmp_path / "broker-cy", 3)
    assert foreign(tmp_path, other) == [f"{other} of node 3", str(tmp_path / "database")]
    (other / "meta.properties").unlink()
    assert str(other) in foreign(tmp_path, other)


def test_mount_point_without_a_disk(tmp_path: Path) -> None:
    """If this fails, a path on the disk of the system counts as a new disk."""
    found = HOST["place"]({"path": str(tmp_path), "device": None, "directories": [], "node_id": 2})
    assert (found["source"], found["is_new"], found["disk"]) == ("", False, None)
    found = HOST["place"]({"path": str(tmp_path), "device": "/dev/not-there", "directories": [], "node_id": 2})
    assert (found["disk"]["state"], found["is_new"]) == ("absent", False)


def test_file_system_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, preflight blames the directory, and the operator does not learn which disk failed."""

    def fail(path: str) -> list[str]:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(os, "listdir", fail)
    mounted = [{"path": "/", "source": "/dev/sda", "type": "ext4", "options": "rw", "device": "8:0"}]
    found = HOST["directory"](str(tmp_path), mounted)
    assert found["error"] == "/ does not answer (Input/output error)"


def partition(number: int, in_sync: list[int]) -> dict[str, Any]:
    """An entry of `topics list --under-replicated --json`."""
    return {"topic": "orders", "partition": number, "replicas": [1, 2, 3], "in_sync_replicas": in_sync}


def gate(monkeypatch: pytest.MonkeyPatch, partitions: list[dict[str, Any]], **health: object) -> list[str]:
    """The findings of a gate that lets the replicas of node 2 be out of sync."""
    healthy = {"brokers_away": [], "offline_partitions": 0, "below_min_isr_partitions": 0, "partitions_moving": 0}
    voters = [{"replica_id": each, "last_fetch_ms": 0, "last_caught_up_ms": 0} for each in (1, 2, 3)]
    answers = {
        "cluster": {**healthy, "under_replicated_partitions": len(partitions), **health},
        "topics": partitions,
        "quorum": {"leader_id": 1, "voters": voters, "observers": []},
    }

    def answer(options: argparse.Namespace, *words: str) -> Any:
        return answers[words[0]]

    look: Callable[..., list[str]] = GATE["look"]
    monkeypatch.setitem(look.__globals__, "ask", answer)
    return look(argparse.Namespace(away=[], behind=[2], broker=[]))


def test_gate_lets_one_disk_be_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a failed disk keeps the gate of its own replacement closed."""
    assert gate(monkeypatch, [partition(0, [1, 3]), partition(1, [3, 1])]) == []


def test_gate_is_closed_for_replicas_of_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker is restarted while its replica is the second to last one."""
    (found,) = gate(monkeypatch, [partition(0, [1, 3]), partition(1, [1, 2])])
    assert found == "1 partitions lack a replica of another node, such as orders-1"


@pytest.mark.parametrize("health", [{"brokers_away": [2]}, {"offline_partitions": 1}, {"below_min_isr_partitions": 1}])
def test_gate_needs_the_node_itself(monkeypatch: pytest.MonkeyPatch, health: dict[str, object]) -> None:
    """If this fails, a restart takes the last replica of a partition away."""
    assert len(gate(monkeypatch, [partition(0, [1, 3])], **health)) == 1


def test_directories_to_format(tmp_path: Path) -> None:
    """If this fails, an added disk stays unformatted and the broker refuses its start, or a dead disk is formatted."""
    (tmp_path / "file").touch()
    # As of a dead disk, the error is another one than that of a missing file.
    dead = tmp_path / "file" / "broker-cy"
    wanted = [formatted(tmp_path / "own", 2), tmp_path / "new", dead]
    assert PROBE["unformatted"]([str(each) for each in wanted]) == [str(tmp_path / "new")]


def unit(required: list[str], optional: list[str]) -> list[str]:
    """The lines of a broker's unit with these directories."""
    source = (ROLES / "broker" / "templates" / "broker-cy.service.j2").read_text()
    directories = {
        "broker_data_directories": required + optional,
        "broker_required_directories": required,
        "broker_optional_directories": optional,
    }
    template = jinja2.Environment(trim_blocks=True).from_string(source)
    values = {"broker_own": {"id": 2}, "broker_environment": {}, "broker_files": {}, **directories}
    return template.render(values).splitlines()


def test_unit_of_a_broker_with_one_disk() -> None:
    """If this fails, the broker may write to the system, or starts before its disk is mounted."""
    found = unit(["/srv/data/broker-cy"], [])
    for line in ("RequiresMountsFor", "ReadWritePaths"):
        assert f"{line}=/srv/data/broker-cy" in found
    assert "ProtectSystem=strict" in found


def test_unit_of_a_broker_with_several_disks() -> None:
    """If this fails, systemd does not start the broker while one of its disks is missing or dead."""
    found = unit(["/srv/data/broker-cy"], ["/srv/more/broker-cy"])
    assert not any("/srv/more" in line for line in found)
    assert "RequiresMountsFor=/srv/data/broker-cy" in found
    assert "ProtectSystem=full" in found
