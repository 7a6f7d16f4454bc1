"""`broker-cy storage info`: the contents of a node's directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_cy.config import BrokerConfig
from broker_cy.core import uuid as uuids
from broker_cy.storage.data_directory import DataDirectory, DataDirectoryError, problem_of
from broker_cy.storage_tool.formatting import directories


def show(config: BrokerConfig, report: Callable[[str], None] | None) -> int:
    """Print the contents of the directories, and return the exit code. `report` gets each problem; None: they are
    printed as kafka-storage.sh does.
    """
    found: list[str] = []
    problems: list[str] = []
    first: DataDirectory | None = None
    for path in sorted(directories(config)):
        problem = problem_of(path)
        if problem is None or problem.endswith("formatted."):
            found.append(path)
        if problem is not None:
            problems.append(problem)
            continue
        directory = DataDirectory(path)
        try:
            directory.read_meta()
        except DataDirectoryError as error:
            problems.append(str(error))
            continue
        first = first or directory
        if directory.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif directory.node_id != first.node_id:
            problems.append("Mismatched node IDs between storage directories.")
        elif directory.node_id != config.node_id:
            problems.append(f"{path} belongs to node.id {directory.node_id}, and the file names {config.node_id}")
    if found:
        print(_listed("Found log director", found, "y", "ies"))
    if first is not None:
        print(f"Found metadata: {_metadata_of(first)}\n")
    if report is not None:
        for problem in problems:
            report(problem)
    elif problems:
        print(_listed("Found problem", problems, "", "s"))
    return 1 if problems else 0


def _metadata_of(directory: DataDirectory) -> str:
    """The content of meta.properties. Kafka before 3.7 gave directories no id."""
    values = {
        "cluster.id": directory.cluster_id,
        **({} if directory.directory_id == uuids.ZERO else {"directory.id": uuids.to_text(directory.directory_id)}),
        "node.id": directory.node_id,
        "version": 1,
    }
    return f"{{{', '.join(f'{name}={value}' for name, value in values.items())}}}"


def _listed(head: str, lines: Sequence[str], one: str, many: str) -> str:
    return f"{head}{one if len(lines) == 1 else many}:\n" + "".join(f"  {line}\n" for line in lines)
