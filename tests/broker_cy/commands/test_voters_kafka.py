"""Voters of a real Apache Kafka 4.3.1 quorum are added and removed, and its features are finalized."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import TIMEOUT_S, Cli
from tests.support import needs
from tests.support.kafka_cluster import dynamic_quorum
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.kafka]


def test_an_observer_becomes_a_voter_and_an_observer_again(bare: Cli, tmp_path: Path) -> None:
    """If this fails, a controller that broke cannot be replaced while the cluster runs."""
    with dynamic_quorum(tmp_path, 2) as (first, second):
        where = ["--bootstrap", f"{first.bootstrap},{second.bootstrap}", "--timeout", str(TIMEOUT_S)]

        def voters() -> list[int]:
            return [each["replica_id"] for each in bare("quorum", "show", "--json", *where).json["voters"]]

        assert voters() == [1]
        endpoint = f"CONTROLLER://{second.host}:{second.controller_port}"
        # The id of its directory is the one that it reports to the leader.
        said = bare("quorum", "add", "2", "--endpoint", endpoint, "--yes", *where)
        assert said.out == "node 2 is a voter now\n"
        until(lambda: voters() == [1, 2], "two voters", TIMEOUT_S)
        shown = bare("quorum", "show", "--json", *where).json["voters"][1]
        assert (shown["endpoints"][0]["port"], len(shown["directory_id"])) == (second.controller_port, 22)
        assert "is a voter already" in bare("quorum", "add", "2", "--endpoint", endpoint, "--yes", *where, code=2).err
        assert bare("quorum", "remove", "2", "--yes", *where).out == "node 2 is no longer a voter\n"
        until(lambda: voters() == [1], "one voter", TIMEOUT_S)


def test_features_are_lowered_and_raised_again(bare: Cli, tmp_path: Path) -> None:
    """If this fails, a migration from Kafka needs Kafka's scripts for its first step."""
    with dynamic_quorum(tmp_path, 1) as (node,):
        where = ["--bootstrap", node.bootstrap, "--timeout", str(TIMEOUT_S)]

        def level(name: str) -> int:
            found = bare("cluster", "features", "--json", *where).json
            return next(each["finalized"] or 0 for each in found if each["name"] == name)

        assert (level("group.version"), level("share.version")) == (1, 1)
        lower = ["cluster", "finalize", "group.version=0", "share.version=0"]
        assert [each["what"] for each in bare(*lower, "--dry-run", "--json", *where).json["changes"]] == [
            "group.version",
            "share.version",
        ]
        assert level("group.version") == 1
        said = bare(*lower, "--yes", *where).out
        assert said == "group.version is 0, share.version is 0 now\n"
        until(lambda: (level("group.version"), level("share.version")) == (0, 0), "the levels", TIMEOUT_S)
        assert bare(*lower, "--yes", *where).out == "the features have these levels already\n"
        bare("cluster", "finalize", "group.version=1", "--yes", *where)
        until(lambda: level("group.version") == 1, "the level", TIMEOUT_S)
        refused = bare("cluster", "finalize", "group.version=99", "--dry-run", *where, code=2).err
        assert "group.version: the broker supports levels 0 to 1, and not 99" in refused
        assert "no broker has this feature" in bare("cluster", "finalize", "no.version=1", *where, code=2).err
        assert "group.version=0" in bare("cluster", "finalize", "group.version=x", *where, code=2).err
