"""Nodes that permanently leave the metadata quorum while they serve: each exits by itself, with the reason and the
remedy.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from tests.support.cluster import DynamicNode, joined_voters, quorum
from tests.support.raw_wire import METADATA, Connection, array
from tests.support.wait import until

END_S = 60.0


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[DynamicNode]]:
    """Three voters of a quorum with kraft.version 1; the first one leads."""
    with joined_voters(tmp_path, {"controller.quorum.fetch.timeout.ms": "10000"}) as found:
        yield found


def leader_and_others(nodes: list[DynamicNode]) -> tuple[DynamicNode, list[DynamicNode]]:
    leader_id = quorum(nodes[1].port).leader_id
    return nodes[leader_id - 1], [node for node in nodes if node.node_id != leader_id]


def ends(node: DynamicNode) -> str:
    """Return the last line of a node that exits by itself."""
    assert node.child.wait(END_S) == 1, node.child.stderr()
    said = node.child.stderr()
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert last.startswith("broker-cy: ")
    return last


@pytest.mark.full
@pytest.mark.parametrize("epoch", ["the same", "a newer"])
def test_a_wiped_disk_that_was_formatted_as_a_quorum_of_its_own(nodes: list[DynamicNode], epoch: str) -> None:
    """If this fails, a node that served clients in its own separate quorum keeps running and serving them without a
    metadata quorum, or with records of two quorums.
    """
    if epoch == "a newer":
        nodes[0].kill()
        until(
            lambda: quorum(nodes[1].port).leader_epoch > 1,
            "another leader",
            END_S,
            tolerate=(ClientError, AssertionError),
        )
        nodes[0].restart()
        until(lambda: all(node.brokers() == 3 for node in nodes), "three brokers", END_S)
    leader, (follower, wiped) = leader_and_others(nodes)
    wiped.kill()
    shutil.rmtree(wiped.data_dir)
    wiped.format("--standalone")
    # The other nodes send nothing before this node is ready, which takes less than their fetch timeout.
    frozen = [leader, follower]
    for node in frozen:
        os.kill(node.pid, signal.SIGSTOP)
    try:
        wiped.restart()
        assert wiped.brokers() == 1
        with Connection((wiped.host, wiped.port), END_S) as client:
            for node in frozen:
                os.kill(node.pid, signal.SIGCONT)
            last = ends(wiped)
            with pytest.raises((EOFError, OSError)):
                client.ask(METADATA, 1, array([]))
    finally:
        for node in frozen:
            os.kill(node.pid, signal.SIGCONT)
    assert "the metadata quorum is not consistent" in last
    assert "format those of a node that joins others with --no-initial-controllers" in last
    # The other nodes continue, and the remedy works.
    shutil.rmtree(wiped.data_dir)
    wiped.format("--no-initial-controllers")
    wiped.restart()
    until(lambda: all(node.brokers() == 3 for node in nodes), "three brokers", END_S)


@pytest.mark.full
def test_files_of_the_metadata_log_that_cannot_be_changed(nodes: list[DynamicNode]) -> None:
    """If this fails, a voter whose metadata disk has failed seems to serve, and is not restarted."""
    leader, (failing, other) = leader_and_others(nodes)
    obstacle = failing.data_dir / "__cluster_metadata-0" / "quorum-state.tmp"
    obstacle.mkdir()
    # A new leader needs both votes, and a vote has to be on the disk.
    leader.kill()
    last = ends(failing)
    assert "the files of the metadata log cannot be changed" in last
    assert "restart the broker when they can" in last
    obstacle.rmdir()
    failing.restart()
    until(lambda: all(node.brokers() >= 2 for node in (failing, other)), "both brokers", END_S)
