"""Operating three nodes of ours: test_operating_kafka.py does more, with Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from tests.broker_cy.commands.conftest import TIMEOUT_S, Cli
from tests.support.cluster import cluster
from tests.support.wait import until


def test_a_broker_of_ours_is_drained_and_filled_again(bare: Cli, tmp_path: Path, name: str) -> None:
    """If this fails, a node of ours cannot be taken out of its cluster with our own tools."""
    with cluster(tmp_path) as nodes:
        where = ["--bootstrap", ",".join(node.bootstrap for node in nodes), "--timeout", str(TIMEOUT_S)]

        def held() -> dict[int, int]:
            return {each["broker_id"]: each["replicas"] for each in bare("brokers", "list", "--json", *where).json}

        assert len(bare("quorum", "show", "--json", *where).json["voters"]) == 3
        bare("topics", "create", name, "-p", "6", "-r", "2", *where)
        bare("produce", name, *where, stdin=b"record\n" * 100)
        assert bare("brokers", "drain", "3", "--throttle", "50M", "--yes", *where).out.startswith("moved ")
        until(lambda: held()[3] == 0, "no replica on broker 3", TIMEOUT_S)
        assert not bare("reassign", "status", "--json", *where).json["moving"]
        bare("reassign", "apply", "--add", "3", "--yes", *where)
        until(lambda: held()[3] > 0, "replicas on broker 3", TIMEOUT_S)
        bare("leaders", "elect", "--preferred", "--yes", *where)
        assert len(bare("consume", name, "-e", "-f", "%s\n", *where).out.splitlines()) == 100
