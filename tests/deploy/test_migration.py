"""playbooks/migrate_from_kafka.yml on a running cluster of Apache Kafka 4.3.1, forward, back and forward again. A
producer with acks=all and a consumer group work meanwhile: they get no error, no acknowledged record is lost, and each
is read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.launch.nodes import broker_command
from bench.steady_clients.programs import CLIENTS, LineProgram
from broker_cy.launch.processes import ProcessError, run
from tests.deploy import kafka_hosts
from tests.deploy.lab import Lab
from tests.deploy.playbooks import Recap, play
from tests.deploy.wheels import version, wheelhouse
from tests.support import needs
from tests.support.steady_client import SteadyClient
from tests.support.wait import until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.serial,
    pytest.mark.timeout(3600),
    needs.kafka_hosts,
]

PLAYBOOK = "migrate_from_kafka.yml"
TOPIC, PARTITIONS = "work", 3
NEW, OLD = ("n1", "n2", "n3"), ("n4", "n5", "n6")
NEW_IDS, OLD_IDS = {1, 2, 3}, {4, 5, 6}
WAIT_S = 120.0


class LabClient(SteadyClient):
    """The steady client, on the network of a lab."""

    def __init__(self, lab: Lab, bootstrap: str, directory: Path) -> None:
        self.topic, self.partitions = TOPIC, PARTITIONS
        self.acked, self.read, self.reported = {}, set(), []
        self.longest_gap_s = 0.0
        self._last_us = [time.time_ns() // 1000] * PARTITIONS
        words = [*CLIENTS["librdkafka"](), bootstrap, TOPIC, "readers", str(PARTITIONS)]
        LineProgram.__init__(self, lab.ctl(*words), directory, "client")


class Cluster:
    """The cluster as `broker-cy` shows it from the control node."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.servers = ",".join(f"{lab.host(name).address}:9092" for name in (*NEW, *OLD))

    def ask(self, *words: str) -> str:
        return run(
            self.lab.ctl(*broker_command(), *words, "--bootstrap", self.servers, "--timeout", "30"), timeout_s=WAIT_S
        ).stdout.decode()

    def json(self, *words: str) -> Any:
        return json.loads(self.ask(*words, "--json"))

    def brokers(self) -> set[int]:
        return {each["broker_id"] for each in self.json("brokers", "list") if each["state"] != "fenced"}

    def serves(self) -> bool:
        """Whether all brokers of Kafka are in service; they may still be starting."""
        try:
            return self.brokers() == OLD_IDS
        except ProcessError:
            return False

    def voters(self) -> set[int]:
        return {each["replica_id"] for each in self.json("quorum", "show")["voters"]}

    def holders(self) -> set[int]:
        return {each["broker_id"] for each in self.json("brokers", "list") if each["replicas"]}


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Hosts for three nodes of each kind, and the wheelhouse."""
    made = make_lab("migration", len(NEW) + len(OLD))
    wheelhouse(made)
    return made


def migrate(lab: Lab, *options: str) -> Recap:
    """Run the playbook with a few variables."""
    words = [word for option in options for word in ("-e", option)]
    return play(lab, PLAYBOOK, "-e", f"migrate_bootstrap={lab.host('n4').address}:9092", *words)


def write_inventory(lab: Lab) -> None:
    lab.write_inventory(
        {"brokers": NEW, "kafka": OLD},
        {
            "broker_version": version(),
            "broker_plaintext": True,
            "broker_client_listener": "PLAINTEXT",
            "broker_internal_listener": "PLAINTEXT",
            "broker_settings": {"num.partitions": 3},
        },
        {name: {"kafka_node_id": int(name[1:])} for name in OLD},
    )


def test_a_running_kafka_becomes_ours(lab: Lab, tmp_path: Path) -> None:
    """If this fails, the playbook loses records or stops clients during the migration from Kafka, or cannot be
    repeated.
    """
    kafka_hosts.start_kafka(lab, OLD)
    write_inventory(lab)
    cluster = Cluster(lab)
    until(cluster.serves, "Kafka's brokers", WAIT_S, 1.0)
    cluster.ask("topics", "create", TOPIC, "-p", str(PARTITIONS), "-r", "3")
    client = LabClient(lab, cluster.servers, tmp_path)
    try:
        client.go_on(WAIT_S)
        migrate(lab, "migrate_until=check")
        assert (cluster.brokers(), cluster.voters()) == (OLD_IDS, OLD_IDS)

        migrate(lab, "migrate_until=move", "migrate_throttle=50M")
        assert (cluster.brokers(), cluster.voters(), cluster.holders()) == (NEW_IDS | OLD_IDS, OLD_IDS, NEW_IDS)
        client.go_on(WAIT_S)
        assert migrate(lab, "migrate_until=move").changed == 0

        migrate(lab, "migrate_back=true")
        assert (cluster.brokers(), cluster.voters(), cluster.holders()) == (OLD_IDS, OLD_IDS, OLD_IDS)
        client.go_on(WAIT_S)

        migrate(lab, "migrate_until=finish")
        assert (cluster.brokers(), cluster.voters(), cluster.holders()) == (NEW_IDS, NEW_IDS, NEW_IDS)
        client.go_on(WAIT_S)
        assert migrate(lab, "migrate_until=finish").changed == 0
        for name in OLD:
            assert "inactive" in lab.ssh(name, "systemctl is-active kafka", check=False).stdout
            lab.wipe(name)
        client.go_on(WAIT_S)
        client.finish()
    finally:
        client.close()
    assert not client.reported, client.reported[:10]
    there = {
        (each["partition"], each["offset"]): each["value"]
        for each in map(json.loads, cluster.ask("consume", TOPIC, "-e", "--json").splitlines())
    }
    lost = [number for number, place in client.acked.items() if there.get(place) != str(number)]
    assert not lost, f"{len(lost)} acknowledged records are lost, such as {lost[:5]}"
    assert len(client.read) > len(client.acked) / 2
