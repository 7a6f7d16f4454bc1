"""Nodes of broker-cy and of Apache Kafka with two data directories each, the first one with the metadata log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.launch.nodes import CLUSTER_ID
from tests.support import kafka_tools
from tests.support.kafka_peer import KafkaPeer
from tests.support.mixed_cluster import MixedNode


def paths_of(node: MixedNode) -> tuple[Path, Path]:
    """The data directories of a node."""
    return node.data_dir, node.directory / "more"


def give_two_disks(nodes: Sequence[MixedNode]) -> None:
    """Write both directories into the settings of nodes that are not formatted yet."""
    for node in nodes:
        node.settings["log.dirs"] = ",".join(map(str, paths_of(node)))


def places(node: MixedNode, topic: str) -> dict[int, int]:
    """The directory of each partition of a topic by its number in `paths_of`, without copies and deleted ones."""
    found: dict[int, int] = {}
    for number, path in enumerate(paths_of(node)):
        for each in path.glob(f"{topic}-[0-9]*"):
            index = each.name.removeprefix(f"{topic}-")
            if index.isdigit():
                assert int(index) not in found, f"{each.name} is in two directories"
                found[int(index)] = number
    return found


def replace_second(node: MixedNode) -> None:
    """Put an empty, formatted disk in place of the second one of a node that does not run."""
    assert not node.alive()
    path = paths_of(node)[1]
    shutil.rmtree(path)
    if isinstance(node, KafkaPeer):
        words = ("format", "-t", CLUSTER_ID, "-c", str(node.directory / "server.properties"), "--ignore-formatted")
        kafka_tools.run_tool("kafka.tools.StorageTool", *words)
    else:
        node.format("--ignore-formatted")


def spoil_second(node: MixedNode) -> None:
    """Make the second disk of a node that does not run unreadable: Kafka and broker-cy start without it."""
    assert not node.alive()
    meta = paths_of(node)[1] / "meta.properties"
    meta.rename(meta.with_suffix(".gone"))
    meta.mkdir()


def mend_second(node: MixedNode) -> None:
    """Undo `spoil_second`."""
    assert not node.alive()
    meta = paths_of(node)[1] / "meta.properties"
    meta.rmdir()
    meta.with_suffix(".gone").rename(meta)
