"""Users of each kind against our broker and Apache Kafka, in whole runs from the command line."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from loadgen.report.result import Result
from tests.loadgen.run.kit import Load
from tests.loadgen.users.kit import run_users
from tests.support.broker import Target
from tests.support.wait import until


@pytest.fixture
def topic() -> str:
    return f"users-{uuid.uuid4().hex[:8]}"


# Half a second of 200/s: see kit.PRODUCER.
NEAR_THE_BEGINNING = 100


def requests(result: Result, operation: str) -> int:
    found = result.operations.get(operation)
    return 0 if found is None else found.requests


def errors(result: Result, *expected: str) -> dict[str, dict[str, int]]:
    """The errors of all operations, without those that are expected."""
    found = {
        name: {error: count for error, count in each.errors.items() if error not in expected}
        for name, each in result.operations.items()
    }
    return {name: each for name, each in found.items() if each}


def topics_of(broker: Target) -> list[str]:
    return list(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics)


@pytest.mark.full
def test_consumers_read_each_record_once(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, consumers read records twice, or EndToEnd does not measure the records' latency."""
    users = '[[users]]\nkind = "consumer"\nname = "readers"\ncount = 3\n'
    found = run_users(tmp_path, either_broker, topic, users, seconds=8)
    assert errors(found) == {}
    fetched, end_to_end = (found.operations[name] for name in ("Fetch", "EndToEnd"))
    verification = found.verification
    assert verification is not None
    assert 0 < fetched.records <= verification.total("acknowledged")
    # The two counts begin differently. Fetch omits requests that began before the measured time, with their records;
    # EndToEnd omits records written before it. On a slow machine, these are the records of half a second.
    assert abs(end_to_end.records - fetched.records) <= NEAR_THE_BEGINNING
    assert end_to_end.records > NEAR_THE_BEGINNING
    assert end_to_end.latency is not None
    assert fetched.latency is not None


