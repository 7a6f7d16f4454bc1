"""The directories of shards on several disks, before their processes start."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.config import shard_plan
from broker_cy.config.shard_plan import Plan
from broker_cy.core.properties import parse_properties
from broker_cy.shards.node_directory import format_new
from broker_cy.storage import shard_directories
from broker_cy.storage.data_directory import DataDirectory, DataDirectoryError


def plan_of(root: Path, shards: int = 2) -> Plan:
    return shard_plan.make(
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9192",
            "controller.quorum.voters": "1@localhost:9192",
            "log.dirs": f"{root}/a,{root}/b",
            "metadata.log.dir": f"{root}/m",
        },
        shards,
    )


def formatted(root: Path) -> dict[str, tuple[str, str]]:
    """(node.id, cluster.id) of each directory of a shard."""
    found = {}
    for file in sorted(root.glob("*/shard-*/meta.properties")):
        values = parse_properties(file.read_text())
        found[str(file.parent.relative_to(root))] = values["node.id"], values["cluster.id"]
    return found


def format_all(plan: Plan, running: tuple[int, ...] = ()) -> None:
    ids = count(1_000)
    format_new(plan, running, True, lambda: UUID(int=next(ids)))


def test_each_shard_has_a_directory_on_each_disk(tmp_path: Path) -> None:
    """If this fails, shards share a directory, or belong to different clusters."""
    plan = plan_of(tmp_path)
    assert plan.roots == (f"{tmp_path}/m", f"{tmp_path}/a", f"{tmp_path}/b")
    assert plan.root == f"{tmp_path}/m"
    format_all(plan)
    found = formatted(tmp_path)
    assert {place: node_id for place, (node_id, _) in found.items()} == {
        f"{name}/shard-{shard}": node_id for name in "abm" for shard, node_id in enumerate(("1", "1001"))
    }
    assert len({cluster_id for _, cluster_id in found.values()}) == 1
    # The directories of a further shard join the cluster.
    format_all(plan_of(tmp_path, 3))
    assert {**formatted(tmp_path), **found} == formatted(tmp_path)
    assert len({cluster_id for _, cluster_id in formatted(tmp_path).values()}) == 1
    assert len(formatted(tmp_path)) == 9


def test_a_missing_disk_is_not_replaced(tmp_path: Path) -> None:
    """If this fails, the parent fills the disk below the mount point, and the shards start empty there."""
    plan = plan_of(tmp_path)
    format_all(plan)
    shutil.rmtree(tmp_path / "b")
    format_all(plan)
    assert not (tmp_path / "b").exists()
    # The shards decide: docs/architecture-storage.md.
    (tmp_path / "b/shard-0").mkdir(parents=True)
    format_all(plan)
    assert list((tmp_path / "b/shard-0").iterdir()) == []


def test_a_shard_that_another_process_has(tmp_path: Path) -> None:
    """If this fails, two processes write to one directory."""
    plan = plan_of(tmp_path)
    format_all(plan)
    holder = DataDirectory(f"{tmp_path}/b/shard-1")
    holder.lock()
    with pytest.raises(DataDirectoryError, match="in use"):
        format_all(plan)
    format_all(plan, (1,))
    holder.close()


def test_the_content_of_each_disk_is_checked(tmp_path: Path) -> None:
    """If this fails, a broker without shards, or a shard that would not run, is overlooked on the second disk."""
    plan = plan_of(tmp_path)
    shard_directories.check(plan)
    format_all(plan_of(tmp_path, 3))
    shutil.rmtree(tmp_path / "a/shard-2")
    shutil.rmtree(tmp_path / "m/shard-2")
    with pytest.raises(DataDirectoryError, match=r"b/shard-2 has the data of shard 2, which would not run"):
        shard_directories.check(plan)
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").write_text("not a directory, as after an error of the disk")
    shard_directories.check(plan)
    (tmp_path / "b").unlink()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/meta.properties").touch()
    with pytest.raises(DataDirectoryError, match=r"b is that of a broker without shards"):
        shard_directories.check(plan)
