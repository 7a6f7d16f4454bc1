"""The commands of topics, groups, transactions and the cluster by their output, against a real broker."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, ShareConsumer

from broker_cy.wire import messages as m
from tests.broker_cy.commands.conftest import Cli, NewTopic, in_terminal
from tests.support.broker import Target, target_is_kafka
from tests.support.cluster import ask
from tests.support.confluent import close_consumer, new_consumer, take
from tests.support.wait import until


def by_name(said: Any) -> dict[str, Any]:
    return {each["name"]: each for each in said.json}


def own_settings(said: Any) -> dict[str, str]:
    """Return the topic's own settings; Kafka adds min.insync.replicas if it tracks eligible leaders (KIP-966)."""
    own = {each["name"]: each["value"] for each in said.json if each["source"] == "DYNAMIC_TOPIC_CONFIG"}
    own.pop("min.insync.replicas", None)
    return own


def test_the_life_of_a_topic(broker_cy: Cli, broker: Target, name: str) -> None:
    """If this fails, a topic cannot be created, shown, cloned, grown or deleted; or is deleted without confirmation."""
    shape = ["-p", "3", "--set", "retention.ms=1000", "--set", "cleanup.policy=compact"]
    assert "would create" in broker_cy("topics", "create", name, *shape, "--dry-run").out
    assert (
        broker_cy("topics", "create", name, *shape).out
        == f"created topic {name} with 3 partitions, replication factor 1\n"
    )
    assert "TOPIC_ALREADY_EXISTS" in broker_cy("topics", "create", name, code=1).err
    listed = by_name(broker_cy("topics", "list", "--match", f"{name}.*", "--json"))
    assert (listed[name]["partitions"], listed[name]["replication_factor"]) == (3, 1)
    table = broker_cy("topics", "list", "--match", name).out.splitlines()
    assert table[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "OFFLINE", "UNDER-REPLICATED", "ID"]
    assert table[1].split()[:5] == [name, "3", "1", "0", "0"]
    broker_cy("produce", name, "-p", "1", "-k", "key", stdin=b"x\n" * 5)
    described = broker_cy("topics", "describe", name, "no-such-topic", "--json", code=1)
    offsets = [(each["partition"], each["earliest"], each["latest"]) for each in described.json[0]["partitions"]]
    assert offsets == [(0, 0, 0), (1, 0, 5), (2, 0, 0)]
    failure = json.loads(described.err)["error"]
    assert (failure["code"], failure["what"]) == ("UNKNOWN_TOPIC_OR_PARTITION", "topic no-such-topic")
    assert broker_cy("topics", "describe", name).rows()[1][-1].strip() == "5"

    clone = f"{name}-clone"
    assert f"created topic {clone} with 2 partitions" in broker_cy("topics", "clone", name, clone, "-p", "2").out
    assert own_settings(broker_cy("configs", "describe", "topic", clone, "--json")) == {
        "retention.ms": "1000",
        "cleanup.policy": "compact",
    }

    assert "INVALID_PARTITIONS" in broker_cy("topics", "grow", name, "--to", "3", "--yes", code=1).err
    assert "3 -> 5" in broker_cy("topics", "grow", name, "--to", "5", "--dry-run").err
    grown = broker_cy("topics", "grow", name, "--to", "5", "--yes", "--json").json
    assert (grown["partitions_before"], grown["partitions"]) == (3, 5)

    preview = broker_cy("topics", "delete", name, "--dry-run").err
    assert f"{name}" in preview
    assert preview.splitlines()[-1].split()[:3] == [name, "5", "5"]
    broker_cy("topics", "delete", name, code=4)
    answered = in_terminal(["topics", "delete", name, "--bootstrap", broker.bootstrap], b"n\n")
    assert answered.code == 4
    assert name in by_name(broker_cy("topics", "list", "--json"))
    answered = in_terminal(["topics", "delete", name, "--bootstrap", broker.bootstrap], b"y\n")
    assert answered.code == 0, answered.screen
    gone = broker_cy("topics", "delete", clone, "no-such-topic", "--yes", "--json", code=1)
    assert gone.json == {"deleted": [clone]}
    assert not {name, clone} & set(by_name(broker_cy("topics", "list", "--json")))


