"""Three processes, three replicas of everything: brokers are killed, stopped and frozen while real clients work.

Afterwards every acknowledged record exists once, committed offsets never went back, and a transactional copy has each
input once (tests/history/checker.py).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.cluster_work import DisturbedWork
from tests.support.cluster import DISTURBED, ClusterNode, cluster

FROZEN_S = 3.0


class Disturbances(DisturbedWork):
    """Disturbs the nodes one at a time."""

    def disturb(self, what: str, node: ClusterNode, act: Callable[[ClusterNode], None]) -> None:
        """Disturb a node, wait until all clients make progress, bring the node back, and wait until all replicas are in
        sync.
        """
        self.go_on()
        self.steady.gap_s = dict.fromkeys(self.inputs, 0.0)
        also = ", also the active controller" if node is self.controller() else ""
        print(f"{what}: node {node.node_id}{also}", flush=True)
        began = time.monotonic()
        act(node)
        self.go_on()
        gaps = " ".join(f"{gap:.2f}" for gap in self.steady.gap_s.values())
        print(f"    all clients went on after {time.monotonic() - began:.2f} s; longest gaps of partitions: {gaps} s")
        if not node.alive():
            node.restart()
            print(f"    back after {time.monotonic() - began:.2f} s")
        print(f"    all in sync after {self.in_sync():.2f} s")
        self.go_on()


def kill(node: ClusterNode) -> None:
    node.kill()


def stop(node: ClusterNode) -> None:
    assert node.stop() == 0


def freeze(node: ClusterNode) -> None:
    os.kill(node.pid, signal.SIGSTOP)
    try:
        time.sleep(FROZEN_S)
    finally:
        os.kill(node.pid, signal.SIGCONT)


def run(tmp_path: Path, rounds: int) -> None:
    with cluster(tmp_path, settings=DISTURBED) as nodes:
        work = Disturbances(nodes)
        try:
            for _ in range(rounds):
                work.disturb("the leader is killed", work.leader(), kill)
                work.disturb("the coordinator of the copier is killed", work.coordinator("copier", 1), kill)
                work.disturb("the active controller is killed", work.controller(), kill)
                work.disturb("a broker is stopped", work.coordinator("members", 0), stop)
                work.disturb("a broker stands still", work.leader(), freeze)
            work.finish()
            for node in nodes:
                assert "Traceback" not in node.stderr(), node.stderr()
        finally:
            work.stop()


@pytest.mark.full
def test_clients_of_a_disturbed_cluster(tmp_path: Path) -> None:
    """If this fails, a cluster loses or repeats records, offsets or transactions when one of its brokers fails."""
    run(tmp_path, 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_clients_of_a_disturbed_cluster_for_long(tmp_path: Path) -> None:
    """The same with more rounds, for rare interleavings."""
    run(tmp_path, 20)
