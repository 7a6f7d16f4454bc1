"""The commands that operate a cluster, against one in memory: previews, confirmation, exit codes and wrong input."""

from __future__ import annotations

import io
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.core.uuid import to_text
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from tests.broker_cy.commands.conftest import Cli, key
from tests.support.fake_cluster import BROKER, FakeCluster, Part


def types(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the user type `text` in a terminal."""
    stdin = io.StringIO(text)
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)


def test_a_drain_cordons_first_and_asks(bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, topics that are created during a drain get replicas on the drained broker."""
    preview = bare("brokers", "drain", "2", code=4).err
    assert "cordoned: takes no new replicas" in preview
    assert not cluster.configs
    types(monkeypatch, "n\n")
    assert "Nothing was changed" in bare("brokers", "drain", "2", code=4).err
    types(monkeypatch, "y\n")
    assert bare("brokers", "drain", "2").out == "moved 4 partitions, 1.2 KiB\n"
    assert cluster.configs[BROKER, "2"] == {"cordoned.log.dirs": "*"}
    assert not any(2 in part.replicas for part in cluster.parts.values())
    order = [
        type(each).__name__
        for each in cluster.asked
        if "Alter" in type(each).__name__ and not getattr(each, "validate_only", False)
    ]
    assert order[0] == "IncrementalAlterConfigsRequest"
    # With the broker gone, two brokers remain for two replicas: no third can be drained.
    refused = " ".join(bare("brokers", "drain", "1", code=2).err.split())
    assert "4 partitions of 1 topic (t) cannot move" in refused
    assert "add a broker first, or let them have fewer replicas (`brokers drain --shrink`)" in refused
    shrinking = bare("brokers", "drain", "1", "--shrink", "--dry-run", "--json").json
    assert [each["after"] for each in shrinking["changes"] if each["what"].startswith("t-")] == ["3"] * 4
    bare("brokers", "uncordon", "2", "--yes")
    bare("brokers", "drain", "1", "--no-cordon", "--yes")
    assert (BROKER, "1") not in cluster.configs


def test_a_broker_that_cannot_be_cordoned_is_drained_with_a_warning(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, a drain stops at a broker that does not support cordoning, or hides that it gets new replicas."""
    cluster.refuse[ApiKey.INCREMENTAL_ALTER_CONFIGS] = ErrorCode.INVALID_REQUEST
    assert "INVALID_REQUEST" in bare("brokers", "cordon", "2", "--yes", code=2).err
    shown = bare("brokers", "drain", "2", "--yes")
    assert "not cordoned, and may get new replicas" in shown.err
    assert shown.out == "moved 4 partitions, 1.2 KiB\n"


def test_the_last_broker_is_not_cordoned(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, an operator can unknowingly make the creation of topics impossible."""
    bare("brokers", "cordon", "1", "--yes")
    assert bare("brokers", "cordon", "1", "--yes").out == "broker 1 is cordoned already\n"
    bare("brokers", "cordon", "2", "--yes")
    assert "the last that takes replicas" in bare("brokers", "cordon", "3", "--yes", code=2).err
    listed = {each["broker_id"]: each["state"] for each in bare("brokers", "list", "--json").json}
    assert listed == {1: "cordoned", 2: "cordoned", 3: "in service"}


def test_a_broker_is_decommissioned_step_by_step(
    bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an operator does not learn the next step, or a running broker loses its registration."""
    first = bare("brokers", "decommission", "2", "--yes").out
    assert first.startswith("moved ")
    assert first.endswith("; stop broker 2 now, and repeat the command, which then removes its registration\n")
    assert not any(2 in part.replicas for part in cluster.parts.values())
    assert "holds no replica: stop broker 2 now" in bare("brokers", "decommission", "2", "--yes", code=2).err
    cluster.fenced = {2}
    types(monkeypatch, "2\n")
    assert bare("brokers", "decommission", "2").out == "removed the registration of broker 2\n"
    assert sorted(cluster.racks) == [1, 3]
    # Two brokers are left, and two replicas of each partition.
    assert "2" in bare("brokers", "decommission", "3", "--yes", code=2).err


def test_a_voter_that_is_decommissioned_is_named(
    bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a quorum still counts the controller of a removed broker, and the operator does not learn of
    it.
    """
    cluster.voters.append((2, UUID(int=102)))
    said = "node 2 is a voter of the metadata quorum: `broker-cy quorum remove 2`"
    assert said in bare("brokers", "decommission", "2", "--dry-run").err
    bare("brokers", "drain", "2", "--yes")
    assert said in bare("brokers", "decommission", "2", "--yes", code=2).err
    cluster.fenced = {2}
    assert said in bare("brokers", "decommission", "2", "--dry-run").err
    cluster.voters.pop()
    assert "voter" not in bare("brokers", "decommission", "2", "--dry-run").err
    # Kafka's brokers before 3.3 have no quorum.
    cluster.refuse[ApiKey.DESCRIBE_QUORUM] = ErrorCode.UNSUPPORTED_VERSION
    assert "voter" not in bare("brokers", "decommission", "2", "--dry-run").err


def test_a_broker_that_is_away_is_decommissioned_at_once(
    bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the registration of a lost broker stays, or is removed before its replicas are elsewhere."""
    cluster.fenced = {2}
    types(monkeypatch, "2\n")
    said = bare("brokers", "decommission", "2").out
    assert said.startswith("moved ")
    assert said.endswith("; removed the registration of broker 2\n")
    assert sorted(cluster.racks) == [1, 3]
    assert not any(2 in part.replicas for part in cluster.parts.values())


def test_a_partition_without_a_leader_does_not_hold_up_a_drain(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, a drain of a lost broker waits forever for records that only this broker has."""
    alone = Part((2,), 300)
    alone.leader = -1
    cluster.parts[key(4)], cluster.fenced = alone, {2}
    shown = bare("brokers", "drain", "2", "--yes", code=1)
    assert shown.out == "moved 4 partitions, 1.2 KiB\n"
    assert "stays: no leader to copy from" in shown.err
    assert "partition t-4: it has no leader to copy from: start a broker that has it (2)" in shown.err
    for words in (["brokers", "drain", "2"], ["brokers", "decommission", "2"], ["reassign", "apply", "--drain", "2"]):
        assert "(1 such partition)" in bare(*words, "--yes", code=2).err
    assert alone.target is None
    assert sorted(cluster.racks) == [1, 2, 3]
    cluster.parts.pop(key(4))
    assert bare("brokers", "drain", "2", "--yes").out.startswith("nothing to do")


def test_only_a_broker_without_replicas_is_unregistered(
    bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the cluster forgets a broker that has the last copy of something."""
    assert "in service: drain it, stop it" in bare("brokers", "unregister", "2", "--yes", code=2).err
    cluster.fenced = {2}
    assert "broker-cy brokers drain 2" in bare("brokers", "unregister", "2", "--yes", code=2).err
    bare("brokers", "drain", "2", "--yes")
    types(monkeypatch, "1\n")
    assert "Nothing was changed" in bare("brokers", "unregister", "2", code=4).err
    types(monkeypatch, "2\n")
    assert bare("brokers", "unregister", "2").out == "removed the registration of broker 2\n"
    assert sorted(cluster.racks) == [1, 3]


def test_an_unclean_election_asks_for_the_topic(
    bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, acknowledged records are thrown away with a key press."""
    assert "without a leader" in bare("leaders", "elect", "--unclean", "--topic", "t", "--yes", code=2).err
    part = Part((1, 2), 300, isr=(2,))
    part.leader = -1
    cluster.parts[key(1)] = part
    assert "needs one --topic" in bare("leaders", "elect", "--unclean", code=2).err
    assert "one of --preferred, --unclean" in bare("leaders", "elect", code=2).err
    assert "no partition 7; it has 0 to 3" in bare("leaders", "elect", "--unclean", "--topic", "t:7", code=2).err
    for typed in ("y\n", "\n", "T\n"):
        types(monkeypatch, typed)
        assert "Nothing was changed" in bare("leaders", "elect", "--unclean", "--topic", "t", code=4).err
    assert not cluster.kinds(messages.ElectLeadersRequest)
    preview = bare("leaders", "elect", "--unclean", "--topic", "t", "--dry-run", "--json").json
    assert "eligible none, last known eligible none" in preview["changes"][0]["note"]
    assert "waiting" not in preview["affected"]
    # Both left the in-sync set: the first one is eligible.
    cluster.min_isr, part.isr = 2, (2,)
    preview = bare("leaders", "elect", "--unclean", "--topic", "t", "--dry-run", "--json").json
    assert "in sync 2, eligible 1, last known eligible none" in preview["changes"][0]["note"]
    assert "waiting for broker 1, with an eligible replica of 1 partition, loses nothing" in preview["affected"]
    listed = bare("topics", "list", "--offline").rows()
    assert [row[0] for row in listed] == ["t"]
    types(monkeypatch, "t\n")
    shown = bare("leaders", "elect", "--unclean", "--topic", "t")
    assert shown.out == "elected the leaders of 1 partition\n"
    assert "acknowledged records may be lost" in shown.err
    (sent,) = cluster.kinds(messages.ElectLeadersRequest)
    assert (sent.election_type, sent.topic_partitions[0].partitions) == (1, [1])


def test_partitions_are_selected_by_all_options_together(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, of two options that name partitions of a topic only the last one counts."""
    for number in range(4):
        cluster.parts[key(number)].leader = cluster.parts[key(number)].replicas[1]
    only = ["--topic", "t:0", "--topic", "t:2-3"]
    shown = bare("leaders", "elect", "--preferred", *only, "--dry-run", "--json").json
    assert [each["what"] for each in shown["changes"]] == ["t-0", "t-2", "t-3"]
    for part in cluster.parts.values():
        part.target, part.copied = (3, part.replicas[1]), {3: -1_000_000}
    shown = bare("reassign", "cancel", *only, "--dry-run", "--json").json
    assert [each["what"] for each in shown["changes"]] == ["t-0", "t-2", "t-3"]
    whole = bare("reassign", "cancel", "--topic", "t:1", "--topic", "t", "--dry-run", "--json").json
    assert len(whole["changes"]) == 4


@pytest.mark.parametrize("words", [["leaders", "elect", "--preferred"], ["reassign", "cancel"]])
def test_an_unknown_topic_or_partition_is_no_success(bare: Cli, cluster: FakeCluster, words: list[str]) -> None:
    """If this fails, a typing error seems to have nothing to do, and the exit code is 0."""
    assert "topic u: UNKNOWN_TOPIC_OR_PARTITION" in bare(*words, "--topic", "u", "--yes", code=1).err
    assert "it has no partition 7; it has 0 to 3" in bare(*words, "--topic", "t:7", "--yes", code=2).err


def test_the_active_controller_is_named(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, an operator restarts another node than the active controller: brokers answer with any of them."""
    cluster.controller_id = 3
    assert bare("cluster", "describe", "--json").json["controller_id"] == 1
    shown = bare("cluster", "describe").out.splitlines()
    assert shown[0] == "cluster cluster, active controller 1"
    assert [line.split()[0] for line in shown if line.endswith("yes")] == ["1"]
    cluster.refuse[ApiKey.DESCRIBE_QUORUM] = ErrorCode.INVALID_REQUEST
    assert bare("cluster", "describe").out.startswith("cluster cluster, no active controller\n")


def test_health_has_an_exit_code(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, a script that watches the cluster reports it as healthy while writes are refused."""
    assert bare("cluster", "health", "--json").json["partitions"] == 4
    cluster.parts[key(0)] = Part((2, 1), 300, isr=(2,))
    assert bare("cluster", "health", "--json").json["under_replicated_partitions"] == 1
    cluster.fenced = {3}
    (away,) = [row for row in bare("cluster", "health", code=1).out.splitlines() if row.startswith("brokers away")]
    assert away.split() == ["brokers", "away", "broker", "3"]
    cluster.fenced = set()
    cluster.min_isr = 2
    assert bare("cluster", "health", "--json", code=1).json["below_min_isr_partitions"] == 1
    (shown,) = bare("topics", "list", "--below-min-isr", "--json").json
    assert (shown["partition"], shown["min_in_sync_replicas"]) == (0, 2)
    assert shown["eligible_leader_replicas"] == [1]
    table = bare("topics", "list", "--under-replicated").out.splitlines()
    assert table[0].split()[:3] == ["TOPIC", "PARTITION", "LEADER"]
    assert table[1].endswith("below min ISR, under-replicated")


def test_health_counts_the_voters(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, a quorum that the next failure leaves without a leader looks healthy."""
    now_ms = 1_700_000_000_000
    cluster.voters = [(each, UUID(int=100 + each)) for each in range(1, 6)]
    cluster.fetched_ms = dict.fromkeys(range(2, 6), now_ms - 500) | {1: now_ms}
    shown = bare("cluster", "health", "--json").json
    assert (shown["voters"], shown["voters_away"], shown["voters_to_spare"]) == (5, [], 2)
    assert "lost" not in bare("cluster", "health").out
    cluster.fetched_ms[3] = now_ms - 60_000
    shown = bare("cluster", "health", "--json", code=1).json
    assert (shown["voters"], shown["voters_away"], shown["voters_to_spare"]) == (5, [3], 1)
    assert "the metadata quorum has lost voter 3 of 5: it can lose 1 more" in bare("cluster", "health", code=1).out
    # One that has not fetched since the leader was elected.
    cluster.fetched_ms[5] = -1
    text = bare("cluster", "health", code=1).out
    assert [row.split()[2:] for row in text.splitlines() if row.startswith("voters away")] == [["voters", "3,", "5"]]
    assert "has lost voters 3, 5 of 5: it has no leader once another one is lost" in text
    # Kafka's brokers before 3.3 have no quorum.
    cluster.refuse[ApiKey.DESCRIBE_QUORUM] = ErrorCode.UNSUPPORTED_VERSION
    shown = bare("cluster", "health", "--json").json
    assert (shown["voters"], shown["voters_away"], shown["voters_to_spare"]) == (None, [], None)


def test_voters_are_added_and_removed(bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a controller that was replaced keeps its vote, or the wrong one loses it."""
    endpoint = ["--endpoint", "CONTROLLER://10.0.0.4:9093"]
    assert "does not follow the quorum (observers: none)" in bare("quorum", "add", "4", *endpoint, code=2).err
    assert "LISTENER://HOST:PORT is expected" in bare("quorum", "add", "4", "--endpoint", "10.0.0.4", code=2).err
    # Its directory was formatted again; the leader still shows the first one.
    cluster.observers = [(4, UUID(int=105)), (4, UUID(int=104))]
    other = ["--directory", to_text(UUID(int=106))]
    refused = bare("quorum", "add", "4", *endpoint, *other, "--yes", code=2).err
    assert (
        f"with another directory ({to_text(UUID(int=105))}, {to_text(UUID(int=104))}), not with {other[1]}" in refused
    )
    shown = bare("quorum", "add", "4", *endpoint, "--yes")
    assert "1 -> 2 voters: 2 of them have to be alive" in shown.err
    assert shown.out == "node 4 is a voter now\n"
    assert "a voter already" in bare("quorum", "add", "4", *endpoint, "--yes", code=2).err
    listed = bare("quorum", "show", "--json").json
    assert [each["directory_id"] for each in listed["voters"]] == [to_text(UUID(int=101)), to_text(UUID(int=104))]
    types(monkeypatch, "4\n")
    assert bare("quorum", "remove", "4").out == "node 4 is no longer a voter\n"
    assert "needs one voter" in bare("quorum", "remove", "1", "--yes", code=2).err
    assert "not a voter; the voters are 1" in bare("quorum", "remove", "4", "--yes", code=2).err


def test_an_observer_with_the_id_of_the_leader_is_no_leader(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, a quorum seems to have two leaders when a node was started with the id of another one."""
    cluster.observers = [(1, UUID(int=105))]
    lines = [line.split()[:2] for line in bare("quorum", "show").out.splitlines()]
    assert [line for line in lines if line[0] == "1"] == [["1", "leader"], ["1", "observer"]]


def test_a_cluster_that_is_read_only_is_not_changed(bare: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    """If this fails, the mark of the configuration file protects topics, but not brokers."""
    file = tmp_path / "clusters.toml"
    file.write_text('[clusters.p]\nbootstrap = "127.0.0.1:1"\nreadonly = true\n')
    where = ["--clusters-file", str(file), "--cluster", "p", "--yes"]
    for words in (["brokers", "drain", "2"], ["brokers", "cordon", "2"], ["reassign", "apply", "--add", "3"]):
        assert "marks it as readonly" in bare(*words, *where, code=1).err
    assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)
    assert not cluster.configs


def test_a_host_with_shards_is_one_row(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, an operator of hosts with many shards cannot see the hosts, or not their shards."""
    cluster.racks[1002] = "b"
    cluster.parts[key(4)] = Part((1002, 1), 300)
    rows = [line.split() for line in bare("brokers", "list").out.splitlines()]
    assert [row[0] for row in rows] == ["BROKER", "1", "2", "3"]
    assert rows[2][:3] == ["2", "+1", "127.0.0.1:2-1002"]
    assert rows[2][-8:-4] == ["3", "3", "5", "0"]
    opened = [line.split()[0] for line in bare("brokers", "list", "--shards").out.splitlines()]
    assert sorted(opened) == ["1", "1002", "2", "3", "BROKER"]
    found = {each["broker_id"]: each["shard_of"] for each in bare("brokers", "list", "--json").json}
    assert found == {1: None, 2: 2, 3: None, 1002: 2}