@pytest.mark.full
def test_a_consumer_begins_again(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, `repeat` does not keep a broker busy with the existing records."""
    users = '[[users]]\nkind = "consumer"\nname = "again"\nfrom = "earliest"\nrepeat = true\nmax_wait_ms = 50\n'
    found = run_users(tmp_path, either_broker, topic, users)
    assert found.counts["repeats"] > 4
    assert found.operations["Fetch"].records > found.operations["Produce"].records


def test_members_of_the_consumer_protocol_come_and_go(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, groups of the newer protocol (KIP-848) cannot be put under load, or lose records."""
    users = f"""
[[users]]
kind = "group-member"
name = "members"
group = "{topic}"
count = 4
protocol = "consumer"
churn = "leave"
churn_every = "1s"
rejoin_after = "100ms"
commit_every = "300ms"
from = "earliest"
"""
    found = run_users(tmp_path, either_broker, topic, users, seconds=5)
    # A commit that crosses a new epoch is refused, and the next one follows.
    assert errors(found, "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH") == {}
    assert found.counts["leaves"] > 0
    assert found.counts["rebalances"] > 0
    for operation in ("ConsumerGroupHeartbeat", "OffsetFetch", "OffsetCommit", "Fetch", "EndToEnd", "Rebalance"):
        assert requests(found, operation) > 0, operation
    assert requests(found, "JoinGroup") == 0


def test_share_consumers_accept_release_and_reject(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, share groups (KIP-932) cannot be put under load, or a kind of acknowledgement is not sent."""
    users = f"""
[[users]]
kind = "share-consumer"
name = "sharers"
group = "{topic}"
count = 2
release_share = 0.2
reject_share = 0.1
max_wait_ms = 200
from = "earliest"
"""
    # A member gets its partitions with its second heartbeat, after 5 s.
    found = run_users(tmp_path, either_broker, topic, users, seconds=10)
    assert errors(found) == {}
    delivered, acknowledged = (found.operations[name].records for name in ("ShareFetch", "ShareAcknowledge"))
    assert delivered > 500
    # A poll that began before the measured time is left out, and its acknowledgements are not.
    assert abs(acknowledged - delivered) <= NEAR_THE_BEGINNING
    counts = found.counts
    total = counts["accepted"] + counts["released"] + counts["rejected"]
    assert counts["released"] / total == pytest.approx(0.2, abs=0.06)
    assert counts["rejected"] / total == pytest.approx(0.1, abs=0.05)
    # Released records come again; those that were released last may not have come yet.
    assert 0.5 * counts["released"] < counts["redelivered"] <= counts["released"]
    verification = found.verification
    assert verification is not None
    assert counts["accepted"] + counts["rejected"] <= verification.total("acknowledged")
    assert requests(found, "EndToEnd") > 0


@pytest.mark.parametrize(
    ("churn", "static", "assignor"),
    [
        pytest.param("leave", "false", "range", marks=pytest.mark.full),
        pytest.param("kill", "false", "roundrobin", marks=pytest.mark.full),
        pytest.param("pause", "false", "range", marks=pytest.mark.full),
        pytest.param("kill", "true", "range", marks=pytest.mark.full),
    ],
)
def test_groups_with_members_that_come_and_go(
    either_broker: Target, topic: str, tmp_path: Path, churn: str, static: str, assignor: str
) -> None:
    """If this fails, members do not come back after a churn, or their rebalances are not measured."""
    stays_away = 'pause_for = "1200ms"' if churn == "pause" else 'rejoin_after = "100ms"'
    users = f"""
[[users]]
kind = "group-member"
name = "members"
group = "{topic}"
count = 4
groups = 2
static = {static}
assignor = "{assignor}"
session_timeout_ms = 800
heartbeat_interval_ms = 100
rebalance_timeout_ms = 5000
churn = "{churn}"
churn_every = "1s"
{stays_away}
commit_every = "300ms"
from = "earliest"
"""
    found = run_users(tmp_path, either_broker, topic, users, seconds=5)
    fenced = (
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "REBALANCE_IN_PROGRESS",
        "FENCED_INSTANCE_ID",
        # A member id that had expired when the member joined with it.
        "MEMBER_ID_REQUIRED",
    )
    assert errors(found, *fenced) == {}
    assert found.counts[f"{churn}s"] > 0
    assert found.counts["rebalances"] > 0
    for operation in ("Heartbeat", "JoinGroup", "SyncGroup", "OffsetCommit", "Fetch", "EndToEnd", "Rebalance"):
        assert requests(found, operation) > 0, operation
    assert (requests(found, "LeaveGroup") > 0) == (churn == "leave")


@pytest.mark.full
def test_slow_consumers_build_up_lag(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, slow consumers keep up, or lose their membership although they are only slow."""
    users = f"""
[[users]]
kind = "slow-consumer"
name = "slow"
group = "{topic}"
count = 2
records_per_second = 20
max_poll_records = 5
session_timeout_ms = 6000
heartbeat_interval_ms = 100
"""
    found = run_users(tmp_path, either_broker, topic, users)
    assert errors(found) == {}
    # 40 records a second of 200, in polls of 5.
    assert 0 < requests(found, "OffsetCommit") <= 30
    assert found.counts.get("fenced", 0) == 0


@pytest.mark.full
def test_a_consumer_that_is_too_slow_leaves_its_group(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, max.poll.interval.ms has no effect."""
    users = f"""
[[users]]
kind = "slow-consumer"
name = "slow"
group = "{topic}"
delay_ms = 600
max_poll_interval_ms = 300
heartbeat_interval_ms = 100
session_timeout_ms = 6000
"""
    found = run_users(tmp_path, either_broker, topic, users, seconds=4)
    assert found.counts["max.poll.interval exceeded"] >= 2
    assert requests(found, "LeaveGroup") >= 2
    assert requests(found, "Rebalance") >= 2


def test_copies_are_exact(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, copiers lose or duplicate records, or read_committed returns records that they aborted."""
    users = f"""
[[users]]
kind = "transactional-copier"
name = "copiers"
count = 2
target = "{topic}-copies"
target_partitions = 3
group = "{topic}"
transactional_id = "{topic}"
records_per_transaction = 10
abort_share = 0.3
heartbeat_interval_ms = 100
"""
    found = run_users(tmp_path, either_broker, topic, users, seconds=4)
    assert errors(found, "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION") == {}
    assert found.counts["transactions committed"] > 0
    assert found.counts["transactions aborted"] > 0
    verification = found.verification
    assert verification is not None
    copies = [each for each in verification.partitions if each.topic == f"{topic}-copies"]
    originals = [each for each in verification.partitions if each.topic == topic]
    assert len(copies) == 3
    copied = sum(each.counts["read"] for each in copies)
    assert copied == sum(each.counts["acknowledged"] for each in copies)
    assert sum(each.counts["sent"] for each in copies) > copied > 0
    assert copied <= sum(each.counts["read"] for each in originals)
    for operation in ("Transaction", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn"):
        assert requests(found, operation) > 0, operation
    assert f"{topic}-copies" not in topics_of(either_broker)


ADMIN = """
[[users]]
kind = "admin-churn"
name = "admins"
count = 2
rate = "30/s"
prefix = "{topic}-own"
topics = 4
operations = [
    "create-topic", "describe-topic", "delete-topic", "create-partitions", "alter-config", "describe-config",
    "list-groups", "describe-cluster", "list-offsets",
]
"""


@pytest.mark.full
def test_admin_operations_leave_nothing_behind(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, admin-churn fails for one of its operations, or leaves topics behind."""
    found = run_users(tmp_path, either_broker, topic, ADMIN.format(topic=topic), seconds=4)
    # A broker may answer for a topic before it has the controller's latest change.
    assert errors(found, "UNKNOWN_TOPIC_OR_PARTITION") == {}
    for operation in (
        "CreateTopics", "Metadata", "DeleteTopics", "CreatePartitions", "IncrementalAlterConfigs", "DescribeConfigs",
        "ListGroups", "DescribeCluster", "ListOffsets",
    ):  # fmt: skip
        assert requests(found, operation) > 0, operation
    assert [each for each in topics_of(either_broker) if each.startswith(topic)] == []


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_interrupted_run_leaves_no_topics(own_broker: Target, topic: str, tmp_path: Path, processes: str) -> None:
    """If this fails, Ctrl-C leaves the topics of admin-churn behind."""

    def interrupt(running: Load) -> None:
        running.shows("CreateTopics")
        running.interrupt()

    found = run_users(
        tmp_path, own_broker, topic, ADMIN.format(topic=topic), "--processes", processes, seconds=600,
        meanwhile=interrupt,
    )  # fmt: skip
    assert found.ended is not None
    assert [each for each in topics_of(own_broker) if each.startswith(topic)] == []


@pytest.mark.full
@pytest.mark.parametrize("request_", ["api-versions", "metadata", "none"])
def test_connection_storms(either_broker: Target, topic: str, tmp_path: Path, request_: str) -> None:
    """If this fails, connections are not opened at the rate, or not held."""
    users = f"""
[[users]]
kind = "connection-storm"
name = "storm"
count = 5
connections = 20
hold = "200ms"
request = "{request_}"
rate = "100/s"
"""
    found = run_users(tmp_path, either_broker, topic, users, seconds=2)
    assert errors(found) == {}
    # The last connections may be counted after the end, and the warm-up's last ones in the first second.
    assert requests(found, "Connect") == pytest.approx(200, abs=20)
    asked = {"api-versions": "ApiVersions", "metadata": "Metadata"}.get(request_)
    if asked is not None:
        assert requests(found, asked) == pytest.approx(requests(found, "Connect"), abs=5)


@pytest.mark.full
def test_connections_are_held(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, idle connections are closed, or more than requested are opened."""
    users = """
[[users]]
kind = "connection-storm"
name = "idle"
count = 2
connections = 150
hold = "1h"
"""

    # All connections may be opened in the warm-up, which the result does not count: so the test checks the broker's
    # descriptors.
    def descriptors() -> int:
        return len(os.listdir(f"/proc/{own_broker.pid}/fd"))

    before = descriptors()

    def held(load: Load) -> None:
        until(lambda: descriptors() >= before + 300, "300 connections")

    found = run_users(tmp_path, own_broker, topic, users, seconds=5, meanwhile=held)
    assert errors(found) == {}
    assert requests(found, "Connect") <= 300
    assert "connections closed by a broker" not in found.counts


@pytest.mark.full
def test_probes_measure_from_end_to_end(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, probes do not find their records, or measure less than the round trip."""
    users = '[[users]]\nkind = "probe"\nname = "probes"\ncount = 2\nrate = "20/s"\npartitions = 3\n'
    found = run_users(tmp_path, either_broker, topic, users)
    assert errors(found) == {}
    probe = found.operations["Probe"]
    assert probe.requests == pytest.approx(60, abs=15)
    assert probe.latency is not None


@pytest.mark.full
def test_users_recover_from_the_death_of_a_broker(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, users end or spin when a broker is killed, or do not continue when it is back."""
    users = f"""
[[users]]
kind = "consumer"
name = "readers"

[[users]]
kind = "group-member"
name = "members"
group = "{topic}-members"
count = 2
session_timeout_ms = 1000
heartbeat_interval_ms = 100
commit_every = "200ms"

[[users]]
kind = "slow-consumer"
name = "slow"
group = "{topic}-slow"
records_per_second = 500
session_timeout_ms = 1000
heartbeat_interval_ms = 100

[[users]]
kind = "transactional-copier"
name = "copiers"
count = 2
target = "{topic}-copies"
group = "{topic}-copiers"
transactional_id = "{topic}"
records_per_transaction = 10
abort_share = 0.1
session_timeout_ms = 1000
heartbeat_interval_ms = 100

[[users]]
kind = "share-consumer"
name = "sharers"
group = "{topic}-share"
count = 2
release_share = 0.1

[[users]]
kind = "probe"
name = "probes"
rate = "20/s"

[[users]]
kind = "connection-storm"
name = "storm"
connections = 20
hold = "100ms"
rate = "50/s"
"""
    users += ADMIN.format(topic=topic)

    def kill(running: Load) -> None:
        running.shows("Transaction")
        own_broker.kill()
        own_broker.restart()

    found = run_users(tmp_path, own_broker, topic, users, seconds=15, meanwhile=kill)
    for operation in (
        "Produce",
        "Fetch",
        "Heartbeat",
        "OffsetCommit",
        "Transaction",
        "Probe",
        "Connect",
        "CreateTopics",
        "ShareFetch",
        "ShareAcknowledge",
    ):
        of_last = found.series.operations[operation].requests_per_s[-6:]
        assert any(of_last), f"{operation} in the last seconds: {of_last}"
    # No user sent requests to an unavailable broker in a tight loop.
    assert sum(each.failures for each in found.operations.values()) < 5_000
    assert [each for each in topics_of(own_broker) if each.startswith(topic)] == []
