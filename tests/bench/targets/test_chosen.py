"""The targets that the options of the command line select."""

from __future__ import annotations

import socket
from pathlib import Path

from bench import cli
from bench.launch.nodes import free_ports
from bench.targets.chosen import chosen
from broker_cy.client.clusters import Wanted


def test_a_broker_that_is_down_is_passed_over(tmp_path: Path) -> None:
    """If this fails, a cluster with several bootstrap servers cannot be measured when the first of them is down."""
    away, other = (f"127.0.0.1:{port}" for port in free_ports(2))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there = listening.getsockname()
        (spec,) = chosen([], Wanted(bootstrap=f"{away},127.0.0.1:{there[1]}"), cli.find_target, tmp_path)
        assert spec.bootstrap == there
    (spec,) = chosen([], Wanted(bootstrap=f"{away},{other}"), cli.find_target, tmp_path)
    assert spec.bootstrap is not None
    assert str(spec.bootstrap[1]) == away.rpartition(":")[2]
