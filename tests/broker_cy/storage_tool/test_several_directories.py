"""`broker-cy storage` on a node with several data directories, beside kafka-storage.sh."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.core.properties import parse_properties
from broker_cy.storage_tool import command as storage_tool
from tests.support import kafka_tools, needs

from .test_storage_tool import CLUSTER, STATIC, files, properties

# Exit code, and the lines of both streams. Kafka formats directories in the order of a hash table.
Said = tuple[int, list[str], list[str]]
Tool = Callable[..., Said]
_DIRECTORY_ID = re.compile(r"directory\.id=[\w-]{22}")


def said(code: int, out: str, err: str) -> Said:
    out = _DIRECTORY_ID.sub("directory.id=ID", out)
    lines = [line for line in out.splitlines() if not line.startswith("Bootstrap metadata")]
    return code, sorted(lines), sorted(err.splitlines())


@pytest.fixture
def ours(capfd: pytest.CaptureFixture[str]) -> Tool:
    def run(*arguments: object) -> Said:
        code = storage_tool.run([str(each) for each in arguments])
        return said(code, *capfd.readouterr())

    return run


def theirs(*arguments: object) -> Said:
    done = kafka_tools.run_tool("kafka.tools.StorageTool", *map(str, arguments), check=False)
    return said(done.returncode, done.stdout.decode(), done.stderr.decode())


def node(path: Path, **changes: str) -> Path:
    """The file of a node with the directories a, b and c."""
    found = {**STATIC, "log.dirs": ",".join(str(path / name) for name in "abc"), **changes}
    return properties(path, found)


def replace_a_disk(path: Path) -> None:
    shutil.rmtree(path / "b")
    (path / "b").mkdir()


def lose_a_disk(path: Path) -> None:
    """The path is no directory, which a program notices as it does an I/O error."""
    shutil.rmtree(path / "b")
    (path / "b").write_text("")


@needs.kafka
@pytest.mark.parametrize("metadata", [None, "b", "apart"])
@pytest.mark.parametrize("change", [None, replace_a_disk, lose_a_disk])
def test_the_same_as_kafkas_tool(
    tmp_path: Path, ours: Tool, metadata: str | None, change: Callable[[Path], None] | None
) -> None:
    """If this fails, an operator cannot add or replace a disk as with Kafka, or the directories differ from those that
    Kafka's tool formats.
    """
    path = tmp_path / "node"
    file = node(path, **({"metadata.log.dir": str(path / metadata)} if metadata else {}))
    found = []
    for tool in (ours, theirs):
        results = [tool("info", "-c", file), tool("format", "-c", file, "-t", CLUSTER)]
        if change is not None:
            change(path)
        results += [
            tool("info", "-c", file),
            tool("format", "-c", file, "-t", CLUSTER, "--ignore-formatted"),
            tool("info", "-c", file),
            tool("format", "-c", file, "-t", CLUSTER, "--ignore-formatted"),
        ]
        content = {name: data for name, data in files(path).items() if name != "server.properties"}
        # Kafka's tool also logs an unreadable directory, with the stack of the error.
        found.append(([each[:2] for each in results], sorted(content)))
        ids = [
            parse_properties(data.decode())["directory.id"]
            for name, data in content.items()
            if name.endswith("meta.properties")
        ]
        assert len(set(ids)) == len(ids) == (4 if metadata == "apart" else 3) - (change is lose_a_disk)
        for each in path.iterdir():
            if each.name != "server.properties":
                shutil.rmtree(each) if each.is_dir() else each.unlink()
    assert found[0] == found[1]


def test_directories_of_two_nodes(tmp_path: Path, ours: Tool) -> None:
    """If this fails, a disk of another node becomes a part of this one, or an operator does not learn why it starts
    only without that disk.
    """
    path = tmp_path / "node"
    file = node(path)
    assert ours("format", "-c", file, "-t", CLUSTER)[0] == 0
    meta = path / "b/meta.properties"
    right = meta.read_text()
    meta.write_text(right.replace("node.id=1", "node.id=2"))
    assert "  Mismatched node IDs between storage directories." in ours("info", "-c", file)[1]
    code, _, err = ours("format", "-c", file, "-t", CLUSTER, "-g")
    assert (code, err[0].startswith(f"Stored node id 2 doesn't match previous node id 1 in {meta}")) == (1, True)
    other = "x" * 22
    meta.write_text(right.replace(CLUSTER, other))
    assert "  Mismatched cluster IDs between storage directories." in ours("info", "-c", file)[1]
    expected = f"Invalid cluster.id in: {meta}. Expected {CLUSTER}, but read {other}"
    assert ours("format", "-c", file, "-t", CLUSTER, "-g") == (1, [], [expected])


def test_no_directory_can_be_read(tmp_path: Path, ours: Tool) -> None:
    """If this fails, a script takes a node without any usable disk for a formatted one."""
    path = tmp_path / "node"
    path.mkdir()
    for name in "abc":
        (path / name).write_text("")
    code, out, err = ours("format", "-c", node(path), "-t", CLUSTER, "-g")
    assert (code, err) == (1, ["No available log directories to format."])
    assert out == [f"I/O error trying to read log directory {path}/{name}. Ignoring..." for name in "abc"]