def test_settings(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, a setting is shown wrongly, or changed without confirmation, or with others."""
    topic = new_topic()
    describe = ["configs", "describe", "topic", topic, "--json"]
    assert own_settings(broker_cy(*describe)) == {}
    everything = by_name(broker_cy("configs", "describe", "topic", topic, "--all", "--json"))
    assert everything["retention.ms"]["source"] == "DEFAULT_CONFIG"
    alter = ["configs", "alter", "topic", topic]
    changes = ["--set", "retention.ms=5", "--append", "cleanup.policy=compact"]
    preview = broker_cy(*alter, *changes, code=4).err
    assert ["retention.ms", "604800000", "set", "5"] in [line.split() for line in preview.splitlines()]
    assert own_settings(broker_cy(*describe)) == {}
    broker_cy(*alter, *changes, "--yes")
    both = {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    # A broker of Apache Kafka learns of a change a moment after the controller has accepted it.
    until(lambda: own_settings(broker_cy(*describe)) == both, "the change", interval_s=0.1)
    broker_cy(*alter, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete", "--yes")
    until(lambda: own_settings(broker_cy(*describe)) == {"cleanup.policy": "compact"}, "the change", interval_s=0.1)
    assert "INVALID_CONFIG" in broker_cy(*alter, "--set", "retention.ms=x", "--yes", code=1).err
    assert "nothing to change" in broker_cy(*alter, code=2).err
    assert "NAME=VALUE is expected" in broker_cy(*alter, "--set", "x", code=2).err
    docs = broker_cy("configs", "describe", "topic", topic, "--name", "retention.ms", "--docs").out
    assert "DOCUMENTATION" in docs
    broker_settings = by_name(broker_cy("configs", "describe", "broker", "1", "--all", "--json"))
    assert broker_settings["node.id"]["is_read_only"] is True
    assert "a number is expected" in broker_cy("configs", "describe", "broker", "one", code=2).err
    assert "'topic', 'broker', 'group', 'logger'" in broker_cy("configs", "describe", "queue", "x", code=2).err


UNKNOWN_SETTING = "invalid config(s) to delete: no.such.setting"


def test_settings_that_do_not_exist_are_not_deleted(broker_cy: Cli, new_topic: NewTopic, name: str) -> None:
    """If this fails, a misspelt name is reported as a change, and the setting stays."""
    topic = new_topic()

    def refused(kind: str, of: str, *more: str) -> str:
        return broker_cy("configs", "alter", kind, of, *more, "--delete", "no.such.setting", "--yes", code=2).err

    said = refused("topic", topic, "--set", "retention.ms=5")
    assert f"topic {topic}: {UNKNOWN_SETTING}; the settings are " in said
    assert "cleanup.policy, " in said
    assert own_settings(broker_cy("configs", "describe", "topic", topic, "--json")) == {}
    assert f"group {name}: {UNKNOWN_SETTING}; the settings are " in refused("group", name)
    assert "consumer.session.timeout.ms" in refused("group", name)
    assert f"client metrics {name}: {UNKNOWN_SETTING}" in refused("client-metrics", name)
    assert UNKNOWN_SETTING in refused("broker", "1")
    assert UNKNOWN_SETTING in refused("broker", "default")
    assert "no.such.setting" in broker_cy("configs", "alter", "logger", "1", "--delete", "no.such.setting", code=1).err
    near = broker_cy("configs", "alter", "broker", "1", "--delete", "log.retention.hour", "--yes", code=2).err
    assert "similar ones are log.retention.hours" in near
    assert "broker-cy configs describe broker 1 --all" in near
    # A setting that has no value of its own is what it is asked to be.
    assert (
        "changed 1 setting"
        in broker_cy("configs", "alter", "group", name, "--delete", "share.heartbeat.interval.ms", "--yes").out
    )


def test_groups_are_reset_by_every_rule(broker_cy: Cli, new_topic: NewTopic, name: str, tmp_path: Path) -> None:
    """If this fails, a reset commits other offsets than its preview shows, or than its rule means."""
    topic, other = new_topic(2), new_topic(1)
    for partition, number in itertools.product((0, 1), range(10)):
        stamp = str(1_700_000_000_000 + number * 1000)
        if number % 5 == 0:
            broker_cy("produce", topic, "-p", str(partition), "--timestamp", stamp, stdin=b"x\n" * 5)

    def reset(*options: str | Path, group: str = name) -> list[tuple[int, int | None, int]]:
        """Return the planned changes; asserts that they were made."""
        planned = broker_cy("groups", "reset", group, *options, "--dry-run", "--json").json
        broker_cy("groups", "reset", group, *options, "--yes")
        (lag,) = broker_cy("lag", group, "--json").json
        committed = {(each["topic"], each["partition"]): each["committed"] for each in lag["partitions"]}
        assert all(committed[each["topic"], each["partition"]] == each["new"] for each in planned)
        return [(each["partition"], each["old"], each["new"]) for each in planned]

    assert "committed nothing: specify the topics" in broker_cy("groups", "reset", name, "--to-latest", code=2).err
    refused = broker_cy("groups", "reset", name, "--from-group", f"{name}-3", code=2).err
    assert f"group {name}-3: the group has committed nothing\n" in refused
    assert reset("--to-offset", "3", "--topic", f"{topic}:0") == [(0, None, 3)]
    assert reset("--to-latest", "--topic", topic) == [(0, 3, 10), (1, None, 10)]
    assert reset("--shift-by", "-4") == [(0, 10, 6), (1, 10, 6)]
    assert reset("--to-time", "1700000003000", "--topic", f"{topic}:1") == [(1, 6, 5)]
    assert reset("--by-duration", "1h", "--topic", f"{topic}:1") == [(1, 5, 10)]
    assert reset("--to-earliest") == [(0, 6, 0), (1, 10, 0)]
    assert reset("--to-offset", "99") == [(0, 0, 10), (1, 0, 10)]
    offsets = tmp_path / "offsets.csv"
    offsets.write_text(f"{topic},0,2\n\n{topic},1,4\n")
    assert reset("--from-file", offsets) == [(0, 10, 2), (1, 10, 4)]
    assert reset("--from-group", name, group=f"{name}-2") == [(0, None, 2), (1, None, 4)]
    shown = broker_cy("groups", "reset", name, "--to-offset", "99", "--dry-run").out
    assert shown.splitlines()[1].split() == [topic, "0", "2", "10", "+8", "0", "moved", "into", "the", "log"]
    assert "the standard input is not a terminal" in broker_cy("groups", "reset", name, "--to-latest", code=4).err
    assert (
        "no committed offset to shift"
        in broker_cy("groups", "reset", name, "--shift-by", "1", "--topic", other, code=2).err
    )
    offsets.write_text(f"{topic},zero,2\n")
    assert f"line 1, '{topic},zero,2'" in broker_cy("groups", "reset", name, "--from-file", offsets, code=2).err
    for rules in ([], ["--to-latest", "--to-earliest"]):
        assert "specify exactly one of --to-" in broker_cy("groups", "reset", name, *rules, code=2).err


def test_a_consumer_group_with_members(broker_cy: Cli, broker: Target, new_topic: NewTopic, name: str) -> None:
    """If this fails, a group of the newer protocol (KIP-848) is not shown, has no lag, or is reset while it reads."""
    topic = new_topic(1)
    broker_cy("produce", topic, stdin=b"x\n" * 5)
    consumer = new_consumer(broker.bootstrap, name, client_id="the-client", group_protocol="consumer")
    try:
        consumer.subscribe([topic])
        take(consumer, 5)
        consumer.commit(asynchronous=False)
        broker_cy("produce", topic, stdin=b"x\n" * 2)
        listed = broker_cy("groups", "list", "--type", "consumer", "--json").json
        assert [each["state"] for each in listed if each["group_id"] == name] == ["Stable"]
        head, columns, member = broker_cy("groups", "describe", name).out.splitlines()
        assert head.startswith(f"group {name}: consumer, Stable, uniform, coordinator 1, 1 member, epoch ")
        assert columns.split()[-3:] == ["SUBSCRIPTION", "PARTITIONS", "ASSIGNED"]
        assert member.split()[-4:] == [topic, "1", topic, "0"]
        assert broker_cy("lag", name, "--json").json[0]["lag"] == 2
        assert "1 member (the-client); stop them" in broker_cy("groups", "reset", name, "--to-latest", code=1).err
    finally:
        close_consumer(consumer)
    until(lambda: broker_cy("groups", "describe", name, "--json").json[0]["state"] == "Empty", "the group to be empty")
    broker_cy("groups", "reset", name, "--to-latest", "--yes")
    assert broker_cy("lag", name, "--json").json[0]["lag"] == 0
    assert broker_cy("groups", "delete", name, "--yes", "--json").json == {"deleted": [name]}


def test_a_share_group_with_members(broker_cy: Cli, broker: Target, new_topic: NewTopic, name: str) -> None:
    """If this fails, share groups are not shown, have no lag, or are reset while their members read."""
    topic = new_topic(1)
    broker_cy("configs", "alter", "group", name, "--set", "share.auto.offset.reset=earliest", "--yes")
    broker_cy("produce", topic, stdin=b"x\n" * 5)
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "client.id": "the-client"})
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(1.0), "a record")
        head, *rest = broker_cy("groups", "describe", name).out.splitlines()
        assert head.startswith(f"group {name}: share, Stable, simple, coordinator 1, 1 member, epoch ")
        assert rest[1].split()[:2] == ["the-client", "share"]
        # It has acknowledged nothing yet.
        assert rest[-1].split() == [topic, "0", "-", "0", "-"]
        assert "1 member (the-client); stop them" in broker_cy("groups", "reset", name, "--to-latest", code=1).err
    finally:
        consumer.close()
    until(lambda: broker_cy("groups", "describe", name, "--json").json[0]["state"] == "Empty", "the group to be empty")
    broker_cy("groups", "reset", name, "--to-latest", "--yes")
    assert broker_cy("lag", name, "--json").json[0]["lag"] == 0
    broker_cy("groups", "reset", name, "--to-earliest", "--yes")
    assert broker_cy("lag", name, "--json").json[0]["lag"] == 5
    assert broker_cy("groups", "delete-offsets", name, "--topic", topic, "--yes").out == "deleted 1 committed offset\n"
    assert broker_cy("groups", "delete", name, "--yes", "--json").json == {"deleted": [name]}


def test_a_streams_group_shows_its_status(broker_cy: Cli, broker: Target, name: str) -> None:
    """If this fails, operators do not see why an application of Kafka Streams does nothing."""
    heartbeat = m.StreamsGroupHeartbeatRequest(
        group_id=name,
        member_id="m",
        rebalance_timeout_ms=10_000,
        topology=m.StreamsGroupHeartbeatRequest.Topology(
            subtopologies=[m.StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=["absent"])]
        ),
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    # It lets the broker create the topic with the group.
    coordinator = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
    until(
        lambda: ask(broker.port, coordinator, m.FindCoordinatorResponse).coordinators[0].error_code == 0,
        "the coordinator",
        interval_s=0.1,
    )
    until(
        lambda: ask(broker.port, heartbeat, m.StreamsGroupHeartbeatResponse).error_code == 0,
        "the member",
        interval_s=0.1,
    )
    status = "streams status: MISSING_SOURCE_TOPICS: Source topics absent are missing."

    def shown() -> list[str]:
        return broker_cy("groups", "describe", name).out.splitlines()

    # Events are written a moment later; Apache Kafka has none.
    if not target_is_kafka():
        until(lambda: status in shown(), "the status", interval_s=0.1)
        (epoch,) = (line for line in shown() if line.startswith("last epoch: "))
        assert epoch == "last epoch: join of test"
        (fields,) = broker_cy("groups", "describe", name, "--json").json
        assert [each["status"] for each in fields["statuses"]] == ["MISSING_SOURCE_TOPICS"]
        assert fields["epoch_trigger"]["reason"] == "join"
    assert "NotReady" in shown()[0]


def test_groups_with_members(broker_cy: Cli, broker: Target, new_topic: NewTopic, name: str) -> None:
    """If this fails, an active group is reset or deleted while its members run, or its members are not shown."""
    topic = new_topic(1)
    broker_cy("produce", topic, stdin=b"x\n" * 5)
    # Its name contains control characters.
    group = f"{name}\x1b[31m"
    consumer = new_consumer(broker.bootstrap, group, client_id="the-client")
    try:
        consumer.subscribe([topic])
        take(consumer, 5)
        consumer.commit(asynchronous=False)
        shown = broker_cy("groups", "list", "--state", "Stable").out
        assert f"{name}\\x1b[31m" in shown
        assert "is not one of" in broker_cy("groups", "list", "--state", "Odd", code=2).err
        assert "\x1b" not in shown
        (listed,) = (each for each in broker_cy("groups", "list", "--json").json if each["group_id"] == group)
        assert (listed["state"], listed["group_type"], listed["coordinator_id"]) == ("Stable", "classic", 1)
        (described,) = broker_cy("groups", "describe", group, "--json").json
        assert [member["client_id"] for member in described["members"]] == ["the-client"]
        assert described["members"][0]["assignment"] == [{"topic": topic, "partition": 0}]
        assert f"{topic} 0" in broker_cy("groups", "describe", group).out
        active = broker_cy("groups", "reset", group, "--to-earliest", "--yes", code=1).err
        assert "the group is Stable with 1 member (the-client); stop them first" in active
        assert "NON_EMPTY_GROUP" in broker_cy("groups", "delete", group, "--yes", code=1).err
        refused = broker_cy("groups", "delete-offsets", group, "--topic", topic, "--yes", code=1).err
        assert "subscribed to the topic" in refused
    finally:
        close_consumer(consumer)
    until(lambda: broker_cy("groups", "describe", group, "--json").json[0]["state"] == "Empty", "the group to be empty")
    refused = broker_cy("groups", "delete-offsets", group, "--topic", "x:0-1", "--yes", code=2).err
    assert "no offset is committed for x:0,1" in refused
    assert (
        broker_cy("groups", "delete-offsets", group, "--topic", f"{topic}:0", "--yes").out
        == "deleted 1 committed offset\n"
    )
    broker_cy("groups", "delete", group, code=4)
    assert broker_cy("groups", "delete", group, "--yes", "--json").json == {"deleted": [group]}


def test_lag_is_reported_and_judged(broker_cy: Cli, broker: Target, new_topic: NewTopic, name: str) -> None:
    """If this fails, the stalled group is not reported."""
    topic = new_topic(2)
    broker_cy("produce", topic, "-p", "0", "--timestamp", "-1h", stdin=b"x\n" * 10)
    broker_cy("groups", "reset", name, "--to-offset", "4", "--topic", topic, "--yes")
    (row,) = broker_cy("lag", name).rows()
    assert [cell.strip() for cell in row] == [name, "2", "6"]
    (told,) = broker_cy("lag", name, "--time", "--samples", "2", "--every", "10ms", "--json").json
    assert (told["lag"], told["complete"], told["status"]) == (6, True, "STOPPED")
    assert 3_600_000 <= told["time_lag_ms"] < 3_900_000
    assert told["trend"]["catch_up_s"] is None

    def time_is_from(source: str) -> bool:
        parts = [line.split() for line in broker_cy("lag", name, "--partitions", "--time").out.splitlines()[1:]]
        assert [part[2:6] for part in parts] == [["0", "4", "10", "6"], ["1", "0", "0", "0"]]
        assert parts[0][6:8] == ["1", "h"]
        # The minutes, if there are some, come before it.
        return source in parts[0][8:]

    until(lambda: time_is_from("record" if broker.target == "kafka" else "event"), "the time's source")
    assert broker_cy("lag", "--match", "no-such-group.*").rows() == []
    assert "group no-such-group: the group does not exist" in broker_cy("lag", "no-such-group", code=2).err
    assert broker_cy("lag", "--match", f"{name}.*", "--json").json[0]["group_id"] == name
    assert "is not a valid regular expression" in broker_cy("lag", "--match", "(", code=2).err
    assert "30s, 15m" in broker_cy("lag", "--every", "5", code=2).err


def test_producers_and_transactions(broker_cy: Cli, broker: Target, new_topic: NewTopic, name: str) -> None:
    """If this fails, the shell does not show which producer keeps readers waiting."""
    topic = new_topic(1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(60) == 0
    try:
        (state,) = broker_cy("producers", topic, "--json").json
        assert (state["topic"], state["partition"], state["txn_start_offset"]) == (topic, 0, 0)
        assert broker_cy("producers", topic, "-p", "0").rows()
        listed = broker_cy("transactions", "list", "--state", "Ongoing", "--match", name, "--json").json
        assert [(each["transactional_id"], each["producer_id"]) for each in listed] == [(name, state["producer_id"])]
        (described,) = broker_cy("transactions", "describe", name, "--json").json
        assert described["partitions"] == [{"topic": topic, "partition": 0}]
        assert name in broker_cy("transactions", "describe", name).out
        assert broker_cy("transactions", "hanging", "--topic", topic, "--max-timeout", "1ms", "--json").json == []
        abort = ["transactions", "abort", topic, "0", "--producer-id"]
        wrong = broker_cy(*abort, "999999", "--yes", code=2).err
        assert f"producers that have one: {state['producer_id']}" in wrong
        assert "open from offset 0 on, will be aborted" in broker_cy(*abort, str(state["producer_id"]), code=4).err
        broker_cy(*abort, str(state["producer_id"]), "--yes")
        (state,) = broker_cy("producers", topic, "--json").json
        assert state["txn_start_offset"] is None
        assert broker_cy("consume", topic, "-e", "--committed").out == ""
        assert "does not know the state Odd" in broker_cy("transactions", "list", "--state", "Odd", code=1).err
    finally:
        # The coordinator still considers it open.
        producer.abort_transaction(60)


def test_cluster_and_log_directories(broker_cy: Cli, broker: Target, new_topic: NewTopic) -> None:
    """If this fails, a user's first view of a cluster is wrong."""
    topic = new_topic(1)
    broker_cy("produce", topic, stdin=b"x" * 5000 + b"\n")
    described = broker_cy("cluster", "describe", "--json").json
    assert [(each["broker_id"], each["port"]) for each in described["brokers"]] == [(1, broker.port)]
    assert f"127.0.0.1:{broker.port}" in broker_cy("cluster", "describe").out
    assert "metadata.version" in by_name(broker_cy("cluster", "features", "--json"))
    assert by_name(broker_cy("cluster", "apis", "--broker", "1", "--json"))["ListOffsets"]["min_version"] == 1
    assert "no broker 9" in broker_cy("cluster", "apis", "--broker", "9", code=2).err
    assert ["18", "ApiVersions", "0", "to", "4"] in [
        line.split() for line in broker_cy("cluster", "apis").out.splitlines()
    ]
    (directory,) = broker_cy("log-dirs", "--topic", topic, "--json").json
    assert directory["path"] == str(broker.data_dir)
    assert 5000 < directory["replicas"][0]["size_bytes"] < 5200
    assert topic in broker_cy("log-dirs", "--replicas").out
    assert "ok" in broker_cy("log-dirs").rows()[0][2]
    assert broker_cy("cluster", "quorum").out.startswith("leader 1, epoch ")
