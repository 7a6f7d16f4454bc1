"""Controllers that become voters by themselves (controller.quorum.auto.join.enable, KIP-1186), as processes."""

from __future__ import annotations

import shutil
from pathlib import Path

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from tests.support.cluster import DynamicNode, create_topic, in_sync, quorum
from tests.support.wait import until


def test_new_controllers_and_one_whose_disk_was_replaced_join(tmp_path: Path) -> None:
    """If this fails, a controller with a new disk stays outside, or its lost disk is counted as a voter for ever."""
    settings = {"controller.quorum.auto.join.enable": "true"}
    nodes = [DynamicNode(tmp_path / f"node-{number}", number, "broker,controller", settings) for number in (1, 2, 3)]
    for node in nodes:
        node.choose_ports()
    try:
        for node in nodes:
            node.write_servers(",".join(each.controller for each in nodes))
            node.format("--standalone" if node is nodes[0] else "--no-initial-controllers")
            node.launch()
        first, _, last = nodes

        def voters() -> dict[int, object]:
            return {each.replica_id: each.replica_directory_id for each in quorum(first.port).current_voters}

        until(lambda: sorted(voters()) == [1, 2, 3], "three voters", 60, tolerate=(ClientError, AssertionError))
        until(lambda: first.brokers() == 3, "three brokers", 60)
        assert create_topic(first.port, "t", 1, 3) is ErrorCode.NONE
        before = voters()

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
    finally:
        for node in nodes:
            node.close()
