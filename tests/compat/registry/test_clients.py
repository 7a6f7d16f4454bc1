"""Clients of four languages register a schema, and read each other's records with it.

Go, JavaScript and Python have Confluent's libraries. So has Java, if BROKER_CY_CONFLUENT_REGISTRY names a repository of
their sources (Apache-2.0; they are not on Maven Central).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.launch import go_programs
from broker_cy.launch import java_programs
from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact
from broker_cy.launch.processes import run
from tests.broker_registry.schema_types.confluent_classes import CONFLUENT, JACKSON, class_path
from tests.support import needs, node, public_suites
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess, running_registry

HERE = Path(__file__).parent
RUN_S, INSTALL_S = 120.0, 500.0
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int"}],
    },
    separators=(",", ":"),
)
_JAVA_JARS = (
    Artifact("com.google.guava", "guava", "33.4.0-jre"),
    Artifact("org.apache.httpcomponents.client5", "httpclient5", "5.4.4"),
    Artifact("org.bouncycastle", "bctls-jdk18on", "1.80"),
    Artifact("com.fasterxml.jackson.dataformat", "jackson-dataformat-csv", JACKSON),
)
Words = list[str | Path]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3 * INSTALL_S)]


def go() -> Words:
    needs.require(needs.go)
    return [go_programs.program(HERE / "go_client")]


def javascript() -> Words:
    names = ("package.json", "package-lock.json", "client.mjs")
    digest = hashlib.sha256(b"".join((HERE / "node_client" / name).read_bytes() for name in names)).hexdigest()

    def make(directory: Path) -> None:
        for name in names:
            shutil.copy(HERE / "node_client" / name, directory)
        run(["npm", "ci", "--no-audit", "--no-fund"], cwd=directory, timeout_s=INSTALL_S)

    return [node.node(), made_once(f"registry-node-{digest[:16]}", make) / "client.mjs"]


def python() -> Words:
    requirements = HERE / "confluent_requirements.txt"
    return [
        public_suites.environment("confluent-kafka", Path(sys.executable), requirements),
        HERE / "python_client.py",
    ]


def java() -> Words:
    jars = class_path("avro-serializer", _JAVA_JARS, ("KafkaAvroSerializer", "KafkaAvroDeserializer"))
    return ["java", "-cp", f"{java_programs.classes(HERE / 'RegistryClient.java', jars)}:{jars}", "RegistryClient"]


CLIENTS: Mapping[str, Callable[[], Words]] = {"go": go, "javascript": javascript, "python": python}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path_factory.mktemp("broker"), QUICK)
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running_registry(broker.bootstrap, tmp_path_factory.mktemp("registry")) as found:
        yield found


def test_records_of_each_language_are_read_by_each(broker: BrokerProcess, registry: RegistryProcess) -> None:
    """If this fails, services in different languages do not understand each other's records."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(RUN_S)
    makers = {**CLIENTS, "java": java} if CONFLUENT is not None else CLIENTS
    clients = {name: make() for name, make in makers.items()}
    where: Words = [registry.url, broker.bootstrap, topic]
    for count, (name, words) in enumerate(clients.items()):
        run([*words, "write", *where, SCHEMA, name, str(count)], timeout_s=RUN_S)
    schema_id = registry.get(f"/subjects/{topic}-value/versions/latest")["id"]
    assert registry.get(f"/subjects/{topic}-value/versions") == [1]
    expected: list[list[Any]] = [[schema_id, name, count] for count, name in enumerate(clients)]
    for name, words in clients.items():
        shown = run([*words, "read", *where, str(len(clients))], timeout_s=RUN_S).stdout
        assert json.loads(shown.splitlines()[-1]) == expected, name
