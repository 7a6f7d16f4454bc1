"""Six nodes of a migration, three of Kafka and three of broker-cy, and the commands of docs/migrating.md on them. The
commands run in a shell as the page shows them, with addresses of this machine instead of 10.0.0.N. The node's object
runs those that start and stop a node, because the process has to belong to the test.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.launch.nodes import CLUSTER_ID, broker_command
from broker_cy.core import uuid as uuids
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.launch.processes import ProcessError, run
from tests.support import kafka_tools
from tests.support.cluster import ClusterNode
from tests.support.kafka_peer import KafkaPeer
from tests.support.kafka_scripts import write_scripts
from tests.support.wait import until

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "migrating.md"
WAIT_S = 120.0
# Smaller than the defaults, and equal for both kinds.
COMMON = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_ADDRESS = re.compile(r"10\.0\.0\.(\d):(909[23])")
_PROGRAMS = ("broker-cy ", "kafka-", "systemctl ", "sed ")


class Kafka(KafkaPeer):
    """A Kafka node; its caller writes `server.properties` and formats it."""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(directory)
        self.node_id = number
        self.ready_timeout_s = 3 * WAIT_S
        self.choose_ports()

    @property
    def properties(self) -> Path:
        return self._properties

    def _write_properties(self) -> None:
        pass


class Ours(ClusterNode):
    """A broker-cy node; its caller writes `server.properties` and formats it."""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(directory, number, "broker,controller", {})
        self.choose_ports()


class Migration:
    """The nodes by number, and the state for running the page's commands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nodes: dict[int, Kafka | Ours] = {}
        self.environment = {"CLUSTER_ID": CLUSTER_ID}
        self.text = DOCUMENT.read_text()
        self._addresses: dict[tuple[int, str], str] = {}
        scripts = write_scripts(directory / "bin")
        (scripts / "broker-cy").write_text(f'#!/bin/sh\nexec {shlex.join(broker_command())} "$@"\n')
        (scripts / "broker-cy").chmod(0o755)
        self.path = f"{scripts}{os.pathsep}{os.environ['PATH']}"

    # --- nodes

    def add(self, node: Kafka | Ours) -> None:
        """Give the node the address 10.0.0.N of the page."""
        self.nodes[node.node_id] = node
        self._addresses[node.node_id, "9092"] = f"127.0.0.1:{node.port}"
        self._addresses[node.node_id, "9093"] = f"127.0.0.1:{node.controller_port}"

    def write_files(self, numbers: Sequence[int]) -> None:
        """Write the `server.properties` of nodes as the page shows them (its examples are those of nodes 1 and 4)."""
        for number in numbers:
            node = self.nodes[number]
            example = 1 if isinstance(node, Kafka) else 4
            blocks = re.findall(r"```ini\n(.*?)```", self.text, re.DOTALL)
            (text,) = [block for block in blocks if f"node.id={example}\n" in block]
            text = text.replace(f"node.id={example}", f"node.id={number}")
            text = re.sub(rf"(//10\.0\.0\.){example}:", rf"\g<1>{number}:", text)
            text = re.sub(r"^log\.dirs=.*", f"log.dirs={node.data_dir}", self.translated(text), flags=re.MULTILINE)
            node.directory.mkdir(parents=True, exist_ok=True)
            extra = {name: value for name, value in COMMON.items() if f"{name}=" not in text}
            node.properties.write_text(text + "".join(f"{name}={value}\n" for name, value in extra.items()))
            link = self.directory / f"server-{number}.properties"
            link.unlink(missing_ok=True)
            link.symlink_to(node.properties)

    def servers(self) -> str:
        """The bootstrap servers of all six nodes."""
        return ",".join(node.bootstrap for _, node in sorted(self.nodes.items()))

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    # --- commands

    def translated(self, text: str) -> str:
        """Return the text with the addresses of this machine."""
        return _ADDRESS.sub(lambda found: self._addresses[int(found[1]), found[2]], text)

    def commands(self, heading: str) -> list[list[str]]:
        """The commands of each block of a section, in order. AssertionError if the section does not exist."""
        sections = re.split(r"^## ", self.text, flags=re.M)
        (section,) = [each for each in sections if each.startswith(heading)]
        blocks = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", section, re.S)]
        for line in (line for block in blocks for line in block):
            assert line.startswith(_PROGRAMS), f"{heading}: what is {line}?"
        assert blocks, f"{heading} has no commands"
        return blocks

    def do(self, lines: Sequence[str]) -> str:
        """Run lines; returns the output of the last one. ProcessError if one fails."""
        said = ""
        for line in lines:
            began = time.monotonic()
            words = shlex.split(line)
            if words[0] == "kafka-server-stop.sh":
                self.stop(int(words[1].removeprefix("--node-id=")))
            elif words[:2] == ["systemctl", "stop"]:
                self.stop(int(words[2].removeprefix("broker-cy@")))
            elif words[0] == "kafka-server-start.sh" or words[:2] == ["broker-cy", "start"]:
                self.start(int(words[-1].removeprefix("server-").removesuffix(".properties")))
            elif "remove-controller" in words:
                said = self.remove_controller(line)
            else:
                said = self.run(line)
            print(f"{time.monotonic() - began:5.1f} s  {line}", flush=True)
        return said

    def run(self, line: str) -> str:
        """Run a line in a shell; returns its standard output."""
        return run(
            ["bash", "-o", "pipefail", "-c", self.translated(line)],
            cwd=self.directory,
            env={**os.environ, **self.environment, "PATH": self.path},
            timeout_s=WAIT_S,
        ).stdout.decode()

    def remove_controller(self, line: str) -> str:
        """Remove a controller as in the document, and repeat it after an election."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self.run(line)
            except ProcessError as error:
                if "NotLeaderOrFollowerException" not in str(error) or time.monotonic() > deadline:
                    raise

    def start(self, number: int) -> None:
        node = self.nodes[number]
        node.start()
        self.environment[f"DIRECTORY_ID_{number}"] = next(
            line.partition("=")[2]
            for line in (node.data_dir / "meta.properties").read_text().splitlines()
            if line.startswith("directory.id=")
        )
        alive = sum(each.alive() for each in self.nodes.values())
        until(lambda: brokers(node.port) == alive, f"{alive} brokers at node {number}", WAIT_S)

    def wipe(self, number: int) -> None:
        """Empty the directory of a node that does not run."""
        assert not self.nodes[number].alive()
        shutil.rmtree(self.nodes[number].data_dir)

    def stop(self, number: int) -> None:
        assert self.nodes[number].stop() == 0, self.nodes[number].tail()


def brokers(port: int) -> int:
    """The number of brokers that clients of a node see; 0 if it cannot be reached."""
    probe = ClusterNode.__new__(ClusterNode)
    probe.port = port
    return ClusterNode.brokers(probe)


@contextmanager
def migration(directory: Path, static_voters: bool) -> Iterator[Migration]:
    """Start Kafka's nodes 1 to 3, with voters in their files (`static_voters`) or in the log, and choose the addresses
    of three broker-cy nodes.
    """
    found = Migration(directory)
    kafka = [Kafka(directory / f"kafka-{number}", number) for number in (1, 2, 3)]
    for node in kafka:
        found.add(node)
    for number in (4, 5, 6):
        found.add(Ours(directory / f"ours-{number}", number))
    voters = {node: f"{node.node_id}@127.0.0.1:{node.controller_port}" for node in kafka}
    first = ",".join(f"{voter}:{uuids.to_text(MACHINE_RANDOMNESS.kafka_uuid())}" for voter in voters.values())
    options = [] if static_voters else ["--initial-controllers", first]

    def begin(node: Kafka) -> None:
        found.write_files([node.node_id])
        text = node.properties.read_text()
        # A cluster before any step of the migration.
        setting = f"voters={','.join(voters.values())}"
        if not static_voters:
            setting = "bootstrap.servers=" + ",".join(f"127.0.0.1:{other.controller_port}" for other in kafka)
        text = re.sub(r"controller\.quorum\.bootstrap\.servers=.*", f"controller.quorum.{setting}", text)
        node.properties.write_text(text)
        kafka_tools.run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", node.properties, *options)
        node.start()

    # Processes end with the thread that started them, so the threads stay until the end.
    with ThreadPoolExecutor(len(kafka)) as pool:
        try:
            list(pool.map(begin, kafka))
            until(lambda: all(brokers(node.port) == len(kafka) for node in kafka), "Kafka's brokers", WAIT_S)
            yield found
        finally:
            found.close()
