"""Kafka's own tools on a cluster of three nodes: the output of each command, without differences between two clusters.
Addresses become the names of nodes; ids of topics and directories, times and offsets become placeholders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from bench.launch.nodes import CLUSTER_ID
from broker_cy.client.errors import ClientError
from broker_cy.wire import messages
from tests.support.cluster import ClusterNode, ask, quorum
from tests.support.kafka_peer import KafkaPeer
from tests.support.kafka_scripts import SCRIPTS
from tests.support.kafka_tools import run_tool
from tests.support.wait import until

Nodes = Sequence[KafkaPeer | ClusterNode]
# Long enough for an election after the active controller died, on a busy machine.
SETTLED_S = 60.0
# Kafka's features that broker-cy does not serve: their lines are left out.
_ONLY_KAFKA = re.compile(r"^Feature: (group|share|streams)\.version.*\n", re.MULTILINE)
# These tools take the option before their subcommand.
_OPTION_FIRST = ("kafka-features.sh", "kafka-metadata-quorum.sh")
# An id may begin with a hyphen; an option begins with two.
_ID = re.compile(r"(?<![\w-])(?!--)[\w-]{22}(?![\w-])", re.ASCII)
# One id in a hundred has only letters, like long names.
_NAMED_ID = re.compile(r"(?<=directory\.id=)[\w-]{22}|(?<=TopicId: )[\w-]{22}", re.ASCII)


class ToolSession:
    """Runs tools with one cluster, and keeps their outputs."""

    def __init__(self, nodes: Nodes, directory: Path) -> None:
        self.nodes = nodes
        self.directory = directory
        self.transcript = ""
        self._names = {
            port: f"{name}-{number}"
            for number, node in enumerate(nodes, 1)
            for name, port in (("broker", node.port), ("controller", controller_port(node)))
        }

    def run(self, script: str, *arguments: str, at: int = 1, option: str = "--bootstrap-server") -> str:
        """Run a tool with node `at`, add its output to the transcript, and return it."""
        where = [option, self.nodes[at - 1].bootstrap] if option else []
        words = [*where, *arguments] if script in _OPTION_FIRST else [*arguments, *where]
        done = run_tool(SCRIPTS[script], *words, check=False)
        self._settle()
        said = self.plain((done.stdout + done.stderr).decode())
        shown = self.plain(" ".join([script, *arguments]))
        self.transcript += f"$ {shown}\n{said}[{done.returncode}]\n\n"
        return said

    def _settle(self) -> None:
        """Wait until all running nodes have applied all committed metadata: the next tool may ask another node."""
        ports = [node.port for node in self.nodes if node.alive()]
        committed = until(
            lambda: quorum(ports[0]).high_watermark,
            "the metadata quorum",
            SETTLED_S,
            tolerate=(ClientError, AssertionError),
        )
        until(
            lambda: all(_applied(port) >= committed - 1 for port in ports),
            "all nodes to have applied the metadata",
            SETTLED_S,
            tolerate=(ClientError,),
        )

    def json_file(self, name: str, content: object) -> str:
        """Write a file for a tool; returns its path."""
        path = self.directory / name
        path.write_text(json.dumps(content))
        return str(path)

    def plain(self, text: str) -> str:
        """Return the output without differences between two clusters."""
        for number, node in enumerate(self.nodes, 1):
            text = text.replace(str(node.directory), f"NODE-{number}")
        text = text.replace(str(self.directory), "FILES")
        for port, name in self._names.items():
            text = re.sub(rf"(?:127\.0\.0\.1|localhost):{port}\b", name, text)
            text = re.sub(rf"\b{port}\b", name, text)
        text = text.replace(CLUSTER_ID, "CLUSTER-ID")
        # Only Kafka's nodes have racks in these tests, and columns are as wide as the widest cell.
        # In a table the name is as wide as its column, and spaces follow "null".
        text = re.sub(r"\brack-\d\b(?=( ?))", r"null\1", text)
        text = re.sub(r"(?<=\S) {2,}", "  ", text)
        text = _NAMED_ID.sub("ID", text)
        text = _ID.sub(lambda found: found[0] if found[0].isalpha() else "ID", text)
        text = _ONLY_KAFKA.sub("", text)
        # The leading controller, and the offset of the metadata log.
        text = re.sub(r"(?<=Local controller )\d", "N", text)
        text = re.sub(r"(?<=Epoch: )\d+", "N", text)
        # The stack of a Java exception, and the place where it was logged.
        text = re.sub(r"^\s+at [\w.$/]+\(.*\)\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"^\t\.\.\. \d+ more\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"^\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]?", "TIME", text, flags=re.MULTILINE)
        # A JVM counts its clients: each recorded tool had its own JVM.
        text = re.sub(r"\badminclient-\d+", "adminclient-1", text)
        # The order of in-sync replicas has no meaning.
        text = re.sub(r"(?<=Isr: )[\d,]+", lambda found: ",".join(sorted(found[0].split(","))), text)
        text = re.sub(r"^\{.*\}$", lambda found: _sorted_json(found[0]), text, flags=re.MULTILINE)
        return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def _applied(port: int) -> int:
    """The offset of the metadata log up to which a broker has applied it."""
    asked = messages.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    offset: int = ask(port, asked, messages.ApiVersionsResponse).finalized_features_epoch
    return offset


def _sorted_json(line: str) -> str:
    """The document with its partitions in their order."""
    found = json.loads(line)
    for broker in found.get("brokers", ()):
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda each: str(each["partition"]))
    return json.dumps(found)


def controller_port(node: KafkaPeer | ClusterNode) -> int:
    return node.controller_port


def properties(node: KafkaPeer | ClusterNode) -> str:
    return str(node._properties if isinstance(node, KafkaPeer) else node.properties)
