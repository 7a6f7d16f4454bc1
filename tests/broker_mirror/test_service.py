"""`broker-mirror start` between two brokers, with flows of heartbeats only: shares, restarts, status and the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.launch.nodes import free_ports
from broker_cy.launch.processes import run
from tests.broker_mirror.conftest import Clusters
from tests.broker_mirror.mirror_process import running_mirror


def command(*arguments: str, code: int = 0) -> str:
    """Run `broker-mirror`, and return its output: the standard error too, if it fails."""
    found = run([sys.executable, "-m", "broker_mirror", *arguments], check=False)
    assert found.returncode == code, found
    return (found.stdout + found.stderr).decode()


def test_processes_of_a_file_share_a_flow(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, two processes copy the same partitions, or a flow has no process after one has ended."""
    properties = clusters.properties(A_to_B__enabled="false", A_to_B__emit__heartbeats__enabled="true")
    with running_mirror(properties, tmp_path, "one") as one:
        one.until("A->B", lambda flow: flow.leads and flow.share == "1 of 1", "the first process to have the flow")
        assert b'broker_mirror_leads{source="A",target="B"} 1' in one.get("/metrics")
        with running_mirror(properties, tmp_path, "two", ["--json"]) as two:
            ready = json.loads(two.child.stdout())
            assert ("A->B" in ready["flows"], ready["url"]) == (True, two.url)
            for each in (one, two):
                each.until("A->B", lambda flow: (flow.share or "").endswith(" of 2"), "both processes to have a share")
            assert [one.flow("A->B").leads, two.flow("A->B").leads].count(True) == 1
            address = two.url.removeprefix("http://")
            assert "A->B" in command("status", "--address", address)
            assert '"of 2"' not in command("status", "--address", address, "--json")
        one.until("A->B", lambda flow: flow.leads and flow.share == "1 of 1", "the first process to be alone again")
        assert one.flow("A->B").restarts == 0


def test_a_flow_without_its_cluster_is_started_again(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, one unreachable cluster ends the flows of all others, or its cause is not seen."""
    properties = clusters.properties(
        clusters="A,B,C",
        C__bootstrap__servers=f"127.0.0.1:{free_ports(1)[0]}",
        A_to_B__enabled="false",
        A_to_B__emit__heartbeats__enabled="true",
        A_to_C__emit__heartbeats__enabled="true",
    )
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->B", lambda flow: flow.leads, "the flow between reachable clusters")
        failed = mirror.until("A->C", lambda flow: flow.restarts > 0, "the other flow to be started again")
        assert "127.0.0.1" in failed.last_restarts[0].cause
        assert mirror.flow("A->B").restarts == 0


def test_errors_name_the_setting(tmp_path: Path) -> None:
    """If this fails, a user cannot see which line of the file is wrong."""
    file = tmp_path / "mm2.properties"
    file.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n")
    assert "no process is named: set brokercy.mirror.listener" in command("status", str(file), code=2)
    assert "--clusters names X" in command("start", str(file), "--clusters", "X", code=2)
    # As in MirrorMaker 2.
    assert "--clusters names X" in command("start", str(file), "--clusters", "A", "X", code=2)
    assert "unexpected extra argument (X)" in command("start", str(file), "X", code=2)
    file.write_text("clusters=A,B\nbrokercy.mirror.listener=nowhere\n")
    assert "brokercy.mirror.listener" in command("status", str(file), code=2)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    away = json.loads(command("status", "--address", address, "--json", code=3))["error"]
    assert (away["failure"], away["reason"]) == ("unreachable", "connection refused: no process listens there")
