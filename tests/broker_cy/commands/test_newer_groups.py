"""`broker-cy groups` for consumer, share and streams groups, by its output."""

from __future__ import annotations

import pytest

from broker_cy.admin.metadata import TopicPartition
from tests.broker_cy.commands.conftest import Cli
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import FakeGroups, share_group


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """A cluster with a group of each type; every client of this process reaches it."""
    found = FakeGroups()
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


@pytest.fixture
def fake(bare: Cli, groups: FakeGroups) -> Cli:
    return lambda *arguments, code=0, stdin=None: bare(*arguments, "--bootstrap", "a:1", code=code, stdin=stdin)


def test_the_list_shows_type_and_protocol(fake: Cli) -> None:
    """If this fails, share and streams groups are missing, or look like groups of consumers."""
    assert [line.split() for line in fake("groups", "list").out.splitlines()] == [
        ["GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"],
        ["billing", "Reconciling", "consumer", "consumer", "1"],
        ["checkout", "Stable", "share", "share", "1"],
        ["enrich", "Reconciling", "streams", "streams", "1"],
        ["reports", "Empty", "classic", "connect", "1"],
    ]
    of_type = fake("groups", "list", "--type", "Share", "--type", "streams", "--json").json
    assert [each["group_id"] for each in of_type] == ["checkout", "enrich"]
    assert [each["group_id"] for each in fake("groups", "list", "--state", "empty", "--json").json] == ["reports"]


def test_a_consumer_group_shows_who_waits_for_whom(fake: Cli) -> None:
    """If this fails, a rebalance or a conversion that hangs does not show its cause."""
    shown = fake("groups", "describe", "billing").out
    head, *table = shown.splitlines()
    assert head.startswith("group billing: consumer, Reconciling, uniform, coordinator 1, 3 members, epoch 7, ")
    assert "conversion 2 of 3 members" in head
    assert table[0].split()[:3] == ["CLIENT", "ID", "PROTOCOL"]
    assert "gives up orders 2" in table[1]
    assert "rack-a" in table[1]
    assert "waits for orders 2 of worker-0" in table[2]
    assert "/ord.*/" in table[2]
    assert "pod-1" in table[2]
    assert "classic" in table[3]
    (group,) = fake("groups", "describe", "billing", "--json").json
    assert [member["protocol"] for member in group["members"]] == ["consumer", "consumer", "classic"]
    assert group["members"][0]["target"] == [{"topic": "orders", "partition": n} for n in (0, 1)]
    assert (group["group_epoch"], group["assignment_epoch"]) == (7, 7)


def test_a_share_group_shows_its_offsets(fake: Cli) -> None:
    """If this fails, the progress of a share group is not shown, or an unread partition has a lag."""
    shown = fake("groups", "describe", "checkout").out.splitlines()
    assert shown[0].startswith("group checkout: share, Stable, simple, coordinator 1, 2 members, epoch 4")
    offsets = [line.split() for line in shown[shown.index(next(line for line in shown if "START" in line)) :]]
    assert offsets[1:] == [["orders", "0", "40", "0", "12"], ["orders", "1", "-", "0", "-"]]
    (group,) = fake("groups", "describe", "checkout", "--json").json
    assert group["offsets"][0] == {"topic": "orders", "partition": 0, "start": 40, "leader_epoch": 0, "lag": 12}
    (lag,) = fake("lag", "checkout", "--json").json
    assert (lag["lag"], lag["complete"]) == (12, False)
    assert [each["lag"] for each in fake("lag", "--json").json] == [0, 12, 0, 0]


def test_a_share_group_that_has_read_nothing_shows_its_partitions(fake: Cli, groups: FakeGroups) -> None:
    """If this fails, a share group that does not get any record looks like one without partitions."""
    groups.share = {TopicPartition("orders", n): (-1, -1) for n in (0, 1)}
    shown = fake("groups", "describe", "checkout").out.splitlines()
    assert shown[-3].split() == ["TOPIC", "PARTITION", "START", "OFFSET", "LEADER", "EPOCH", "LAG"]
    assert [line.split() for line in shown[-2:]] == [["orders", "0", "-", "0", "-"], ["orders", "1", "-", "0", "-"]]
    assert fake("lag", "checkout").out.splitlines()[1].split() == ["checkout", "2", "-"]
    rows = [line.split() for line in fake("lag", "checkout", "--partitions", "--time").out.splitlines()[1:]]
    assert rows == [["checkout", "orders", str(n), "-", "60", "-", "-", "-"] for n in (0, 1)]
    (lag,) = fake("lag", "checkout", "--json").json
    assert (lag["lag"], lag["complete"]) == (None, False)
    assert lag["partitions"][0]["committed"] is None
    assert lag["partitions"][0]["lost"] == 0
    groups.share[TopicPartition("orders", 0)] = (40, 12)
    assert fake("lag", "checkout").out.splitlines()[1].split() == ["checkout", "2", "≥", "12"]


def test_a_streams_group_shows_its_topology_and_tasks(fake: Cli) -> None:
    """If this fails, it is not shown where a task runs, where it is to run, and which state has no copy."""
    shown = fake("groups", "describe", "enrich").out
    assert "topology epoch 2, 2 subtopologies, standbys 1 of 2 tasks with state" in shown
    assert "enrich-by-key-repartition" in shown
    assert "node-a:8080" in shown
    assert "waits for 1_1 of node-a" in shown
    (row,) = (line.split() for line in shown.splitlines() if line.startswith("1_1 "))
    assert row[:6] == ["1_1", "stateful", "node-a", "node-b", "process-a", "10.0.2.1"]
    (group,) = fake("groups", "describe", "enrich", "--json").json
    assert group["members"][0]["streams"]["tasks"]["active"][0] == {"subtopology": "0", "partition": 0}


def test_offsets_of_a_share_group_are_reset_and_deleted_without_members(fake: Cli, groups: FakeGroups) -> None:
    """If this fails, records of a share group are skipped while its members read, or cannot be read again."""
    reset = ["groups", "reset", "checkout", "--to-earliest"]
    assert "the group is Stable with 2 members (till-0, till-1); stop them first" in fake(*reset, "--yes", code=1).err
    groups.shared = share_group(members=0)
    (step,) = fake(*reset, "--dry-run", "--json").json
    assert (step["partition"], step["old"], step["new"]) == (0, 40, 0)
    fake("groups", "reset", "checkout", "--to-latest", "--topic", "orders:0-1", "--yes")
    assert {key.partition: start for key, (start, _) in groups.share.items()} == {0: 60, 1: 60}
    delete = ["groups", "delete-offsets", "checkout", "--yes", "--topic"]
    assert "forgets whole topics, and orders-1 is not selected" in fake(*delete, "orders:0", code=2).err
    assert fake(*delete, "orders").out == "deleted 2 committed offsets\n"
    assert groups.share == {}
    groups.share = {TopicPartition("orders", 0): (40, 12), TopicPartition("orders", 1): (-1, -1)}
    # It has not read the other partition yet.
    assert fake(*delete, "orders").out == "deleted 1 committed offset\n"


def test_a_missing_group_is_named(fake: Cli) -> None:
    """If this fails, an unknown group is reported as one of another type, or not at all."""
    error = fake("groups", "describe", "no-such-group", code=1).err
    assert "no-such-group" in error
    assert "GROUP_ID_NOT_FOUND" in error
