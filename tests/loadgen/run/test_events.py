"""The events of a run, from a broker's own topic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.loadgen.users.kit import run_users
from tests.support.broker import Target

# Importing the module starts gevent's hub, so a separate process asks.
ASK = """
import sys
from loadgen.net.connection import NetError
from loadgen.run.events import ClusterEvents
try:
    ClusterEvents([("127.0.0.1", int(sys.argv[1]))], 5.0)
except NetError as error:
    print("NetError", error.name)
"""
GROUP = """
[[users]]
kind = "group-member"
name = "members"
group = "{topic}"
count = 2
heartbeat_interval_ms = 100
churn = "leave"
churn_every = "500ms"
rejoin_after = "0s"
"""


@pytest.mark.full
def test_a_run_has_the_events_of_its_cluster(either_broker: Target, tmp_path: Path) -> None:
    """If this fails, the report does not mark rebalances, or marks those of earlier runs."""
    for topic in ("events-first", "events-second"):
        found = run_users(tmp_path, either_broker, topic, GROUP.format(topic=topic))
        if either_broker.target == "kafka":
            assert found.events == ()
            continue
        rebalances = [each for each in found.events if each.kind == "rebalance"]
        assert rebalances
        assert all(each.text.startswith(f"{topic}: generation ") for each in rebalances)
        assert [each.second for each in found.events] == sorted(each.second for each in found.events)
        assert all(-1.5 <= each.second <= found.seconds + 10 for each in rebalances)


def test_a_cluster_that_cannot_be_reached_is_an_error(own_broker: Target) -> None:
    """If this fails, a run against an unavailable cluster fails with a stack trace."""
    own_broker.stop()
    command = [sys.executable, "-c", ASK, str(own_broker.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["NetError", "CONNECTION_FAILED"]
