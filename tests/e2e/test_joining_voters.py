"""Controllers that become voters by themselves (controller.quorum.auto.join.enable, KIP-1186), as processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.launch.nodes import broker_command, free_ports
from broker_cy.client.errors import ClientError
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.core.properties import parse_properties
from broker_cy.launch.processes import run
from tests.support.cluster import DynamicNode, create_topic, in_sync, joined_voters, quorum
from tests.support.wait import until


def test_new_controllers_and_one_whose_disk_was_replaced_join(tmp_path: Path) -> None:
    """If this fails, a controller with a new disk does not become a voter, or its lost disk counts as a voter
    forever.
    """
    with joined_voters(tmp_path) as nodes:
        first, _, last = nodes

        def voters() -> dict[int, object]:
            return {each.replica_id: each.replica_directory_id for each in quorum(first.port).current_voters}

        before = voters()
        assert sorted(before) == [1, 2, 3]
        assert create_topic(first.port, "t", 1, 3) is ErrorCode.NONE

        last.kill()
        shutil.rmtree(last.data_dir)
        last.format("--no-initial-controllers")
        last.restart()

        def replaced() -> bool:
            now = voters()
            return sorted(now) == [1, 2, 3] and now[3] != before[3]

        until(replaced, "the new disk among the voters", 60, tolerate=(ClientError, AssertionError))
        assert {key: value for key, value in voters().items() if key != 3} == {1: before[1], 2: before[2]}
        until(
            lambda: in_sync(first.port, "t", 3),
            "its replica in sync",
            60,
            tolerate=(ClientError,),
        )
        assert [node.stop() for node in nodes] == [0, 0, 0]


@pytest.mark.full
def test_a_voter_whose_metadata_log_has_a_disk_of_its_own(tmp_path: Path) -> None:
    """If this fails, a node that was formatted with --standalone and metadata.log.dir waits for a quorum forever: the
    voter has the id of one directory, the node that of the other.
    """
    node = DynamicNode(tmp_path / "node", 1, "broker,controller", {"metadata.log.dir": str(tmp_path / "metadata")})
    node.choose_ports()
    node.write_servers(f"{node.controller},127.0.0.1:{free_ports(1)[0]}")
    node.format("--standalone")
    try:
        node.start()
        (voter,) = quorum(node.port).current_voters
        meta = parse_properties((tmp_path / "metadata" / "meta.properties").read_text())
        assert uuids.to_text(voter.replica_directory_id) == meta["directory.id"]
        assert not (node.data_dir / "__cluster_metadata-0").exists()
        assert node.stop() == 0
    finally:
        node.close()


@pytest.mark.full
def test_a_second_process_with_the_id_of_a_voter(tmp_path: Path) -> None:
    """If this fails, a node with a copied server.properties takes the vote of the original node, which takes it back,
    for as long as both run.
    """
    settings = {"controller.quorum.auto.join.enable": "true"}
    roles = {"first": "broker,controller", "second": "broker,controller", "copy": "broker,controller"}
    roles["controller"] = "controller"
    first, second, *copies = nodes = [
        DynamicNode(tmp_path / name, 1 if name == "first" else 2, role, settings) for name, role in roles.items()
    ]
    for node in nodes:
        node.choose_ports()
    try:
        for node in nodes:
            node.write_servers(f"{first.controller},{second.controller}")
            node.format("--standalone" if node is first else "--no-initial-controllers")
        for node in (first, second):
            node.launch()

        def voters() -> dict[int, object]:
            return {each.replica_id: each.replica_directory_id for each in quorum(first.port).current_voters}

        until(lambda: sorted(voters()) == [1, 2], "two voters", 60, tolerate=(ClientError, AssertionError))
        until(lambda: first.brokers() == 2, "two brokers", 60)
        before = voters()
        reason = f"runs, and answers at {second.controller}: this node has its node.id and another directory"
        copy, controller = copies
        done = run([*broker_command(), "start", "--config", copy.properties], timeout_s=90, check=False)
        assert done.returncode == 1, done
        assert reason in done.stderr.decode().strip().splitlines()[-1]
        # A node that is only a controller does not delay its start: it continues as an observer.
        controller.launch()
        until(lambda: reason in controller.stderr(), "the reason", 60)
        assert controller.stop() == 0
        assert voters() == before
        assert first.brokers() == 2
        assert [node.stop() for node in (second, first)] == [0, 0]
    finally:
        for node in nodes:
            node.close()
