"""Shared parts of the tests that operate three nodes, of ours or of Apache Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.broker_cy.commands.conftest import TIMEOUT_S, Cli, Said


class Node(Protocol):
    @property
    def bootstrap(self) -> str: ...


def bootstrap(nodes: Sequence[Node]) -> str:
    return ",".join(node.bootstrap for node in nodes)


def with_cluster(bare: Cli, nodes: Sequence[Node]) -> Cli:
    """Return a function that runs a command with the cluster."""

    def call(*arguments: str | Path, code: int = 0, stdin: bytes | None = None) -> Said:
        return bare(*arguments, "--bootstrap", bootstrap(nodes), "--timeout", str(TIMEOUT_S), code=code, stdin=stdin)

    return call


def replicas(run: Cli, topic: str) -> dict[int, list[int]]:
    """The replicas of each partition of a topic."""
    (described,) = run("topics", "describe", topic, "--json").json
    return {each["partition"]: each["replicas"] for each in described["partitions"]}
