"""librdkafka's own tests of ACLs, logins, re-authentication, of consumers with the consumer protocol, and of share
consumers (tools/librdkafka_suite.sh compiles them).
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.launch import kafka_dist
from bench.launch.cluster_nodes import THREE
from tests.support import needs
from tests.support.broker import BrokerProcess, target_is_kafka
from tests.support.cluster import DISTURBED, ClusterNode, cluster
from tests.support.sasl_broker import ALICE, PASSWORD
from tests.support.tls_broker import TlsBroker

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(target_is_kafka(), reason="about our own settings"),
    needs.librdkafka_suite,
]
BUILD_S, RUN_S = 900, 900
# Some of its tests call this script, which starts a JVM, with a limit of 20 s.
SLOWNESS = 6
SHARES = {
    # Its tests set locks of a second.
    "group.share.min.record.lock.duration.ms": "1000",
    # A member learns its first partitions with its second heartbeat, which each of some 200 tests waits for.
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="session")
def suite() -> Path:
    script = Path(__file__).parents[2] / "tools" / "librdkafka_suite.sh"
    done = subprocess.run(["sh", script], capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def run(
    suite: Path,
    number: str,
    directory: Path,
    settings: Mapping[str, str],
    *options: str,
    protocol: str = "classic",
    version: str = "4.0.0",
) -> str:
    """Run one test, with consumers of this group.protocol, as with this version of Kafka. Returns its output."""
    bin_directory = directory / "kafka" / "bin"
    bin_directory.mkdir(parents=True, exist_ok=True)
    script = bin_directory / "kafka-acls.sh"
    command = shlex.join(map(str, kafka_dist.tool_command("org.apache.kafka.tools.AclCommand")))
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    conf = directory / "test.conf"
    lines = {**settings, "test.timeout.multiplier": str(SLOWNESS)}
    conf.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    environment = {
        **os.environ,
        "TESTS": number,
        "RDKAFKA_TEST_CONF": str(conf),
        "KAFKA_PATH": str(directory / "kafka"),
        "BROKERS": settings["metadata.broker.list"],
        "TEST_KAFKA_VERSION": version,
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "LD_LIBRARY_PATH": f"{suite}/../src:{suite}/../src-cpp",
    }
    command_line = [str(suite / "test-runner"), "-L", "-p1", *options]
    done = subprocess.run(
        command_line, cwd=suite, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def with_acls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "num.partitions": "4",
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("acls"), settings)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("plain"), {"num.partitions": "4"})
    broker.start()
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def with_shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **SHARES,
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("shares"), settings)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def three_with_shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterNode]]:
    with cluster(tmp_path_factory.mktemp("three"), settings={**DISTURBED, **THREE, **SHARES}) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("logins"), {"connections.max.reauth.ms": "10000"})
    broker.start()
    yield broker
    broker.close()


@pytest.mark.timeout(BUILD_S + RUN_S)
@pytest.mark.parametrize(("number", "name"), [("0081", "admin"), ("0115", "producer_auth"), ("0119", "consumer_auth")])
def test_rights(suite: Path, with_acls: BrokerProcess, tmp_path: Path, number: str, name: str) -> None:
    """If this fails, librdkafka clients get other errors than with Kafka when ACLs deny access, or cannot change
    ACLs.
    """
    # Without -Q, the admin test also needs three nodes.
    shown = run(suite, number, tmp_path, {"metadata.broker.list": with_acls.bootstrap}, "-Q")
    assert f"Test {number}_{name} PASSED" in shown


@pytest.mark.timeout(BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("number", "name", "subtests"), [("0135", "sasl_credentials", 2), ("0142", "reauthentication", 5)]
)
def test_logins(suite: Path, with_logins: TlsBroker, tmp_path: Path, number: str, name: str, subtests: int) -> None:
    """If this fails, clients lose records when their session ends, or cannot log in with other credentials."""
    settings = {
        "metadata.broker.list": f"{with_logins.host}:{with_logins.ports[1]}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ALICE,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(with_logins.directory / "authority.pem"),
    }
    shown = run(suite, number, tmp_path, settings)
    assert f"Test {number}_{name} PASSED" in shown
    assert shown.count(": PASS (") == subtests


@pytest.mark.timeout(BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("0018", "cgrp_term"),
        ("0022", "consume_batch"),
        ("0030", "offset_commit"),
        ("0033", "regex_subscribe"),
        ("0045", "subscribe_update"),
        ("0050", "subscribe_adds"),
        ("0056", "balanced_group_mt"),
        ("0069", "consumer_add_parts"),
        ("0086", "purge_remote"),
        ("0089", "max_poll_interval"),
        ("0099", "commit_metadata"),
        ("0102", "static_group_rebalance"),
        ("0113", "cooperative_rebalance"),
        ("0118", "commit_rebalance"),
        ("0122", "buffer_cleaning_after_rebalance"),
        ("0137", "barrier_batch_consume"),
        ("0153", "memberid"),
    ],
)
def test_consumer_protocol(suite: Path, plain: BrokerProcess, tmp_path: Path, number: str, name: str) -> None:
    """If this fails, librdkafka's consumers with group.protocol=consumer do not work as with Kafka."""
    shown = run(suite, number, tmp_path, {"metadata.broker.list": plain.bootstrap}, "-Q", protocol="consumer")
    assert f"Test {number}_{name} PASSED" in shown


@pytest.mark.timeout(BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("0170", "subscription"),
        ("0171", "consume"),
        ("0172", "acknowledge"),
        ("0173", "commit_async"),
        ("0174", "concurrency"),
        ("0175", "groups"),
        ("0176", "commit_sync"),
        ("0177", "transactions"),
        ("0178", "close"),
        ("0180", "config"),
        ("0181", "topic_delete"),
        ("0184", "topic_recreate"),
        ("0185", "max_poll_interval"),
    ],
)
def test_share_consumers(suite: Path, with_shares: BrokerProcess, tmp_path: Path, number: str, name: str) -> None:
    """If this fails, librdkafka's share consumers do not work as with Kafka.

    Left out: 0182, 0183 and 0186 run against librdkafka's mock of a broker; 0190 runs by hand, and reads the metrics
    that a plugin of the broker writes to a topic.
    """
    settings = {"metadata.broker.list": with_shares.bootstrap}
    shown = run(suite, number, tmp_path, settings, protocol="consumer", version="4.3.1")
    assert f"Test {number}_share_consumer_{name} PASSED" in shown


@pytest.mark.timeout(BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("0170", "subscription"),
        ("0172", "acknowledge"),
        ("0174", "concurrency"),
        ("0177", "transactions"),
        # It expects a topic of two partitions to have two leaders: one poll returns the records of one of them.
        ("0179", "destroy"),
    ],
)
def test_share_consumers_of_three_nodes(
    suite: Path, three_with_shares: list[ClusterNode], tmp_path: Path, number: str, name: str
) -> None:
    """If this fails, librdkafka's share consumers do not work with leaders and coordinators on several nodes."""
    settings = {"metadata.broker.list": ",".join(node.bootstrap for node in three_with_shares)}
    shown = run(suite, number, tmp_path, settings, protocol="consumer", version="4.3.1")
    assert f"Test {number}_share_consumer_{name} PASSED" in shown
